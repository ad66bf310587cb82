// volumes: trains a U-Net that classifies each voxel of a volume, and applies it.
#include "predict.h"
#include "trainer.h"

#include "common/export.h"
#include "common/memory_format.h"
#include "common/output.h"
#include "common/program.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/array_files.h>
#include <adjoint/data/image.h>

#include <fmt/format.h>

#include <memory>
#include <string>

namespace volumes {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;
using examples::classes_of;
using examples::Confusion;

struct PredictOptions {
  std::string model, from, to, slices;
  std::int64_t tile = 64;
};

void predict(const PredictOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  examples::check_output("volumes", options.to, {".npy"});
  if (!options.slices.empty()) examples::check_output("volumes", options.slices);
  NamedModel loaded = load_model(options.model);
  examples::placed(loaded.model, device, format);
  const Tensor volume = read_volume(options.from);
  const Tensor classes = classes_of(probabilities(loaded.model, standardised(volume), device, options.tile));
  data::write_npy(options.to, classes.squeeze(0));
  if (!options.slices.empty()) data::write_image(options.slices, slices(volume, classes));
  std::vector<std::int64_t> counts(loaded.names.size(), 0);
  for (const auto c : classes.to_vector<int>()) ++counts[static_cast<std::size_t>(c)];
  for (std::size_t c = 0; c < counts.size(); ++c) {
    fmt::print("{:6.2f} %  {}\n", 100.0 * static_cast<double>(counts[c]) / static_cast<double>(classes.numel()),
               loaded.names[c]);
  }
}

struct EvalOptions {
  std::string model, images, masks;
  std::int64_t tile = 64;
};

void evaluate(const EvalOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  NamedModel loaded = load_model(options.model);
  examples::placed(loaded.model, device, format);
  const MaskedScans found = read_masked(options.images, options.masks);
  const std::int64_t classes = loaded.model.options().classes;
  if (found.classes > classes) {
    throw adjoint::Error(fmt::format("volumes: masks in '{}' must hold the model's {} classes; got class {}",
                                     options.masks, classes, found.classes - 1));
  }
  Confusion confusion(classes);
  for (const Scan& scan : found.scans)
    confusion.add(scan.mask, classes_of(probabilities(loaded.model, scan.volume, device, options.tile)));
  for (std::int64_t c = 0; c < classes; ++c)
    fmt::print("Dice {:6.4f}  {}\n", confusion.dice(c), loaded.names[static_cast<std::size_t>(c)]);
  fmt::print("mean Dice {:.4f} without class 0, of {} volumes\n", confusion.mean_dice(), found.scans.size());
}

}  // namespace
}  // namespace volumes

int main(int argc, char** argv) {
  using namespace volumes;
  examples::Program program("volumes", "Trains a network that names the class of each voxel of a volume.");
  program.add_memory_format();
  Options options;
  program.defaults().lr = 2e-3;
  program.defaults().batch = 2;
  program.defaults().steps = 4000;
  program.steps().quick(800);
  options.add_to(program.settings());
  program.on_train([&](const examples::Run& run) { return std::make_unique<Trainer>(options, run); });

  constexpr const char* kTile = "Extent in voxels of the tiles that are computed at once, as in training at best";
  PredictOptions prediction;
  CLI::App& predicting =
      program.verb("predict", "Write the class of each voxel of a volume",
                   [&](adjoint::Device device) { predict(prediction, device, program.memory_format()); });
  predicting.add_option("model", prediction.model, "model.safetensors of a training")->required();
  predicting.add_option("input", prediction.from, "Volume, .npy, .nii or .nii.gz")->required();
  predicting.add_option("output", prediction.to, ".npy file to write with the classes' numbers")->required();
  predicting.add_option("--slices", prediction.slices, "Picture of slices to write, PNG or JPEG");
  predicting.add_option("--tile", prediction.tile, kTile)->capture_default_str();

  EvalOptions evaluation;
  CLI::App& evaluating = program.verb("eval", "Measure a model on volumes with masks", [&](adjoint::Device device) {
    evaluate(evaluation, device, program.memory_format());
  });
  evaluating.add_option("model", evaluation.model, "model.safetensors of a training")->required();
  evaluating.add_option("--images", evaluation.images, "Folder of volumes")->required();
  evaluating.add_option("--masks", evaluation.masks, "Folder of their masks")->required();
  evaluating.add_option("--tile", evaluation.tile, kTile)->capture_default_str();
  examples::add_export(program, [](const std::string& path, const std::string& to) {
    const NamedModel loaded = load_model(path);
    examples::save_onnx(to, loaded.model,
                        {.example = adjoint::Tensor::zeros({1, 1, 32, 32, 32}),
                         .input = "volume",
                         .output = "scores",
                         .axes = {{0, "batch"}, {2, "depth"}, {3, "height"}, {4, "width"}}});
  });
  return program.main(argc, argv);
}
