#include "trainer.h"

#include "apply.h"

#include "common/memory_format.h"

#include <adjoint/data/image.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/resample/resample.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace autoencoder {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;

constexpr std::int64_t kTested = 1024, kShown = 32, kSamples = 64, kColumns = 8, kWalks = 4;
constexpr std::uint64_t kShowSeed = 2;

/// The variance of some of the training pictures, always the same ones.
double variance_of(const data::Dataset& pictures) {
  std::vector<Tensor> some;
  adjoint::Generator generator(1);
  for (int i = 0; i < 256; ++i) some.push_back(pictures.get(0, generator).input);
  return std::max<double>(adjoint::var(adjoint::stack(some)).item<float>(), 1e-4);
}

}  // namespace

Trainer::Trainer(const Options& options, const examples::Run& run)
    : run_(run),
      images_(options.images),
      arithmetic_(run.precision),
      source_("autoencoder", options.images, options.drawn, run.batch * std::min<std::int64_t>(run.test_every, 1000),
              true),
      recipe_(Recipe::of(options, variance_of(*source_.training), run.batch, run.device, run.memory_format)),
      adam_(recipe_->model().module().parameters(), {.lr = run.lr}),
      schedule_(adam_, {.T_max = run.steps, .warmup = {.steps = std::min<std::int64_t>(100, run.steps / 10)}}),
      loader_(*source_.training, {.batch_size = run.batch, .workers = 1, .seed = run.data_seed, .device = run.device}) {
  if (source_.tests.size(0) > kTested) source_.tests = source_.tests.narrow(0, 0, kTested);
}

void Trainer::add_to(examples::State& state) {
  state.add("model", recipe_->model().module());
  state.add("adam", adam_);
  state.add("arithmetic", arithmetic_);
  state.add("schedule", schedule_);
  state.add("loader", loader_);
  state.require("fingerprint", source_.fingerprint, "it was trained on other pictures");
}

std::string Trainer::description() const {
  const Model& model = recipe_->model();
  return fmt::format("{} parameters; {} x {} bits of a picture; trained on {}, tested on {} others",
                     model.module().num_parameters(), model.kept(), model.bits(), source_.description(),
                     source_.tests.size(0));
}

std::vector<Tensor> Trainer::next() {
  for (;;) {
    if (auto batch = loader_.next())  // empty: an epoch's end
      return {examples::in_format(batch->input, run_.memory_format), recipe_->random(run_.batch)};
  }
}

std::vector<Tensor> Trainer::step(const std::vector<Tensor>& batch) {
  std::vector<Tensor> values;
  arithmetic_.minimise(adam_, [&] {
    values = recipe_->losses(batch[0], batch[1]);
    Tensor sum = values.front();
    for (std::size_t i = 1; i < values.size(); ++i) sum = sum + values[i];
    return sum;
  });
  recipe_->update(batch[1]);
  schedule_.step();
  for (Tensor& value : values) value = value.detach();
  return values;
}

examples::Values Trainer::test(const examples::Moment& moment) {
  adjoint::nn::Module& net = recipe_->model().module();
  net.eval();
  const Tensor back = reconstruct(recipe_->model(), source_.tests, run_.device);
  examples::Values values{{"psnr", psnr_of(back, source_.tests)}};
  for (const auto& more : recipe_->test(examples::to_signed(source_.tests.to(run_.device)))) values.push_back(more);
  net.train();
  const std::int64_t shown = std::min(kShown, source_.tests.size(0));
  const Tensor sheet = compared(source_.tests.narrow(0, 0, shown), back.narrow(0, 0, shown), kColumns);
  std::filesystem::create_directories(moment.folder / "reconstructions");
  data::write_png(moment.folder / fmt::format("reconstructions/{:07}.png", moment.step), sheet);
  moment.log.add_image("reconstructions", sheet, moment.step);
  return values;
}

/// For comparison: pictures shrunk to as many bytes as their codes have, or to as many numbers, and enlarged again.
examples::Values Trainer::baselines() const {
  const Model& model = recipe_->model();
  const double numbers = static_cast<double>(model.kept()) * std::min(model.bits() / 8.0, 1.0);
  const auto extent =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(std::sqrt(numbers / 3.0)), 1, examples::kPictureExtent);
  const Tensor small =
      adjoint::interpolate(examples::to_signed(source_.tests),
                           {.size = extent, .mode = adjoint::Interpolation::kBilinear, .antialias = true});
  const Tensor back =
      adjoint::interpolate(small, {.size = examples::kPictureExtent, .mode = adjoint::Interpolation::kBicubic});
  return {{fmt::format("shrunk to {} x {}", extent, extent), psnr_of(examples::to_bytes(back), source_.tests)}};
}

void Trainer::finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) {
  Model& model = recipe_->model();
  metrics["parameters"] = model.module().num_parameters();
  metrics["bits_a_picture"] = static_cast<double>(model.kept()) * model.bits();
  model.module().eval();
  const Tensor& tests = source_.tests;
  const std::int64_t shown = std::min(kShown, tests.size(0));
  const Tensor some = tests.narrow(0, 0, shown);
  const Tensor samples = examples::tiled(sample(model, kSamples, kShowSeed, run_.device), kColumns);
  std::vector<Tensor> walks;
  for (std::int64_t i = 0; i < kWalks; ++i) {
    const std::int64_t from = 2 * i % tests.size(0), to = (2 * i + 1) % tests.size(0);
    walks.push_back(walk(model, tests[from], tests[to], kColumns, run_.device));
  }
  data::write_png(moment.folder / "reconstructions.png",
                  compared(some, reconstruct(model, some, run_.device), kColumns));
  data::write_png(moment.folder / "samples.png", samples);
  data::write_png(moment.folder / "walk.png", examples::tiled(adjoint::cat(walks), kColumns));
  moment.log.add_image("samples", samples, moment.step);
  save_model(moment.folder / "model.safetensors", model);
  model.module().train();
}

}  // namespace autoencoder
