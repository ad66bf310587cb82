#include "trainer.h"

#include "common/canvas.h"
#include "common/memory_format.h"
#include "common/pictures.h"
#include "common/plot.h"
#include "common/tested.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/image.h>
#include <adjoint/data/transforms.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

namespace segmentation {
namespace {

namespace data = adjoint::data;
namespace fs = std::filesystem;
using adjoint::Tensor;

// Drawn scenes: the first ones are for tests.
constexpr std::int64_t kTestScenes = 24, kTestExtent = 128;

[[noreturn]] void fail(const std::string& message) { throw adjoint::Error("segmentation: " + message); }

/// input (3, patch, patch), float32; target (patch, patch), int64.
data::Example example_of(const Tensor& image, const Tensor& mask) {
  return {data::to_float(image), mask.squeeze(0).to(adjoint::kInt64)};
}

/// An endless series; the end of an epoch has no meaning.
class DrawnScenes final : public data::Dataset {
 public:
  DrawnScenes(std::int64_t patch, std::int64_t size) : patch_(patch), size_(size) {}
  std::int64_t size() const override { return size_; }
  data::Example get(std::int64_t, adjoint::Generator& generator) const override {
    const Scene scene = drawn_scene(kTestScenes + generator.next() % (std::uint64_t{1} << 62U), patch_, patch_);
    return example_of(scene.image, scene.mask);
  }

 private:
  std::int64_t patch_, size_;
};

/// Random pieces, mirrored.
class Pieces final : public data::Dataset {
 public:
  Pieces(std::vector<Scene> scenes, std::int64_t patch, std::int64_t size)
      : scenes_(std::move(scenes)), patch_(patch), size_(size) {}
  std::int64_t size() const override { return size_; }
  data::Example get(std::int64_t, adjoint::Generator& generator) const override {
    const Scene& scene = scenes_[static_cast<std::size_t>(generator.below(scenes_.size()))];
    adjoint::Generator same = generator;  // both must be cut and mirrored the same way
    const auto piece = [&](const Tensor& of, adjoint::Generator& random) {
      return data::random_flip_horizontal(data::random_crop(of, patch_, patch_, random), random);
    };
    const Tensor image = piece(scene.image, generator);
    return example_of(image, piece(scene.mask, same));
  }

 private:
  std::vector<Scene> scenes_;
  std::int64_t patch_, size_;
};

fs::path mask_of(const fs::path& picture, const fs::path& images, const fs::path& masks) {
  return (masks / picture.lexically_relative(images)).replace_extension(".png");
}

}  // namespace

void Options::add_to(examples::Settings& settings) {
  settings.add("--images", images, "Folder of PNG or JPEG pictures (default: drawn scenes)");
  settings.add("--masks", masks, "Folder of their masks: grey PNG files of the same names, with classes as values");
  settings.add("--norm", norm, "batch (BatchNorm) or group (GroupNorm)").choices({"batch", "group"});
  settings.add("--features", features, "Channels at full resolution").range(1, 1024).quick(12);
  settings.add("--depth", depth, "Number of times that the resolution is halved").range(1, 6);
  settings.add("--patch", patch, "Extent of the training patches, in pixels").range(8, 1 << 12).quick(64);
}

MaskedPictures read_masked(const std::string& images, const std::string& masks) {
  MaskedPictures found;
  std::int64_t largest = 0;
  for (const examples::Picture& picture : examples::read_pictures("segmentation", images, {.max_pixels = 1LL << 40})) {
    const fs::path path = mask_of(picture.name, images, masks);
    if (!fs::exists(path))
      fail(fmt::format("'{}' must have a mask; there is no file '{}'", picture.name, path.string()));
    const Tensor mask = data::read_image(path, {.keep_depth = true});
    if (mask.dtype() != adjoint::kUInt8)
      fail(fmt::format("'{}' must have 8 bits per sample, with classes as values; got 16", path.string()));
    if (mask.size(0) != 1)
      fail(fmt::format("'{}' must be grey, with classes as values; got {} channels", path.string(), mask.size(0)));
    if (mask.size(1) != picture.image.size(1) || mask.size(2) != picture.image.size(2)) {
      fail(fmt::format("'{}' must have the size of '{}', {} x {}; got {} x {}", path.string(), picture.name,
                       picture.image.size(2), picture.image.size(1), mask.size(2), mask.size(1)));
    }
    const auto* values = mask.data<std::uint8_t>();
    for (std::int64_t i = 0; i < mask.numel(); ++i) {
      if (values[i] != kIgnored) largest = std::max<std::int64_t>(largest, values[i]);
    }
    found.scenes.push_back({picture.image, mask});
    found.names.push_back(picture.name);
  }
  if (largest == 0)
    fail(fmt::format("masks in '{}' must hold the classes 0, 1, ...; got only 0 and 255 (not counted)", masks));
  found.classes = largest + 1;
  return found;
}

struct Trainer::Source {
  std::vector<std::string> names;
  std::vector<Scene> tests;
  std::vector<std::string> test_names;
  std::unique_ptr<data::Dataset> training;
  std::int64_t trained_on = 0;
  std::uint64_t fingerprint = 0;

  Source(const Options& options, const examples::Run& run) {
    const std::int64_t size = run.batch * std::min<std::int64_t>(run.test_every, 1000);
    if (options.images.empty() != options.masks.empty()) fail("--images and --masks must be given together");
    if (options.images.empty()) {
      names = scene_classes();
      for (std::int64_t i = 0; i < examples::tested(kTestScenes); ++i) {
        tests.push_back(drawn_scene(static_cast<std::uint64_t>(i), kTestExtent, kTestExtent));
        test_names.push_back(fmt::format("scene {}", i));
      }
      training = std::make_unique<DrawnScenes>(options.patch, size);
      return;
    }
    const MaskedPictures found = read_masked(options.images, options.masks);
    if (found.scenes.size() < 2)
      fail(fmt::format("'{}' must hold at least 2 pictures, one of them to test on", options.images));
    for (std::int64_t c = 0; c < found.classes; ++c) names.push_back(fmt::format("class {}", c));
    std::vector<Scene> train;
    std::vector<examples::Picture> all;
    for (std::size_t i = 0; i < found.scenes.size(); ++i) {
      const Scene& scene = found.scenes[i];
      all.insert(all.end(), {{found.names[i], scene.image}, {found.names[i], scene.mask}});
      const bool tested = i % 8 == 4 || (found.scenes.size() <= 4 && i + 1 == found.scenes.size());
      const std::int64_t least = tested ? std::int64_t{1} << options.depth : options.patch;
      if (std::min(scene.image.size(1), scene.image.size(2)) < least) {
        fmt::print(stderr, "segmentation: passed over '{}': it must have at least {} x {} pixels; got {} x {}\n",
                   found.names[i], least, least, scene.image.size(2), scene.image.size(1));
      } else if (tested) {
        tests.push_back(scene);
        test_names.push_back(found.names[i]);
      } else {
        train.push_back(scene);
      }
    }
    if (train.empty() || tests.empty()) {
      fail(fmt::format("'{}' must hold pictures of at least {} x {} pixels to train and to test on; got {} and {}",
                       options.images, options.patch, options.patch, train.size(), tests.size()));
    }
    trained_on = std::ssize(train);
    fingerprint = examples::fingerprint(all);
    training = std::make_unique<Pieces>(std::move(train), options.patch, size);
  }
};

Trainer::Trainer(const Options& options, const examples::Run& run)
    : Trainer(options, run, std::make_shared<Source>(options, run)) {}

Trainer::Trainer(const Options& options, const examples::Run& run, std::shared_ptr<Source> source)
    : run_(run),
      arithmetic_(run.precision),
      source_(std::move(source)),
      model_({.classes = std::ssize(source_->names),
              .features = options.features,
              .depth = options.depth,
              .norm = options.norm}),
      parallel_(examples::placed(model_, run.device, run.memory_format)),
      adam_(model_.parameters(), {.lr = run.lr}),
      schedule_(adam_, {.T_max = run.steps, .warmup = {.steps = std::min<std::int64_t>(50, run.steps / 10)}}),
      loader_(*source_->training,
              {.batch_size = run.batch, .workers = 1, .seed = run.data_seed, .device = run.device}) {
  if (options.patch < model_.alignment())
    fail(fmt::format("--patch must be at least 2^depth = {}; got {}", model_.alignment(), options.patch));
}

void Trainer::add_to(examples::State& state) {
  state.add("model", model_);
  state.add("adam", adam_);
  state.add("arithmetic", arithmetic_);
  state.add("schedule", schedule_);
  state.add("loader", loader_);
  state.require("fingerprint", source_->fingerprint, "it was trained on other pictures or masks");
}

std::string Trainer::description() const {
  return fmt::format("{} parameters, {} classes; trained on {}, tested on {} others", model_.num_parameters(),
                     source_->names.size(),
                     source_->trained_on > 0 ? fmt::format("{} pictures", source_->trained_on) : "drawn scenes",
                     source_->tests.size());
}

std::vector<Tensor> Trainer::next() {
  for (;;) {
    if (auto batch = loader_.next())  // empty: an epoch's end
      return {examples::in_format(batch->input, run_.memory_format), batch->target};
  }
}

std::vector<Tensor> Trainer::step(const std::vector<Tensor>& batch) {
  const Tensor loss = arithmetic_.minimise(adam_, [&] { return examples::class_loss(parallel_(batch[0]), batch[1]); });
  schedule_.step();
  return {loss};
}

examples::Values Trainer::test(const examples::Moment&) {
  model_.eval();
  Confusion confusion(model_.options().classes);
  for (const Scene& scene : source_->tests)
    confusion.add(scene.mask, classes_of(scores(model_, scene.image, run_.device)));
  model_.train();
  examples::Values values{{"mean_iou", confusion.mean_iou()}, {"pixel_accuracy", confusion.accuracy()}};
  for (std::size_t c = 0; c < source_->names.size(); ++c) {
    const double iou = confusion.iou(static_cast<std::int64_t>(c));
    values.emplace_back(fmt::format("iou {}", source_->names[c]), std::isnan(iou) ? 0.0 : iou);
  }
  return values;
}

examples::Values Trainer::baselines() const {
  Confusion confusion(model_.options().classes);
  for (const Scene& scene : source_->tests)
    confusion.add(scene.mask, Tensor::zeros(scene.mask.shape(), {.dtype = adjoint::kUInt8}));
  return {{"background everywhere", confusion.mean_iou()}};
}

void Trainer::finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) {
  save_model(moment.folder / "model.safetensors", model_, source_->names);
  metrics["parameters"] = model_.num_parameters();
  if (!examples::can_draw()) return;
  model_.eval();
  std::vector<std::vector<examples::GridCell>> rows;
  for (std::size_t i = 0; i < std::min<std::size_t>(source_->tests.size(), 4); ++i) {
    const Scene& scene = source_->tests[i];
    const Tensor found = classes_of(scores(model_, scene.image, run_.device));
    Confusion confusion(model_.options().classes);
    confusion.add(scene.mask, found);
    rows.push_back({{scene.image},
                    {colored(scene.mask)},
                    {colored(found), fmt::format("mean IoU {:.3f}", confusion.mean_iou())},
                    {overlay(scene.image, found)}});
  }
  model_.train();
  const std::int64_t zoom = source_->tests.front().image.size(2) <= 160 ? 2 : 1;
  data::write_png(
      moment.folder / "overlays.png",
      examples::picture_grid(rows, {.titles = {"picture", "mask", "predicted", "overlay"}, .marked = 2, .zoom = zoom}));
}

}  // namespace segmentation
