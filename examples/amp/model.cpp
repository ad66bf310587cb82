#include "model.h"

#include "common/model_file.h"

#include <adjoint/core/base/error.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/pad/pad.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace amp {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr const char* kArchitecture = "adjoint amp";

const AmpOptions& checked(const AmpOptions& o) {
  const auto within = [](const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high)
      throw adjoint::Error(fmt::format("amp: {} must be from {} to {}; got {}", name, low, high, value));
  };
  within("channels", o.channels, 1, 1024);
  within("layers", o.layers, 1, 100);
  within("sample rate", o.sample_rate, 4000, 384000);
  return o;
}

}  // namespace

Amp::Amp(const AmpOptions& options) : Module("Amp"), options_(checked(options)) {
  const std::int64_t channels = options.channels;
  for (std::int64_t i = 0; i < options.layers; ++i) {
    dilated.append(nn::Conv1d(channels, channels, {.kernel_size = kKernel, .dilation = dilation(i)}));
    if (i + 1 < options.layers) mixed.append(nn::Conv1d(channels, channels, {.kernel_size = 1}));
  }
}

Tensor Amp::operator()(const Tensor& sound) const {
  Tensor h = input(sound), sum;
  for (std::size_t i = 0; i < dilated.size(); ++i) {
    const std::int64_t before = (kKernel - 1) * dilation(static_cast<std::int64_t>(i));
    const Tensor z = adjoint::tanh(dilated[i](adjoint::pad(h, {before, 0})));
    sum = sum.defined() ? sum + z : z;
    if (i < mixed.size()) h = h + mixed[i](z);
  }
  return output(sum);
}

std::int64_t AmpOptions::context() const {
  std::int64_t samples = 0;
  for (std::int64_t i = 0; i < layers; ++i) samples += (Amp::kKernel - 1) * Amp::dilation(i);
  return samples;
}

void save_model(const std::filesystem::path& path, const Amp& model) {
  const AmpOptions& o = model.options();
  examples::save_model(path, model, kArchitecture,
                       {{"channels", o.channels}, {"layers", o.layers}, {"sample_rate", o.sample_rate}});
}

Amp load_model(const std::filesystem::path& path) {
  return examples::load_model("amp", path, kArchitecture,
                              [](const nlohmann::json& options, const adjoint::NamedTensors& tensors) {
                                return examples::restored(Amp({.channels = options.at("channels"),
                                                               .layers = options.at("layers"),
                                                               .sample_rate = options.at("sample_rate")}),
                                                          tensors);
                              });
}

}  // namespace amp
