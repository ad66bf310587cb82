#include "training.h"

#include "upscale.h"

#include "common/canvas.h"
#include "common/memory_format.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/ops/loss/loss.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace super_resolution {
namespace {

using adjoint::Tensor;

// The first generated pictures are for tests, for any number of training pictures.
constexpr std::int64_t kMadeExtent = 256, kMadeTests = 12, kMadePictures = 96;

// Limits of the pixels kept in memory to train on, and of those in a test, which should take a second or two.
constexpr std::int64_t kTrainingPixels = 1'000'000'000, kTestPixels = 4'000'000;

Split split_of(const Options& options) {
  if (!options.images.empty()) {
    Split split = split_folder(options.images, options.validation, options.model.scale);
    split.training.limit(kTrainingPixels);
    split.validation.limit(kTestPixels);
    return split;
  }
  return {PictureSet::synthetic(kMadeTests, kMadePictures, kMadeExtent, options.model.scale),
          PictureSet::synthetic(0, kMadeTests, kMadeExtent, options.model.scale)};
}

// The discriminator's weight beside l1, in the loss gan.
constexpr double kAdversarialWeight = 5e-3;

Tensor pixel_loss(const std::string& loss, const Tensor& made, const Tensor& high) {
  if (loss == "mse") return adjoint::mse_loss(made, high);
  if (loss == "charbonnier") return adjoint::charbonnier_loss(made, high);
  return adjoint::l1_loss(made, high);
}

// Whole batches, as many as there are between two tests, unless their order would be a long list.
std::int64_t examples_an_epoch(const examples::Run& run) {
  constexpr std::int64_t kExamples = std::int64_t{1} << 22;
  return run.batch * std::min(run.test_every, std::max<std::int64_t>(kExamples / run.batch, 1));
}

}  // namespace

void Options::add_to(examples::Settings& settings) {
  const auto& folder =
      settings.add("--images", images, "Folder of PNG or JPEG pictures to train on (default: generated pictures)");
  settings.add("--val", validation, "Folder of pictures to test on (default: every eighth of --images)")
      .option()
      .needs(&folder.option());
  settings.add("--patch", patch, "Extent of a patch, in low-resolution pixels").range(4, 1 << 14).quick(24);
  settings.add("--model", model.network, fmt::format("The network: {}", fmt::join(networks(), ", ")))
      .choices(networks())
      .added();
  settings.add("--scale", model.scale, "Factor of the enlargement: 2, 3 or 4").choices({2, 3, 4}).added();
  settings.add("--loss", loss, "mse, l1, charbonnier, or gan (l1 and a discriminator of patches)")
      .choices({"mse", "l1", "charbonnier", "gan"})
      .added();
  settings
      .add("--discriminator-channels", discriminator_channels,
           "Channels of the discriminator's first layer, with --loss gan")
      .range(1, 1024)
      .quick(16)
      .added();
  settings.add("--features", model.features, "Channels of the network; 0: its default").range(0, 1024);
  settings.add("--layers", model.layers, "Inner convolutions (edsr: blocks); -1: the network's default").range(-1, 64);
}

Trainer::Trainer(const Options& options, const examples::Run& run) : Trainer(options, run, split_of(options)) {}

Trainer::Trainer(const Options& options, const examples::Run& run, Split split)
    : run_(run),
      options_(options),
      arithmetic_(run.precision),
      split_(std::move(split)),
      patches_(split_.training, options.patch, examples_an_epoch(run)),
      tests_(split_.validation.read([&](const Tensor& rgb) { return luma_pair(rgb, options.model.scale); })),
      model_(complete(options.model, run.quick)),
      parallel_(examples::placed(model_, run.device, run.memory_format)),
      adam_(model_.parameters(), {.lr = run.lr}),
      schedule_(adam_, {.T_max = run.steps, .warmup = {.steps = std::min<std::int64_t>(50, run.steps / 10)}}),
      loader_(patches_, {.batch_size = run.batch, .workers = 1, .seed = run.data_seed, .device = run.device}) {
  const std::int64_t scale = model_.scale();
  if (options.loss == "gan") {
    if (scale * options.patch < PatchDiscriminator::kLeastExtent) {
      throw adjoint::Error(
          fmt::format("super_resolution: --patch must be at least {} with --scale {} and --loss gan; got {}",
                      (PatchDiscriminator::kLeastExtent + scale - 1) / scale, scale, options.patch));
    }
    adversary_ = std::make_unique<Adversary>(options.discriminator_channels, run);
  }
  for (const LumaPair& pair : tests_)
    bicubic_psnr_ += psnr(bicubic(pair.low, scale), pair.high, scale) / static_cast<double>(tests_.size());
}

void Trainer::add_to(examples::State& state) {
  state.require("network", to_string(model_.options()), "its network");
  state.add("model", model_);
  state.add("adam", adam_);
  state.add("arithmetic", arithmetic_);
  state.add("schedule", schedule_);
  state.add("loader", loader_);
  if (adversary_) adversary_->add_to(state);
  state.require("fingerprint", patches_.fingerprint(), "it was trained on other pictures");
}

std::string Trainer::description() const {
  return fmt::format("{} of {} parameters; tested on {} pictures that it is not trained on, bicubic {:.2f} dB;",
                     to_string(model_.options()), model_.num_parameters(), split_.validation.size(), bicubic_psnr_);
}

std::vector<std::string> Trainer::names() const {
  if (adversary_) return {"loss", "pixel_loss", "discriminator_loss"};
  return {"loss"};
}

std::vector<Tensor> Trainer::next() {
  for (;;) {
    if (auto batch = loader_.next()) return {batch->input, batch->target};  // empty: an epoch's end
  }
}

std::vector<Tensor> Trainer::step(const std::vector<Tensor>& batch) {
  if (adversary_) return step_against_adversary(batch[0], batch[1]);
  const Tensor loss =
      arithmetic_.minimise(adam_, [&] { return pixel_loss(options_.loss, parallel_(batch[0]), batch[1]); });
  schedule_.step();
  return {loss};
}

std::vector<Tensor> Trainer::step_against_adversary(const Tensor& low, const Tensor& high) {
  const Tensor plain = bicubic(low, model_.scale());
  Tensor of_pixels, of_adversary;
  const Tensor loss = arithmetic_.minimise(adam_, [&] {
    const Tensor made = parallel_(low).to(adjoint::kFloat32);
    // This step has a separate tape. The discriminator that judges the model has then seen its present results.
    of_adversary = adversary_->update(arithmetic_, high, made.detach(), plain);
    const Tensor pixels = pixel_loss(options_.loss, made, high);
    of_pixels = pixels.detach();
    return pixels + kAdversarialWeight * adversary_->loss_of(made, plain);
  });
  schedule_.step();
  return {loss, of_pixels, of_adversary};
}

examples::Values Trainer::test(const examples::Moment&) {
  double sum = 0.0;
  for (const LumaPair& pair : tests_)
    sum += psnr(upscale_luma(model_, pair.low, run_.device), pair.high, model_.scale()) /
           static_cast<double>(tests_.size());
  return {{"psnr_adjoint", sum}};
}

void Trainer::finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) {
  std::vector<Quality> qualities;
  nlohmann::ordered_json pictures = nlohmann::ordered_json::array();
  const auto tell = [](nlohmann::ordered_json& json, const Quality& q) {
    json["psnr_bicubic"] = q.bicubic.psnr;
    json["psnr_adjoint"] = q.adjoint.psnr;
    json["ssim_bicubic"] = q.bicubic.ssim;
    json["ssim_adjoint"] = q.adjoint.ssim;
  };
  for (std::int64_t i = 0; i < split_.validation.size(); ++i) {
    qualities.push_back(measure(model_, tests_[static_cast<std::size_t>(i)], run_.device));
    pictures.push_back({{"name", split_.validation.name(i)}});
    tell(pictures.back(), qualities.back());
  }
  const Quality mean = mean_of(qualities);
  tell(metrics, mean);
  metrics["parameters"] = model_.num_parameters();
  if (adversary_) metrics["discriminator_parameters"] = adversary_->num_parameters();
  metrics["pictures"] = pictures;
  save_model(moment.folder / "model.safetensors", model_);
  if (examples::can_draw()) write_comparison(moment.folder / "comparison.png", *this, qualities);
  fmt::print("PSNR {:.2f} dB, {:+.2f} dB over bicubic; SSIM {:.4f}, {:+.4f} over bicubic\n", mean.adjoint.psnr,
             mean.adjoint.psnr - mean.bicubic.psnr, mean.adjoint.ssim, mean.adjoint.ssim - mean.bicubic.ssim);
}

}  // namespace super_resolution
