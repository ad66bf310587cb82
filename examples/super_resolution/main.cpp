// super_resolution: trains a network that doubles the size of pictures, enlarges pictures with it, and measures it.
#include "pictures.h"
#include "training.h"
#include "upscale.h"

#include "common/program.h"

#include <adjoint/core/error.h>
#include <adjoint/data/image.h>

#include <fmt/format.h>

#include <memory>
#include <string>

namespace super_resolution {
namespace {

void enlarge(const std::string& model_path, const std::string& from, const std::string& to, adjoint::Device device) {
  Model model = load_model(model_path);
  model.to(device);
  const adjoint::Tensor low = adjoint::data::read_image(from);
  adjoint::data::write_image(to, upscale(model, low, device));
  fmt::print("{}: {} x {} pixels\n", to, kScale * low.size(2), kScale * low.size(1));
}

void evaluate(const std::string& model_path, const std::string& images, adjoint::Device device) {
  Model model = load_model(model_path);
  model.to(device);
  const auto paths = adjoint::data::list_images(images);
  if (paths.empty()) throw adjoint::Error(fmt::format("super_resolution: '{}' holds no PNG or JPEG file", images));
  const PictureSet pictures = PictureSet::of_files(paths);
  Quality mean;
  fmt::print("{:>10} {:>10} {:>7}  picture\n", "bicubic", "Adjoint", "gain");
  const auto row = [](const Quality& q, const std::string& name) {
    fmt::print("{:>7.2f} dB {:>7.2f} dB {:>+7.2f}  {}\n", q.bicubic, q.adjoint, q.adjoint - q.bicubic, name);
  };
  for (std::int64_t i = 0; i < pictures.size(); ++i) {
    const Quality quality = measure(model, luma_pair(pictures.rgb(i)), device);
    mean.bicubic += quality.bicubic / static_cast<double>(pictures.size());
    mean.adjoint += quality.adjoint / static_cast<double>(pictures.size());
    row(quality, pictures.name(i));
  }
  row(mean, fmt::format("mean of {}", pictures.size()));
}

}  // namespace
}  // namespace super_resolution

int main(int argc, char** argv) {
  using namespace super_resolution;
  examples::Program program("super_resolution", "Doubles the size of pictures with a small network, and trains it.");
  Options options;
  program.defaults().steps = 1500;
  program.defaults().lr = 2e-3;
  program.steps().quick(600);
  options.add_to(program.settings());
  program.on_train([&](const examples::Run& run) { return std::make_unique<Trainer>(options, run); });

  std::string model, from, to, images;
  CLI::App& enlarging = program.verb("upscale", "Double the size of a picture",
                                     [&](adjoint::Device device) { enlarge(model, from, to, device); });
  enlarging.add_option("model", model, "model.safetensors of a training")->required();
  enlarging.add_option("input", from, "PNG or JPEG file")->required();
  enlarging.add_option("output", to, "PNG or JPEG file to write")->required();

  CLI::App& evaluating =
      program.verb("eval", "Measure a model on pictures: halve them, enlarge them, compare",
                   [&](adjoint::Device device) {
                     evaluate(model.empty() ? "out/super_resolution/model.safetensors" : model, images, device);
                   });
  evaluating.add_option("--images", images, "Folder of PNG or JPEG pictures")->required();
  evaluating.add_option("--model", model,
                        "model.safetensors of a training (where not given, that of the default --out)");
  return program.main(argc, argv);
}
