#include "training.h"

#include "common/canvas.h"

#include <adjoint/core/parallel.h>
#include <adjoint/ops/loss/loss.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace super_resolution {
namespace {

using adjoint::Tensor;

// Made pictures: the first ones are for tests, whatever the number to train on.
constexpr std::int64_t kMadeExtent = 256, kMadeTests = 12, kMadePictures = 96;

// What is kept in memory to train on; and what is tested on every now and then, which should take a second or two.
constexpr std::int64_t kTrainingPixels = 1'000'000'000, kTestPixels = 4'000'000;

Split split_of(const Options& options) {
  if (!options.images.empty()) {
    Split split = split_folder(options.images, options.validation);
    split.training.limit(kTrainingPixels);
    split.validation.limit(kTestPixels);
    return split;
  }
  return {PictureSet::synthetic(kMadeTests, kMadePictures, kMadeExtent),
          PictureSet::synthetic(0, kMadeTests, kMadeExtent)};
}

std::vector<LumaPair> pairs_of(const PictureSet& pictures) {
  std::vector<LumaPair> pairs(static_cast<std::size_t>(pictures.size()));
  adjoint::parallel_for(pictures.size(),
                        [&](std::int64_t i) { pairs[static_cast<std::size_t>(i)] = luma_pair(pictures.rgb(i)); });
  return pairs;
}

// Whole batches, as many as there are between two tests, unless their order would be a long list.
std::int64_t examples_an_epoch(const examples::Run& run) {
  constexpr std::int64_t kExamples = std::int64_t{1} << 22;
  return run.batch * std::min(run.test_every, std::max<std::int64_t>(kExamples / run.batch, 1));
}

}  // namespace

void Options::add_to(examples::Settings& settings) {
  const auto& folder =
      settings.add("--images", images, "Folder of PNG or JPEG pictures to train on (made ones, where not given)");
  settings.add("--val", validation, "Folder of pictures to test on (where not given, every eighth of --images)")
      .option()
      .needs(&folder.option());
  settings.add("--patch", patch, "A patch's extent, in low-resolution pixels").range(4, 1 << 14).quick(24);
  settings.add("--features", model.features, "Channels of the network").range(1, 1024).quick(16);
  settings.add("--layers", model.layers, "Inner convolutions of the network").range(0, 64);
}

Trainer::Trainer(const Options& options, const examples::Run& run) : Trainer(options, run, split_of(options)) {}

Trainer::Trainer(const Options& options, const examples::Run& run, Split split)
    : run_(run),
      arithmetic_(run.precision),
      split_(std::move(split)),
      patches_(split_.training, options.patch, examples_an_epoch(run)),
      tests_(pairs_of(split_.validation)),
      model_(options.model),
      parallel_((model_.to(run.device), model_)),
      adam_(model_.parameters(), {.lr = run.lr}),
      schedule_(adam_, {.T_max = run.steps, .warmup = {.steps = std::min<std::int64_t>(50, run.steps / 10)}}),
      loader_(patches_, {.batch_size = run.batch, .workers = 1, .seed = run.data_seed, .device = run.device}) {
  for (const LumaPair& pair : tests_)
    bicubic_psnr_ += psnr(bicubic(pair.low), pair.high) / static_cast<double>(tests_.size());
}

void Trainer::add_to(examples::State& state) {
  state.add("model", model_);
  state.add("adam", adam_);
  state.add("schedule", schedule_);
  state.add("loader", loader_);
  state.require("fingerprint", patches_.fingerprint(), "its pictures are not those that it was trained on");
}

std::string Trainer::description() const {
  return fmt::format("{} parameters; tested on {} pictures that it is not trained on, bicubic {:.2f} dB;",
                     model_.num_parameters(), split_.validation.size(), bicubic_psnr_);
}

std::vector<Tensor> Trainer::next() {
  for (;;) {
    if (auto batch = loader_.next()) return {batch->input, batch->target};  // none: an epoch's end
  }
}

std::vector<Tensor> Trainer::step(const std::vector<Tensor>& batch) {
  const Tensor loss = arithmetic_.minimise(adam_, [&] { return adjoint::mse_loss(parallel_(batch[0]), batch[1]); });
  schedule_.step();
  return {loss};
}

examples::Values Trainer::test(const examples::Moment&) {
  return {{"psnr_adjoint", measure(model_, tests_, run_.device).adjoint}};
}

void Trainer::finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) {
  std::vector<Quality> qualities;
  nlohmann::ordered_json pictures = nlohmann::ordered_json::array();
  Quality mean;
  for (std::int64_t i = 0; i < split_.validation.size(); ++i) {
    const Quality one = measure(model_, tests_[static_cast<std::size_t>(i)], run_.device);
    qualities.push_back(one);
    pictures.push_back(
        {{"name", split_.validation.name(i)}, {"psnr_bicubic", one.bicubic}, {"psnr_adjoint", one.adjoint}});
    mean.bicubic += one.bicubic / static_cast<double>(tests_.size());
    mean.adjoint += one.adjoint / static_cast<double>(tests_.size());
  }
  metrics["psnr_bicubic"] = mean.bicubic;
  metrics["parameters"] = model_.num_parameters();
  metrics["pictures"] = pictures;
  save_model(moment.folder / "model.safetensors", model_);
  if (examples::can_draw()) write_comparison(moment.folder / "comparison.png", *this, qualities);
  fmt::print("PSNR {:.2f} dB, {:+.2f} dB over bicubic\n", mean.adjoint, mean.adjoint - mean.bicubic);
}

}  // namespace super_resolution
