#include "measure.h"

#include "mel.h"

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/reduce/reduce.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace vocoder {

using adjoint::Tensor;

namespace {

// The longest window of stft_distance, longer than Griffin-Lim's: shorter sounds get zeros behind them.
Tensor filled(const Tensor& sound) {
  constexpr std::int64_t kLeast = 2048;
  const std::int64_t missing = kLeast - sound.size(-1);
  return missing <= 0 ? sound : adjoint::pad(sound, {0, missing});
}

}  // namespace

Distances distances(const Tensor& made, const Tensor& original, std::int64_t sample_rate) {
  return {stft_distance(filled(made), filled(original)), mel_distance(made, original, sample_rate)};
}

Tensor resynthesized(const Generator& model, const Tensor& sound, adjoint::Device device) {
  const Tensor mel = log_mel(sound.to(device), model.options().sample_rate);
  return model(mel).squeeze(1).narrow(-1, 0, sound.size(-1)).to(adjoint::kCPU).contiguous();
}

Tensor by_griffin_lim(const Tensor& sound, std::int64_t sample_rate, adjoint::Device device) {
  const Tensor made = griffin_lim(log_mel(filled(sound).to(device), sample_rate), sample_rate);
  return made.narrow(-1, 0, sound.size(-1)).to(adjoint::kCPU).contiguous();
}

Level level_of(const Tensor& sound) {
  constexpr float kLargest = 32767.0F / 32768.0F;  // of 16 bits
  const auto decibels = [](double amplitude) { return 20.0 * std::log10(std::max(amplitude, 1e-9)); };
  const Tensor size = adjoint::abs(sound);
  return {decibels(size.max().item<float>()), decibels(std::sqrt(adjoint::square(sound).mean().item<float>())),
          (size >= static_cast<double>(kLargest)).to(adjoint::kFloat32).mean().item<float>()};
}

std::vector<Measured> measure(const Generator& model, const std::vector<Sound>& sounds, adjoint::Device device) {
  const std::int64_t rate = model.options().sample_rate;
  std::vector<Measured> all;
  for (const Sound& sound : sounds) {
    all.push_back({sound.name, distances(resynthesized(model, sound.samples, device), sound.samples, rate),
                   distances(by_griffin_lim(sound.samples, rate, device), sound.samples, rate)});
  }
  return all;
}

Measured mean_of(const std::vector<Measured>& all) {
  Measured mean{"mean", {}, {}};
  const double share = 1.0 / static_cast<double>(all.size());
  for (const Measured& one : all) {
    mean.model.stft += share * one.model.stft;
    mean.model.mel += share * one.model.mel;
    mean.griffin_lim.stft += share * one.griffin_lim.stft;
    mean.griffin_lim.mel += share * one.griffin_lim.mel;
  }
  return mean;
}

double real_time_factor(const Generator& model, const Tensor& sound, adjoint::Device device, int runs) {
  const double length = static_cast<double>(sound.size(-1)) / static_cast<double>(model.options().sample_rate);
  double shortest = std::numeric_limits<double>::infinity();
  for (int run = 0; run <= runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    resynthesized(model, sound, device);  // its copy to the CPU waits for the device
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (run > 0) shortest = std::min(shortest, seconds);
  }
  return shortest / length;
}

}  // namespace vocoder
