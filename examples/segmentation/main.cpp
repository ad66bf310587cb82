// segmentation: trains a U-Net that classifies each pixel of a picture, and applies it.
#include "predict.h"
#include "trainer.h"

#include "common/export.h"
#include "common/memory_format.h"
#include "common/output.h"
#include "common/program.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/image.h>

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>

namespace segmentation {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;

struct PredictOptions {
  std::string model, from, to, classes;
  std::int64_t tile = 256;
};

void predict(const PredictOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  examples::check_output("segmentation", options.to);
  if (!options.classes.empty()) examples::check_output("segmentation", options.classes, {".png"});
  NamedModel loaded = load_model(options.model);
  examples::placed(loaded.model, device, format);
  const Tensor picture = data::read_image(options.from, {.channels = data::Channels::kRGB});
  const Tensor classes = classes_of(scores(loaded.model, picture, device, options.tile));
  data::write_image(options.to, overlay(picture, classes));
  if (!options.classes.empty()) data::write_png(options.classes, classes);
  std::vector<std::int64_t> counts(loaded.names.size(), 0);
  for (const auto c : classes.to_vector<int>()) ++counts[static_cast<std::size_t>(c)];
  for (std::size_t c = 0; c < counts.size(); ++c) {
    fmt::print("{:6.2f} %  {}\n", 100.0 * static_cast<double>(counts[c]) / static_cast<double>(classes.numel()),
               loaded.names[c]);
  }
}

void evaluate(const std::string& model_path, const std::string& images, const std::string& masks,
              adjoint::Device device, adjoint::MemoryFormat format) {
  NamedModel loaded = load_model(model_path);
  examples::placed(loaded.model, device, format);
  const MaskedPictures found = read_masked(images, masks);
  const std::int64_t classes = loaded.model.options().classes;
  if (found.classes > classes) {
    throw adjoint::Error(fmt::format("segmentation: masks in '{}' must hold the model's {} classes; got class {}",
                                     masks, classes, found.classes - 1));
  }
  Confusion confusion(classes);
  for (const Scene& scene : found.scenes)
    confusion.add(scene.mask, classes_of(scores(loaded.model, scene.image, device)));
  for (std::int64_t c = 0; c < classes; ++c)
    fmt::print("IoU {:6.4f}  {}\n", confusion.iou(c), loaded.names[static_cast<std::size_t>(c)]);
  fmt::print("mean IoU {:.4f}, pixel accuracy {:.4f}, of {} pictures\n", confusion.mean_iou(), confusion.accuracy(),
             found.scenes.size());
}

}  // namespace
}  // namespace segmentation

int main(int argc, char** argv) {
  using namespace segmentation;
  examples::Program program("segmentation", "Trains a network that names the class of each pixel of a picture.");
  program.add_memory_format();
  Options options;
  program.defaults().lr = 2e-3;
  program.defaults().steps = 4000;
  program.steps().quick(1500);
  program.batch().quick(8);
  options.add_to(program.settings());
  program.on_train([&](const examples::Run& run) { return std::make_unique<Trainer>(options, run); });

  PredictOptions prediction;
  CLI::App& predicting =
      program.verb("predict", "Colour a picture by the classes of its pixels",
                   [&](adjoint::Device device) { predict(prediction, device, program.memory_format()); });
  predicting.add_option("model", prediction.model, "model.safetensors of a training")->required();
  predicting.add_option("input", prediction.from, "PNG or JPEG file")->required();
  predicting.add_option("output", prediction.to, "Coloured picture to write, PNG or JPEG")->required();
  predicting.add_option("--classes", prediction.classes, "PNG file to write with the classes' numbers");
  predicting.add_option("--tile", prediction.tile, "Extent in pixels of the tiles")->capture_default_str();

  std::string model, images, masks;
  CLI::App& evaluating = program.verb("eval", "Measure a model on pictures with masks", [&](adjoint::Device device) {
    evaluate(model, images, masks, device, program.memory_format());
  });
  evaluating.add_option("model", model, "model.safetensors of a training")->required();
  evaluating.add_option("--images", images, "Folder of PNG or JPEG pictures")->required();
  evaluating.add_option("--masks", masks, "Folder of their masks")->required();
  examples::add_export(program, [](const std::string& path, const std::string& to) {
    examples::save_onnx(to, load_model(path).model,
                        {.example = adjoint::Tensor::zeros({1, 3, 64, 64}),
                         .input = "picture",
                         .output = "scores",
                         .axes = {{0, "batch"}, {2, "height"}, {3, "width"}}});
  });
  return program.main(argc, argv);
}
