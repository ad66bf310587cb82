#include "apply.h"

#include <adjoint/core/base/error.h>
#include <adjoint/nn/streaming.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/reduce/reduce.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace amp {

using adjoint::Tensor;

Tensor modelled(const Amp& model, const Tensor& input, adjoint::Device device) {
  return model(input.to(device).reshape({1, 1, -1})).reshape({-1}).to(adjoint::kCPU);
}

double error_to_signal(const Tensor& made, const Tensor& target) {
  const auto energy = [](const Tensor& x) { return adjoint::square(x.to(adjoint::kFloat64)).sum().item<double>(); };
  return energy(made - target) / energy(target);
}

double best_gain(const Tensor& input, const Tensor& target) {
  const Tensor in = input.to(adjoint::kFloat64);
  return (in * target.to(adjoint::kFloat64)).sum().item<double>() /
         std::max(adjoint::square(in).sum().item<double>(), 1e-30);
}

Tensor processed(const Amp& model, const Tensor& sound, std::int64_t block, std::vector<double>& times) {
  if (block < 1 || block > 65536)
    throw adjoint::Error(fmt::format("amp: --block must be from 1 to 65536 samples; got {}", block));
  const std::int64_t channels = sound.size(0), length = sound.size(1);
  adjoint::nn::Streaming stream(model, {.block = block, .batch = channels});
  Tensor out = Tensor::empty({channels, length});
  for (std::int64_t at = 0; at < length; at += block) {
    const std::int64_t count = std::min(block, length - at);
    const Tensor in = sound.narrow(1, at, count).unsqueeze(1).contiguous();
    Tensor made = Tensor::empty({channels, 1, count});
    const auto start = std::chrono::steady_clock::now();
    stream.process(in, made);
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    out.narrow(1, at, count).copy_(made.squeeze(1));  // a causal network's outputs come at once
  }
  return out;
}

}  // namespace amp
