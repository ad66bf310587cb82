#include "training.h"

#include <adjoint/core/error.h>
#include <adjoint/core/parallel.h>
#include <adjoint/core/random.h>
#include <adjoint/core/tape.h>
#include <adjoint/ops/loss/loss.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace super_resolution {
namespace {

namespace nn = adjoint::nn;
using adjoint::NamedTensors;
using adjoint::Tensor;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// Made pictures: the first ones are for tests, whatever the number to train on.
constexpr std::int64_t kMadeExtent = 256, kMadeTests = 12, kMadePictures = 96;

// What the checkpoint's metadata keeps beside the tensors: text.
constexpr const char* kStateKey = "super_resolution_training";

// What is kept in memory to train on; and what is tested on every now and then, which should take a second or two.
constexpr std::int64_t kTrainingPixels = 1'000'000'000, kTestPixels = 4'000'000;

Split split_of(const TrainingOptions& options) {
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

Model seeded_model(const TrainingOptions& options, adjoint::Device device) {
  adjoint::manual_seed(options.seed);
  Model model(options.model);
  model.to(device);
  return model;
}

void check(const TrainingOptions& options) {
  const auto within = [](const char* name, auto value, auto low, auto high) {
    if (!(value >= low && value <= high))
      throw adjoint::Error(fmt::format("super_resolution: {} must be from {} to {}; got {}", name, low, high, value));
  };
  constexpr std::int64_t kMany = 1'000'000'000;
  within("--steps", options.steps, std::int64_t{1}, kMany);
  within("--batch", options.batch, std::int64_t{1}, std::int64_t{1} << 16);
  within("--patch", options.patch, std::int64_t{4}, std::int64_t{1} << 14);
  within("--lr", options.lr, 1e-12, 1e12);
  within("--test-every", options.test_every, std::int64_t{1}, kMany);
}

// Whole batches, as many as there are between two tests, unless their order would be a long list.
std::int64_t examples_an_epoch(const TrainingOptions& options) {
  constexpr std::int64_t kExamples = std::int64_t{1} << 22;
  return options.batch * std::min(options.test_every, std::max<std::int64_t>(kExamples / options.batch, 1));
}

// Throws before a checkpoint is written: what the last one holds is better than what diverged.
void check_finite(const char* name, double value, std::int64_t step) {
  if (!std::isfinite(value))
    throw adjoint::Error(
        fmt::format("super_resolution: training must stay finite; got a {} of {} in step {}; lower --lr", name, value,
                    step));
}

NamedTensors with_prefix(const std::string& prefix, NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) name.insert(0, prefix);
  return tensors;
}

NamedTensors without_prefix(const std::string& prefix, const NamedTensors& tensors) {
  NamedTensors found;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), tensor);
  }
  return found;
}

}  // namespace

Trainer::Trainer(const TrainingOptions& options, adjoint::Device device)
    : Trainer(options, device, (check(options), split_of(options))) {}

Trainer::Trainer(const TrainingOptions& options, adjoint::Device device, Split split)
    : options_(options),
      device_(device),
      split_(std::move(split)),
      patches_(split_.training, options.patch, examples_an_epoch(options)),
      tests_(pairs_of(split_.validation)),
      model_(seeded_model(options, device)),
      adam_(model_.parameters(), {.lr = options.lr}),
      schedule_(adam_, {.T_max = options.steps, .warmup = {.steps = std::min<std::int64_t>(50, options.steps / 10)}}),
      loader_(patches_, {.batch_size = options.batch, .workers = 1, .seed = options.seed, .device = device}) {
  for (const LumaPair& pair : tests_)
    bicubic_psnr_ += psnr(bicubic(pair.low), pair.high) / static_cast<double>(tests_.size());
}

double Trainer::step(const adjoint::data::Example& batch) {
  double loss_value = 0.0;
  {
    adjoint::Tape tape;
    const Tensor loss = adjoint::mse_loss(model_(batch.input), batch.target);
    tape.backward(loss);
    loss_value = loss.item<double>();
  }
  check_finite("loss", loss_value, steps_done() + 1);
  adam_.step();
  adam_.zero_grad();
  schedule_.step();
  return loss_value;
}

void Trainer::test() {
  double sum = 0.0;
  for (const LumaPair& pair : tests_) sum += measure(model_, pair, device_).adjoint;
  check_finite("PSNR", sum, steps_done());
  const std::int64_t since = curve_.empty() ? steps_done() : steps_done() - curve_.back().step;
  curve_.push_back({.step = steps_done(),
                    .seconds = seconds_,
                    .loss = since > 0 ? loss_sum_ / static_cast<double>(since) : 0.0,
                    .psnr = sum / static_cast<double>(tests_.size())});
  loss_sum_ = 0.0;
}

bool Trainer::run(const std::filesystem::path& checkpoint, Progress& progress,
                  const std::function<bool()>& interrupted) {
  Status status{.step = steps_done(), .steps = options_.steps, .psnr = bicubic_psnr_, .bicubic_psnr = bicubic_psnr_};
  if (!curve_.empty()) status.psnr = curve_.back().psnr;
  while (steps_done() < options_.steps) {
    if (interrupted()) {
      save(checkpoint);
      return false;
    }
    const auto started = Clock::now();
    const auto batch = loader_.next();
    if (!batch) continue;  // an epoch's end
    const double loss = step(*batch);
    const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
    seconds_ += seconds;
    loss_sum_ += loss;

    const double rate = static_cast<double>(options_.batch) / seconds;
    status.step = steps_done();
    status.loss = status.loss == 0.0 ? loss : 0.98 * status.loss + 0.02 * loss;
    status.images_per_second = status.images_per_second == 0.0 ? rate : 0.95 * status.images_per_second + 0.05 * rate;
    const bool tested = steps_done() % options_.test_every == 0 || steps_done() == options_.steps;
    if (tested) {
      test();
      status.psnr = curve_.back().psnr;
      save(checkpoint);
    }
    progress.show(status, tested);
  }
  return true;
}

void Trainer::save(const std::filesystem::path& checkpoint) const {
  NamedTensors tensors;
  for (const auto& part : {with_prefix("model.", model_.state_dict()), with_prefix("adam.", adam_.state_dict()),
                           with_prefix("schedule.", schedule_.state_dict())}) {
    tensors.insert(tensors.end(), part.begin(), part.end());
  }
  const adjoint::Generator& generator = adjoint::default_generator();
  const Json state{{"options", options_},
                   {"fingerprint", patches_.fingerprint()},
                   {"loader", {{"epoch", loader_.state().epoch}, {"batch", loader_.state().batch}}},
                   {"generator", {{"seed", generator.seed()}, {"offset", generator.offset()}}},
                   {"seconds", seconds_},
                   {"loss_sum", loss_sum_},
                   {"curve", curve_}};
  nn::save_safetensors(checkpoint, tensors, {{kStateKey, state.dump()}});
}

void Trainer::load(const nn::Safetensors& file, const Json& state) {
  if (patches_.fingerprint() != state.at("fingerprint").get<std::uint64_t>()) {
    throw adjoint::Error(fmt::format("the pictures in '{}' are not those that it was trained on", options_.images));
  }
  model_.load_state_dict(without_prefix("model.", file.tensors));
  adam_.load_state_dict(without_prefix("adam.", file.tensors));
  schedule_.load_state_dict(without_prefix("schedule.", file.tensors));
  loader_.load_state({state.at("loader").at("epoch"), state.at("loader").at("batch")});
  const Json& generator = state.at("generator");
  adjoint::default_generator() = adjoint::Generator(generator.at("seed").get<std::uint64_t>());
  adjoint::default_generator().seek(generator.at("offset"));
  seconds_ = state.at("seconds");
  loss_sum_ = state.at("loss_sum");
  curve_ = state.at("curve").get<std::vector<CurvePoint>>();
  // A run tests itself at its last step.
  std::int64_t last = 0;
  for (const CurvePoint& point : curve_) {
    if (point.step <= last) throw adjoint::Error("its curve must go forward");
    last = point.step;
  }
  if (last > steps_done() || (steps_done() >= options_.steps && last != steps_done()))
    throw adjoint::Error(fmt::format("its curve must not end at step {} of {}", last, steps_done()));
}

std::unique_ptr<Trainer> Trainer::resume(const std::filesystem::path& checkpoint, adjoint::Device device) {
  const nn::Safetensors file = nn::load_safetensors(checkpoint);
  const auto entry = file.metadata.find(kStateKey);
  if (entry == file.metadata.end()) {
    throw adjoint::Error(fmt::format("super_resolution: '{}' is no checkpoint of this program", checkpoint.string()));
  }
  const auto fail = [&](const char* why) {
    throw adjoint::Error(fmt::format("super_resolution: cannot go on from '{}': {}", checkpoint.string(), why));
  };
  std::unique_ptr<Trainer> trainer;
  try {
    const Json state = Json::parse(entry->second);
    trainer = std::make_unique<Trainer>(state.at("options").get<TrainingOptions>(), device);
    trainer->load(file, state);
  } catch (const adjoint::OutOfMemoryError&) {
    throw;
  } catch (const adjoint::Error& error) {
    fail(error.what());
  } catch (const Json::exception& error) {
    fail(error.what());
  }
  return trainer;
}

}  // namespace super_resolution
