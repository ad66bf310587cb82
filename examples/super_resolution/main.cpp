// super_resolution: trains a network that makes pictures 2, 3 or 4 times larger, enlarges pictures with it, and
// measures it.
#include "pictures.h"
#include "training.h"
#include "upscale.h"

#include "common/output.h"
#include "common/program.h"

#include <adjoint/core/error.h>
#include <adjoint/data/image.h>

#include <fmt/format.h>

#include <memory>
#include <string>

namespace super_resolution {
namespace {

struct VerbOptions {
  std::string model, from, to, images;
  bool self_ensemble = false;
};

Model model_on(const std::string& path, adjoint::Device device) {
  Model model = load_model(path);
  model.to(device);
  return model;
}

void enlarge(const VerbOptions& options, adjoint::Device device) {
  examples::check_output("super_resolution", options.to);
  const Model model = model_on(options.model, device);
  const adjoint::Tensor low = adjoint::data::read_image(options.from, {.keep_depth = true});
  const bool deep = low.dtype() == adjoint::kFloat32;
  const adjoint::Tensor high = upscale(model, low, device, {.self_ensemble = options.self_ensemble});
  adjoint::data::write_image(options.to, high, {.bit_depth = deep ? 16 : 8});
  fmt::print("{}: {} x {} pixels\n", options.to, high.size(2), high.size(1));
}

void evaluate(const VerbOptions& options, adjoint::Device device) {
  const Model model =
      model_on(options.model.empty() ? "out/super_resolution/model.safetensors" : options.model, device);
  const PictureSet pictures = PictureSet::of_files(listed(options.images), model.scale());
  std::vector<Quality> qualities;
  fmt::print("{:>17} {:>17} {:>7}  picture\n", "bicubic, SSIM", "Adjoint, SSIM", "gain");
  const auto row = [](const Quality& q, const std::string& name) {
    fmt::print("{:>7.2f} dB {:.4f} {:>7.2f} dB {:.4f} {:>+7.2f}  {}\n", q.bicubic.psnr, q.bicubic.ssim, q.adjoint.psnr,
               q.adjoint.ssim, q.adjoint.psnr - q.bicubic.psnr, name);
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
  examples::Program program("super_resolution", "Enlarges pictures with a small network, and trains it.");
  Options options;
  program.defaults().steps = 1500;
  program.defaults().lr = 2e-3;
  program.steps().quick(600);
  options.add_to(program.settings());
  program.on_train([&](const examples::Run& run) { return std::make_unique<Trainer>(options, run); });

  VerbOptions verb;
  const char* const ensemble =
      "Average what the model makes of a picture's eight flips and turns: better, 8 times the time";
  CLI::App& enlarging = program.verb("upscale", "Enlarge a picture as many times as the model was trained to",
                                     [&](adjoint::Device device) { enlarge(verb, device); });
  enlarging.add_option("model", verb.model, "model.safetensors of a training")->required();
  enlarging.add_option("input", verb.from, "PNG or JPEG file")->required();
  enlarging.add_option("output", verb.to, "PNG or JPEG file to write; of a PNG file of 16 bits, PNG has 16 too")
      ->required();
  enlarging.add_flag("--self-ensemble", verb.self_ensemble, ensemble);

  CLI::App& evaluating = program.verb("eval", "Measure a model on pictures: shrink them, enlarge them, compare",
                                      [&](adjoint::Device device) { evaluate(verb, device); });
  evaluating.add_option("--images", verb.images, "Folder of PNG or JPEG pictures")->required();
  evaluating.add_option("--model", verb.model,
                        "model.safetensors of a training (where not given, that of the default --out)");
  evaluating.add_flag("--self-ensemble", verb.self_ensemble, ensemble);
  return program.main(argc, argv);
}
