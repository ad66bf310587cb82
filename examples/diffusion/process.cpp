#include "process.h"

#include <adjoint/core/base/error.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace diffusion {
namespace {

using adjoint::Tensor;

std::vector<double> cosine_schedule() {
  constexpr double kOffset = 0.008, kMostNoise = 0.999;
  const auto share = [&](double time) {
    const double c = std::cos((time / kTimes + kOffset) / (1.0 + kOffset) * std::numbers::pi / 2.0);
    return c * c;
  };
  std::vector<double> shares;
  double left = 1.0;
  for (std::int64_t t = 0; t < kTimes; ++t) {
    const auto time = static_cast<double>(t);
    left *= 1.0 - std::min(1.0 - share(time + 1.0) / share(time), kMostNoise);
    shares.push_back(left);
  }
  return shares;
}

// f of each time's share of the signal, (kTimes).
template <class F>
Tensor table(F&& f, adjoint::Device device) {
  std::vector<float> values;
  for (const double share : signal_shares()) values.push_back(static_cast<float>(f(share)));
  return Tensor::from_vector(values, {kTimes}, {.device = device});
}

}  // namespace

const std::vector<double>& signal_shares() {
  static const std::vector<double> shares = cosine_schedule();
  return shares;
}

Noising::Noising(adjoint::Device device)
    : signal_(table([](double share) { return std::sqrt(share); }, device)),
      noise_(table([](double share) { return std::sqrt(1.0 - share); }, device)) {}

Noisy Noising::operator()(const Tensor& pictures, const Tensor& noise, const Tensor& times) const {
  const auto factors = [&](const Tensor& of_times) {
    return adjoint::index_select(of_times, 0, times).reshape({-1, 1, 1, 1});
  };
  const Tensor signal = factors(signal_), spread = factors(noise_);
  return {signal * pictures + spread * noise, signal * noise - spread * pictures};
}

Sampler::Sampler(const Denoiser& model, std::int64_t steps)
    : Module("Sampler"), steps_(steps), model_(register_module("model", model)) {
  if (steps < 1 || steps > kMostSteps)
    throw adjoint::Error(fmt::format("diffusion: the sampler's steps must be from 1 to {}; got {}", kMostSteps, steps));
}

Tensor Sampler::operator()(const Tensor& noise) const {
  Tensor x = noise;
  for (std::int64_t step = steps_; step > 0; --step) {
    const std::int64_t time = step * kTimes / steps_ - 1, next = (step - 1) * kTimes / steps_ - 1;
    const auto share = [](std::int64_t t) { return t < 0 ? 1.0 : signal_shares()[static_cast<std::size_t>(t)]; };
    const double signal = std::sqrt(share(time)), spread = std::sqrt(1.0 - share(time));
    const Tensor velocity = model_(x, Tensor::full({1}, time, {.dtype = adjoint::kInt64, .device = x.device()}));
    // The picture that the network expects, and the noise beside it.
    const Tensor picture = adjoint::clamp(signal * x - spread * velocity, -1.0, 1.0);
    const Tensor left = (x - signal * picture) / spread;
    x = std::sqrt(share(next)) * picture + std::sqrt(1.0 - share(next)) * left;
  }
  return x;
}

}  // namespace diffusion
