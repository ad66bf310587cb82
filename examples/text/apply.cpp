#include "apply.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/loss/classification.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace text {
namespace {

using adjoint::Tensor;

/// The byte that the options choose by these scores (256). Equal scores are in the bytes' order.
std::uint8_t chosen(const std::vector<float>& scores, const SampleOptions& options, adjoint::Generator& generator) {
  std::vector<std::uint8_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return scores[a] > scores[b]; });
  if (options.temperature == 0.0) return order.front();
  if (options.top_k > 0) order.resize(static_cast<std::size_t>(options.top_k));
  std::vector<double> upto;  // sums of the chances
  double sum = 0.0;
  for (const std::uint8_t byte : order) {
    sum += std::exp((static_cast<double>(scores[byte]) - static_cast<double>(scores[order.front()])) /
                    options.temperature);
    upto.push_back(sum);
  }
  const auto found = std::upper_bound(upto.begin(), upto.end() - 1, sum * generator.uniform());
  return order[static_cast<std::size_t>(found - upto.begin())];
}

Tensor as_indices(const std::string& bytes, adjoint::Device device) {
  const std::vector<std::uint8_t> values(bytes.begin(), bytes.end());
  return Tensor::from_vector(values, {1, std::ssize(values)}).to(device).to(adjoint::kInt64);
}

}  // namespace

double bits_per_byte(const Gpt& model, const Tensor& text, adjoint::Device device) {
  if (text.numel() == 0) throw adjoint::Error("text: a text to measure must hold at least 1 byte; got none");
  const std::int64_t context = model.options().context, count = text.numel() - 1;
  const Tensor bytes = text.to(device);
  Tensor nats = Tensor::zeros({}, {.dtype = adjoint::kFloat64, .device = device});
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t next = std::min(count, done + (done == 0 ? context : context / 2));
    const std::int64_t from = std::max<std::int64_t>(next - context, 0);
    const Tensor window = bytes.narrow(0, from, next - from + 1).to(adjoint::kInt64);
    const Tensor scores = model(window.narrow(0, 0, next - from).unsqueeze(0)).squeeze(0);
    nats.add_(adjoint::cross_entropy(scores.narrow(0, done - from, next - done).to(adjoint::kFloat32),
                                     window.narrow(0, done - from + 1, next - done), adjoint::Reduction::kSum)
                  .to(adjoint::kFloat64));
    done = next;
  }
  return (nats.item<double>() / std::log(2.0) + 8.0) / static_cast<double>(text.numel());
}

void SampleOptions::check() const {
  const auto within = [](const char* name, auto value, auto low, auto high) {
    if (!(value >= low && value <= high))
      throw adjoint::Error(fmt::format("text: --{} must be from {} to {}; got {}", name, low, high, value));
  };
  within("length", length, 0, 100'000'000);
  within("temperature", temperature, 0.0, 1e6);
  within("top-k", top_k, 0, Gpt::kBytes);
}

std::string sample(const Gpt& model, const std::string& prompt, const SampleOptions& options, adjoint::Device device) {
  options.check();
  if (prompt.empty()) throw adjoint::Error("text: --prompt must hold at least 1 byte; got none");
  const auto context = static_cast<std::size_t>(model.options().context);
  adjoint::Generator generator(options.seed);
  std::string text = prompt;
  Cache cache;
  std::size_t held = context;  // positions in the cache; a full one is filled anew
  for (std::int64_t i = 0; i < options.length; ++i) {
    std::size_t fresh = 1;
    if (held == context) {
      cache.clear();
      fresh = held = std::min(text.size(), i == 0 ? context : context / 2);
    } else {
      ++held;
    }
    const Tensor scores = model(as_indices(text.substr(text.size() - fresh), device), &cache);
    const Tensor last = scores.select(1, scores.size(1) - 1).squeeze(0);
    text +=
        static_cast<char>(chosen(last.to(adjoint::kCPU).to(adjoint::kFloat32).to_vector<float>(), options, generator));
  }
  return text;
}

}  // namespace text
