#include "trainer.h"

#include "common/canvas.h"
#include "common/memory_format.h"
#include "common/pictures.h"
#include "common/plot.h"
#include "common/tested.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/image.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/pad/pad.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace volumes {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;
using examples::classes_of;
using examples::Confusion;

// Drawn scans: the first ones are for tests.
constexpr std::int64_t kTestScans = 8, kTestExtent = 48;
// The smallest tile of tests, because smaller ones would compute each voxel many times.
constexpr std::int64_t kLeastTile = 32;

[[noreturn]] void fail(const std::string& message) { throw adjoint::Error("volumes: " + message); }

/// input (1, D, H, W), float32; target (D, H, W), int64; mirrored along random axes.
data::Example example_of(Tensor volume, Tensor mask, adjoint::Generator& generator) {
  adjoint::Dims axes;
  for (const std::int64_t axis : {1, 2, 3}) {
    if (generator.below(2) == 1) axes.push_back(axis);
  }
  if (!axes.empty()) {
    volume = adjoint::flip(volume, axes);
    mask = adjoint::flip(mask, axes);
  }
  return {volume.contiguous(), mask.squeeze(0).to(adjoint::kInt64)};
}

/// An endless series; the end of an epoch has no meaning.
class DrawnScans final : public data::Dataset {
 public:
  DrawnScans(std::int64_t patch, std::int64_t size) : patch_(patch), size_(size) {}
  std::int64_t size() const override { return size_; }
  data::Example get(std::int64_t, adjoint::Generator& generator) const override {
    const std::uint64_t number = kTestScans + generator.next() % (std::uint64_t{1} << 62U);
    const Scan scan = drawn_scan(number, patch_, patch_, patch_);
    return example_of(scan.volume, scan.mask, generator);
  }

 private:
  std::int64_t patch_, size_;
};

/// Random pieces. Every second piece holds a voxel of a class other than 0, if its scan has one.
class Pieces final : public data::Dataset {
 public:
  Pieces(std::vector<Scan> scans, std::int64_t patch, std::int64_t size)
      : scans_(std::move(scans)), patch_(patch), size_(size) {
    for (const Scan& scan : scans_) {
      std::vector<std::int64_t> places;
      const auto* classes = scan.mask.data<std::uint8_t>();
      for (std::int64_t i = 0; i < scan.mask.numel(); ++i) {
        if (classes[i] != 0 && classes[i] != kIgnored) places.push_back(i);
      }
      objects_.push_back(std::move(places));
    }
  }
  std::int64_t size() const override { return size_; }
  data::Example get(std::int64_t, adjoint::Generator& generator) const override {
    const auto which = static_cast<std::size_t>(generator.below(scans_.size()));
    const Scan& scan = scans_[which];
    const std::vector<std::int64_t>& objects = objects_[which];
    std::int64_t object = -1;
    if (!objects.empty() && generator.below(2) == 1)
      object = objects[static_cast<std::size_t>(generator.below(objects.size()))];
    Tensor volume = scan.volume, mask = scan.mask;
    for (const std::int64_t axis : {3, 2, 1}) {  // the last axis varies fastest in `object`
      const std::int64_t extent = scan.mask.size(axis), last = extent - patch_;
      std::int64_t from = 0, to = last;
      if (object >= 0) {
        const std::int64_t place = object % extent;
        object /= extent;
        from = std::max(from, place - patch_ + 1);
        to = std::min(to, place);
      }
      from += static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(to - from + 1)));
      volume = volume.narrow(axis, from, patch_);
      mask = mask.narrow(axis, from, patch_);
    }
    return example_of(volume, mask, generator);
  }

 private:
  std::vector<Scan> scans_;
  std::vector<std::vector<std::int64_t>> objects_;  // places of voxels in each scan
  std::int64_t patch_, size_;
};

/// The scan with at least `patch` voxels along each axis; voxels that are added are not counted.
Scan extended(const Scan& scan, std::int64_t patch) {
  std::vector<std::int64_t> behind;
  for (const std::int64_t axis : {3, 2, 1})
    behind.insert(behind.end(), {0, std::max<std::int64_t>(0, patch - scan.mask.size(axis))});
  return {adjoint::pad(scan.volume, behind, adjoint::PadMode::kReplicate),
          adjoint::pad(scan.mask, behind, static_cast<double>(kIgnored)), scan.name};
}

/// FNV-1a over the bits of volumes and masks, as examples::fingerprint of pictures.
std::uint64_t fingerprint(const std::vector<Scan>& scans) {
  std::vector<examples::Picture> all;
  for (const Scan& scan : scans) {
    Tensor bytes = Tensor::empty({4 * scan.volume.numel()}, {.dtype = adjoint::kUInt8});
    std::memcpy(bytes.mutable_data<std::uint8_t>(), scan.volume.data<float>(), static_cast<std::size_t>(bytes.numel()));
    all.insert(all.end(), {{scan.name, bytes}, {scan.name, scan.mask}});
  }
  return examples::fingerprint(all);
}

}  // namespace

void Options::add_to(examples::Settings& settings) {
  settings.add("--images", images, "Folder of volumes, .npy, .nii or .nii.gz (default: drawn scans)");
  settings.add("--masks", masks, "Folder of their masks: files of the same names, with classes as values");
  settings.add("--norm", norm, "instance (InstanceNorm) or batch (BatchNorm)").choices({"instance", "batch"});
  settings.add("--features", features, "Channels at full resolution").range(1, 1024).quick(8);
  settings.add("--depth", depth, "Number of times that the resolution is halved").range(1, 6).quick(2);
  settings.add("--patch", patch, "Extent of the training patches and of tiles, in voxels").range(4, 1 << 10).quick(24);
}

struct Trainer::Source {
  std::vector<std::string> names;
  std::vector<Scan> tests;
  std::unique_ptr<data::Dataset> training;
  std::int64_t trained_on = 0;
  std::uint64_t fingerprint = 0;

  Source(const Options& options, const examples::Run& run) {
    const std::int64_t size = run.batch * std::min<std::int64_t>(run.test_every, 1000);
    if (options.images.empty() != options.masks.empty()) fail("--images and --masks must be given together");
    if (options.images.empty()) {
      names = scan_classes();
      for (std::int64_t i = 0; i < examples::tested(kTestScans); ++i)
        tests.push_back(drawn_scan(static_cast<std::uint64_t>(i), kTestExtent, kTestExtent, kTestExtent));
      training = std::make_unique<DrawnScans>(options.patch, size);
      return;
    }
    const MaskedScans found = read_masked(options.images, options.masks);
    if (found.scans.size() < 2)
      fail(fmt::format("'{}' must hold at least 2 volumes, one of them to test on", options.images));
    for (std::int64_t c = 0; c < found.classes; ++c) names.push_back(fmt::format("class {}", c));
    std::vector<Scan> train;
    for (std::size_t i = 0; i < found.scans.size(); ++i) {
      const bool tested = i % 8 == 4 || (found.scans.size() <= 4 && i + 1 == found.scans.size());
      if (tested)
        tests.push_back(found.scans[i]);
      else
        train.push_back(extended(found.scans[i], options.patch));
    }
    trained_on = std::ssize(train);
    fingerprint = volumes::fingerprint(found.scans);
    training = std::make_unique<Pieces>(std::move(train), options.patch, size);
  }
};

Trainer::Trainer(const Options& options, const examples::Run& run)
    : Trainer(options, run, std::make_shared<Source>(options, run)) {}

Trainer::Trainer(const Options& options, const examples::Run& run, std::shared_ptr<Source> source)
    : run_(run),
      arithmetic_(run.precision),
      source_(std::move(source)),
      patch_(options.patch),
      model_({.classes = std::ssize(source_->names),
              .features = options.features,
              .depth = options.depth,
              .norm = options.norm}),
      parallel_(examples::placed(model_, run.device, run.memory_format)),
      adam_(model_.parameters(), {.lr = run.lr}),
      schedule_(adam_, {.T_max = run.steps, .warmup = {.steps = std::min<std::int64_t>(50, run.steps / 10)}}),
      loader_(*source_->training,
              {.batch_size = run.batch, .workers = 1, .seed = run.data_seed, .device = run.device}) {
  // InstanceNorm needs more than one voxel at the lowest level.
  if (options.patch % model_.alignment() != 0 || options.patch < 2 * model_.alignment()) {
    fail(fmt::format("--patch must be a multiple of 2^depth = {}, and larger; got {}", model_.alignment(),
                     options.patch));
  }
}

void Trainer::add_to(examples::State& state) {
  state.add("model", model_);
  state.add("adam", adam_);
  state.add("arithmetic", arithmetic_);
  state.add("schedule", schedule_);
  state.add("loader", loader_);
  state.require("fingerprint", source_->fingerprint, "it was trained on other volumes or masks");
}

std::string Trainer::description() const {
  return fmt::format("{} parameters, {} classes; trained on {}, tested on {} others", model_.num_parameters(),
                     source_->names.size(),
                     source_->trained_on > 0 ? fmt::format("{} volumes", source_->trained_on) : "drawn scans",
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

Tensor Trainer::found(const Scan& scan) const {
  return classes_of(probabilities(model_, scan.volume, run_.device, std::max(patch_, kLeastTile)));
}

examples::Values Trainer::test(const examples::Moment&) {
  model_.eval();
  Confusion confusion(model_.options().classes);
  for (const Scan& scan : source_->tests) confusion.add(scan.mask, found(scan));
  model_.train();
  examples::Values values{{"mean_dice", confusion.mean_dice()}};
  for (std::size_t c = 1; c < source_->names.size(); ++c) {
    const double dice = confusion.dice(static_cast<std::int64_t>(c));
    values.emplace_back(fmt::format("dice {}", source_->names[c]), std::isnan(dice) ? 0.0 : dice);
  }
  return values;
}

// A network that answers one class for every voxel reaches no more than this.
examples::Values Trainer::baselines() const {
  double best = 0.0;
  for (std::int64_t c = 1; c < model_.options().classes; ++c) {
    Confusion confusion(model_.options().classes);
    for (const Scan& scan : source_->tests)
      confusion.add(scan.mask, Tensor::full(scan.mask.shape(), c, {.dtype = adjoint::kUInt8}));
    best = std::max(best, confusion.mean_dice());
  }
  return {{"one class everywhere", best}};
}

void Trainer::finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) {
  save_model(moment.folder / "model.safetensors", model_, source_->names);
  metrics["parameters"] = model_.num_parameters();
  if (!examples::can_draw()) return;
  model_.eval();
  std::vector<std::vector<examples::GridCell>> rows;
  for (std::size_t i = 0; i < std::min<std::size_t>(source_->tests.size(), 4); ++i) {
    const Scan& scan = source_->tests[i];
    const Tensor predicted = found(scan);
    Confusion confusion(model_.options().classes);
    confusion.add(scan.mask, predicted);
    const std::int64_t z = fullest_layer(scan.mask);
    const Tensor slice = slice_of(scan.volume, z), layer = layer_of(predicted, z);
    rows.push_back({{slice},
                    {examples::colored(layer_of(scan.mask, z))},
                    {examples::colored(layer), fmt::format("mean Dice {:.3f}", confusion.mean_dice())},
                    {examples::overlay(slice, layer)}});
  }
  model_.train();
  const std::int64_t width = source_->tests.front().volume.size(3);
  data::write_png(moment.folder / "slices.png",
                  examples::picture_grid(rows, {.titles = {"slice", "mask", "predicted", "overlay"},
                                                .marked = 2,
                                                .zoom = std::clamp<std::int64_t>(200 / width, 1, 4)}));
}

}  // namespace volumes
