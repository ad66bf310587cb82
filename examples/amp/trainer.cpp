#include "trainer.h"

#include "apply.h"

#include "common/sounds.h"

#include <adjoint/core/base/error.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/reduce/reduce.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace amp {
namespace {

using adjoint::Tensor;

constexpr double kMaxNorm = 1.0;                        // of gradients
constexpr double kLeastRate = 0.01;                     // of the learning rate, at the end
constexpr double kQuiet = 1e-4;                         // mean square of a target, below which errors do not count more
constexpr std::int64_t kWarmup = 50, kMostTested = 30;  // seconds

Recordings recordings_of(const Options& options) {
  if (options.input.empty() != options.target.empty()) {
    throw adjoint::Error(fmt::format("amp: --input and --target must come together; got '{}' alone",
                                     options.input.empty() ? options.target : options.input));
  }
  const std::int64_t rate = options.model.sample_rate, least = options.model.context() + options.segment;
  if (options.input.empty()) return Recordings::made(options.seconds, rate, least);
  return Recordings::of(options.input, options.target, rate, least, kMostTested * rate);
}

}  // namespace

void Options::add_to(examples::Settings& settings) {
  settings.add("--input", input, "WAV, FLAC or OGG file of the sound that goes into the device (default: made sounds)");
  settings.add("--target", target, "File of the sound that comes out of it, aligned with the input");
  settings.add("--seconds", seconds, "Seconds of made sound to train on").range(1, 36000).quick(60);
  settings.add("--sample-rate", model.sample_rate, "Hz; files of other rates are resampled").range(4000, 384000);
  settings.add("--channels", model.channels, "Channels of the network").range(1, 1024).quick(8);
  settings.add("--layers", model.layers, "Dilated convolutions; dilations double, and return to 1 after every tenth")
      .range(1, 100)
      .quick(10);
  settings.add("--segment", segment, "Samples per training example, behind those that fill the network's context")
      .range(16, 1 << 20);
}

Trainer::Trainer(const Options& options, const examples::Run& run) : Trainer(options, run, recordings_of(options)) {}

Trainer::Trainer(const Options& options, const examples::Run& run, const Recordings& recordings)
    : run_(run),
      options_(options),
      arithmetic_(run.precision),
      recordings_(recordings),
      model_(options.model),
      parallel_((model_.to(run.device), model_)),
      adam_(model_.parameters(), {.lr = run.lr, .weight_decay = 0.0}),
      schedule_(adam_, {.T_max = run.steps,
                        .eta_min = kLeastRate * run.lr,
                        .warmup = {.steps = std::min(kWarmup, run.steps / 10)}}),
      pieces_(recordings_.training, model_.context() + options.segment,
              run.batch * std::min<std::int64_t>(run.test_every, 1000)),
      loader_(pieces_, {.batch_size = run.batch, .workers = 1, .seed = run.data_seed, .device = run.device}) {}

void Trainer::add_to(examples::State& state) {
  state.add("model", model_);
  state.add("adam", adam_);
  state.add("arithmetic", arithmetic_);
  state.add("schedule", schedule_);
  state.add("loader", loader_);
  state.require("fingerprint", recordings_.fingerprint(), "it was trained on other sound");
}

std::string Trainer::description() const {
  const auto seconds = [&](const Recording& recording) {
    return static_cast<double>(recording.input.numel()) / static_cast<double>(options_.model.sample_rate);
  };
  return fmt::format("{} parameters, {} samples of context; trained on {:.1f} seconds of {}, tested on {:.1f} others;",
                     model_.num_parameters(), model_.context(), seconds(recordings_.training),
                     options_.input.empty() ? "made sound" : "sound", seconds(recordings_.tests));
}

std::vector<Tensor> Trainer::next() {
  for (;;) {
    if (auto batch = loader_.next()) return {batch->input, batch->target};  // none: an epoch's end
  }
}

std::vector<Tensor> Trainer::step(const std::vector<Tensor>& batch) {
  const Tensor target = batch[1].narrow(-1, model_.context(), options_.segment);
  const Tensor loss = arithmetic_.minimise(
      adam_,
      [&] {
        const Tensor made = parallel_(batch[0]).to(adjoint::kFloat32).narrow(-1, model_.context(), options_.segment);
        return adjoint::mse_loss(made, target) / (adjoint::square(target).mean() + kQuiet);
      },
      {.max_norm = kMaxNorm});
  schedule_.step();
  return {loss};
}

Tensor Trainer::tested(const Tensor& samples) const {
  const std::int64_t length = samples.size(0), from = length > model_.context() ? model_.context() : 0;
  return samples.narrow(0, from, length - from);
}

examples::Values Trainer::test(const examples::Moment&) {
  const Recording& tests = recordings_.tests;
  return {{"esr", error_to_signal(tested(modelled(model_, tests.input, run_.device)), tested(tests.target))}};
}

examples::Values Trainer::baselines() const {
  const Tensor input = tested(recordings_.tests.input), target = tested(recordings_.tests.target);
  return {{"input", error_to_signal(input, target)},
          {"input with the best gain", error_to_signal(input * best_gain(input, target), target)}};
}

void Trainer::finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) {
  metrics["parameters"] = model_.num_parameters();
  metrics["context_samples"] = model_.context();
  save_model(moment.folder / "model.safetensors", model_);
  const Tensor made = modelled(model_, recordings_.tests.input, run_.device);
  std::filesystem::create_directories(moment.folder / "sounds");
  for (const auto& [name, samples] :
       {std::pair{"input", recordings_.tests.input}, {"target", recordings_.tests.target}, {"model", made}})
    examples::write_sound(moment.folder / fmt::format("sounds/{}.wav", name), samples, options_.model.sample_rate);
}

}  // namespace amp
