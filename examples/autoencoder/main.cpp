// autoencoder: trains autoencoders, which compress pictures, restore them, and make new ones.
#include "apply.h"
#include "trainer.h"

#include "common/export.h"
#include "common/memory_format.h"
#include "common/output.h"
#include "common/pictures.h"
#include "common/program.h"
#include "common/squares.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/array_files.h>
#include <adjoint/data/image.h>
#include <adjoint/ops/join/join.h>

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace autoencoder {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;

struct VerbOptions {
  std::string model, from, to, output;
  std::int64_t count = 64, columns = 8, steps = 10;
  std::uint64_t seed = 1;
};

void check(const char* option, std::int64_t value) { check_option(option, value, 1, 10'000); }

std::unique_ptr<Model> model_on(const std::string& path, adjoint::Device device, adjoint::MemoryFormat format) {
  std::unique_ptr<Model> model = load_model(path);
  examples::placed(model->module(), device, format);
  return model;
}

Tensor read_square(const std::string& path) {
  return examples::square_of(data::read_image(path, {.channels = data::Channels::kRGB}));
}

/// Reads one picture, or all pictures of a folder.
Tensor read_squares(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return read_square(path).unsqueeze(0);
  std::vector<Tensor> squares;
  for (const examples::Picture& picture : examples::read_pictures("autoencoder", path))
    squares.push_back(examples::square_of(picture.image));
  return adjoint::stack(squares);
}

void reconstruct(const VerbOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  check("--columns", options.columns);
  examples::check_output("autoencoder", options.output);
  const auto model = model_on(options.model, device, format);
  const Tensor pictures = read_squares(options.from);
  const Tensor back = reconstruct(*model, pictures, device);
  data::write_image(options.output, compared(pictures, back, options.columns));
  fmt::print("PSNR {:.2f} dB, of {} pictures of {:.0f} bits each\n", psnr_of(back, pictures), pictures.size(0),
             static_cast<double>(model->kept()) * model->bits());
}

void sample(const VerbOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  check("--count", options.count);
  examples::check_output("autoencoder", options.output);
  check("--columns", options.columns);
  const auto model = model_on(options.model, device, format);
  data::write_image(options.output,
                    examples::tiled(sample(*model, options.count, options.seed, device), options.columns));
}

void walk(const VerbOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  check("--steps", options.steps);
  examples::check_output("autoencoder", options.output);
  const auto model = model_on(options.model, device, format);
  const Tensor from = read_square(options.from), to = read_square(options.to);
  data::write_image(options.output, examples::tiled(walk(*model, from, to, options.steps, device), options.steps));
}

void encode(const VerbOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  examples::check_output("autoencoder", options.output, {".npy"});
  const auto model = model_on(options.model, device, format);
  data::write_npy(options.output, compress(*model, read_squares(options.from), device));
}

void decode(const VerbOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  check("--columns", options.columns);
  examples::check_output("autoencoder", options.output);
  const auto model = model_on(options.model, device, format);
  const Tensor kept = data::read_npy(options.from);
  try {
    data::write_image(options.output, examples::tiled(decompress(*model, kept, device), options.columns));
  } catch (const adjoint::OutOfMemoryError&) {
    throw;
  } catch (const adjoint::Error& error) {
    throw adjoint::Error(fmt::format("autoencoder: cannot decode '{}': {}", options.from, error.what()));
  }
}

/// Pictures -> their reconstructions.
class Reconstruction : public adjoint::nn::Module {
 public:
  explicit Reconstruction(Model& model) : Module("Reconstruction"), model_(&model) {
    register_module("model", model.module());
  }
  Tensor operator()(const Tensor& pictures) const { return model_->decode(model_->encode(pictures)); }

 private:
  const Model* model_;
};

}  // namespace
}  // namespace autoencoder

int main(int argc, char** argv) {
  using namespace autoencoder;
  examples::Program program("autoencoder", "Trains autoencoders, which compress pictures and restore them.");
  program.add_memory_format();
  Options options;
  program.defaults().lr = 2e-3;
  program.defaults().steps = 10000;
  program.defaults().batch = 64;
  program.defaults().test_every = 500;
  program.steps().quick(1500);
  options.add_to(program.settings());
  program.on_train([&](const examples::Run& run) { return std::make_unique<Trainer>(options, run); });

  VerbOptions verbs;
  const auto verb = [&](const char* name, const char* text,
                        void (*action)(const VerbOptions&, adjoint::Device, adjoint::MemoryFormat)) {
    CLI::App& app = program.verb(name, text, [&program, &verbs, action](adjoint::Device device) {
      action(verbs, device, program.memory_format());
    });
    app.add_option("model", verbs.model, "model.safetensors of a training")->required();
    return &app;
  };
  const auto output = [&](CLI::App* app, const char* text) {
    app->add_option("output", verbs.output, text)->required();
  };
  const auto columns = [&](CLI::App* app) {
    app->add_option("--columns", verbs.columns, "Pictures per row")->capture_default_str();
  };
  constexpr const char* kPictures = "PNG or JPEG file, or a folder of them";
  constexpr const char* kWritten = "PNG or JPEG file to write";

  CLI::App* app = verb("reconstruct", "Show pictures, each with its reconstruction below", reconstruct);
  app->add_option("input", verbs.from, kPictures)->required();
  output(app, kWritten);
  columns(app);

  app = verb("sample", "Make new pictures", sample);
  output(app, kWritten);
  app->add_option("--count", verbs.count, "Pictures")->capture_default_str();
  app->add_option("--seed", verbs.seed, "Seed of the random numbers")->capture_default_str();
  columns(app);

  app = verb("walk", "Make pictures between two pictures", walk);
  app->add_option("from", verbs.from, "PNG or JPEG file")->required();
  app->add_option("to", verbs.to, "PNG or JPEG file")->required();
  output(app, kWritten);
  app->add_option("--steps", verbs.steps, "Pictures")->capture_default_str();

  app = verb("encode", "Write the codes of pictures: (N, latent) numbers, or (N, 8, 8) codes", encode);
  app->add_option("input", verbs.from, kPictures)->required();
  output(app, "NPY file to write");

  app = verb("decode", "Make pictures from their codes", decode);
  app->add_option("input", verbs.from, "NPY file written by encode")->required();
  output(app, kWritten);
  columns(app);
  examples::add_export(program, [](const std::string& path, const std::string& to) {
    const auto model = load_model(path);
    examples::save_onnx(to, Reconstruction(*model),
                        {.example = Tensor::zeros({1, 3, 32, 32}),
                         .input = "pictures",
                         .output = "reconstructions",
                         .axes = {{0, "batch"}}});
  });
  return program.main(argc, argv);
}
