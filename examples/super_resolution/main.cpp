// super_resolution: trains a network that makes pictures 2, 3 or 4 times larger, enlarges pictures with it, and
// measures it.
#include "pictures.h"
#include "training.h"
#include "upscale.h"

#include "common/export.h"
#include "common/memory_format.h"
#include "common/output.h"
#include "common/program.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/image.h>

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace super_resolution {
namespace {

struct VerbOptions {
  std::string model = "out/super_resolution/model.safetensors", from, to, images;
  std::vector<std::string> files;
  bool self_ensemble = false, bicubic = false;
};

Model model_on(const std::string& path, adjoint::Device device, adjoint::MemoryFormat format) {
  Model model = load_model(path);
  return examples::placed(model, device, format);
}

/// Returns true if bicubic interpolation is better by more than rounding.
bool bicubic_is_better(const Quality& q) {
  return q.adjoint.psnr < q.bicubic.psnr - 0.01 || q.adjoint.ssim < q.bicubic.ssim - 5e-4;
}

/// Prints a hint if bicubic interpolation is likely to be better. The test shrinks the picture and enlarges it again in
/// both ways.
void compare_with_bicubic(const Model& model, const adjoint::Tensor& low, adjoint::Device device,
                          const VerbOptions& options) {
  const std::optional<Quality> q = expected_quality(model, low, device, options.self_ensemble);
  if (!q || !bicubic_is_better(*q)) return;
  fmt::print(
      "Bicubic interpolation may be better for this picture: shrunk and enlarged again it has {:.2f} dB, SSIM {:.4f} with "
      "it, and {:.2f} dB, SSIM {:.4f} with the model. --bicubic uses no model\n",
      q->bicubic.psnr, q->bicubic.ssim, q->adjoint.psnr, q->adjoint.ssim);
}

void enlarge(const VerbOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  examples::check_output("super_resolution", options.to);
  const Model model = model_on(options.model, device, format);
  const adjoint::Tensor low = adjoint::data::read_image(options.from, {.keep_depth = true});
  const bool deep = low.dtype() == adjoint::kFloat32;
  const adjoint::Tensor high =
      upscale(model, low, device, {.self_ensemble = options.self_ensemble, .bicubic = options.bicubic});
  adjoint::data::write_image(options.to, high, {.bit_depth = deep ? 16 : 8});
  fmt::print("{}: {} x {} pixels\n", options.to, high.size(2), high.size(1));
  if (!options.bicubic) compare_with_bicubic(model, low, device, options);
}

/// Parses the positional arguments: the model comes before the others, if --model does not name it.
void take_files(VerbOptions& options, const CLI::Option& model, std::size_t others) {
  const bool named = model.count() > 0;
  const std::size_t count = options.files.size();
  if (count != others && (named || count != others + 1)) {
    throw adjoint::Error(fmt::format("super_resolution: there must be {} files{}; got {}", others,
                                     named ? "" : ", after the model, or alone for the model in the default --out",
                                     count));
  }
  if (count > others) options.model = options.files.front();
  if (others == 0) return;
  options.from = options.files[count - 2];
  options.to = options.files[count - 1];
}

void evaluate(const VerbOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  const Model model = model_on(options.model, device, format);
  const PictureSet pictures = PictureSet::of_files(listed(options.images), model.scale());
  std::vector<Quality> qualities;
  fmt::print("{:>17} {:>17} {:>7}  picture\n", "bicubic, SSIM", "Adjoint, SSIM", "gain");
  const auto row = [](const Quality& q, const std::string& name) {
    fmt::print("{:>7.2f} dB {:.4f} {:>7.2f} dB {:.4f} {:>+7.2f}  {}{}\n", q.bicubic.psnr, q.bicubic.ssim,
               q.adjoint.psnr, q.adjoint.ssim, q.adjoint.psnr - q.bicubic.psnr, name,
               bicubic_is_better(q) ? "  (bicubic is better)" : "");
  };
  for (std::int64_t i = 0; i < pictures.size(); ++i) {
    adjoint::Tensor rgb;
    try {
      rgb = pictures.rgb(i);
    } catch (const adjoint::OutOfMemoryError&) {
      throw;
    } catch (const adjoint::Error& error) {
      fmt::print(stderr, "super_resolution: passed over: {}\n", error.what());
      continue;
    }
    qualities.push_back(measure(model, luma_pair(rgb, model.scale()), device, options.self_ensemble));
    row(qualities.back(), pictures.name(i));
  }
  if (qualities.empty())
    throw adjoint::Error(fmt::format("super_resolution: '{}' holds no picture that can be read", options.images));
  row(mean_of(qualities), fmt::format("mean of {}", qualities.size()));
}

}  // namespace
}  // namespace super_resolution

int main(int argc, char** argv) {
  using namespace super_resolution;
  examples::Program program("super_resolution", "Trains a small network that enlarges pictures.");
  program.add_memory_format();
  Options options;
  program.defaults().steps = 1500;
  program.defaults().lr = 2e-3;
  program.steps().quick(600);
  options.add_to(program.settings());
  program.on_train([&](const examples::Run& run) { return std::make_unique<Trainer>(options, run); });

  VerbOptions verb;
  const char* const ensemble = "Average the results for a picture's eight flips and turns: better, in 8 times the time";
  const CLI::Option *enlarged_by = nullptr, *evaluated_by = nullptr;
  CLI::App& enlarging =
      program.verb("upscale", "Enlarge a picture by the factor of the model", [&](adjoint::Device device) {
        take_files(verb, *enlarged_by, 2);
        enlarge(verb, device, program.memory_format());
      });
  const auto add_model = [&](CLI::App& app) {
    return app.add_option("--model", verb.model, "model.safetensors of a training; it may also precede the files")
        ->capture_default_str();
  };
  enlarged_by = add_model(enlarging);
  enlarging
      .add_option("files", verb.files,
                  "[MODEL] INPUT OUTPUT: PNG or JPEG files; a PNG file of 16 bits gives one of 16 bits")
      ->expected(2, 3)
      ->required();
  enlarging.add_flag("--self-ensemble", verb.self_ensemble, ensemble);
  enlarging.add_flag("--bicubic", verb.bicubic, "Enlarge by bicubic interpolation, by the factor of the model");

  CLI::App& evaluating = program.verb("eval", "Measure a model on pictures: shrink them, enlarge them, compare",
                                      [&](adjoint::Device device) {
                                        take_files(verb, *evaluated_by, 0);
                                        evaluate(verb, device, program.memory_format());
                                      });
  evaluating.add_option("--images", verb.images, "Folder of PNG or JPEG pictures")->required();
  evaluated_by = add_model(evaluating);
  evaluating.add_option("model", verb.files, "The model, if --model is not given")->expected(0, 1);
  evaluating.add_flag("--self-ensemble", verb.self_ensemble, ensemble);
  examples::add_export(program, [](const std::string& model, const std::string& to) {
    examples::save_onnx(to, load_model(model),
                        {.example = adjoint::Tensor::zeros({1, 1, 16, 16}),
                         .input = "luma",
                         .output = "enlarged",
                         .axes = {{0, "batch"}, {2, "height"}, {3, "width"}}});
  });
  return program.main(argc, argv);
}
