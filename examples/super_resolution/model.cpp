#include "model.h"

#include <adjoint/core/error.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/ops/resample/resample.h>

#include <fmt/format.h>

#include <charconv>
#include <string>

namespace super_resolution {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr std::int64_t kHeadKernel = 5, kBodyKernel = 3, kUpKernel = 6;
constexpr const char* kArchitecture = "adjoint super_resolution 2x luma";

nn::Sequential make_body(const ModelOptions& options) {
  const std::int64_t c = options.features;
  if (c < 1 || c > 1024 || options.layers < 0 || options.layers > 64) {
    throw adjoint::Error(
        fmt::format("super_resolution: features must be from 1 to 1024 and layers from 0 to 64; got {} and {}", c,
                    options.layers));
  }
  nn::Sequential body{nn::Conv2d(1, c, {.kernel_size = kHeadKernel, .padding = kHeadKernel / 2}),
                      nn::PReLU({.num_parameters = c})};
  for (std::int64_t i = 0; i < options.layers; ++i) {
    body.append(nn::Conv2d(c, c, {.kernel_size = kBodyKernel, .padding = kBodyKernel / 2}));
    body.append(nn::PReLU({.num_parameters = c}));
  }
  return body;
}

}  // namespace

Model::Model(const ModelOptions& options)
    : Module("SuperResolution"),
      options_(options),
      body_(register_module("body", make_body(options))),
      up_(register_module("up", nn::ConvTranspose2d(options.features, 1,
                                                    {.kernel_size = kUpKernel,
                                                     .stride = kScale,
                                                     .padding = (kUpKernel - kScale) / 2}))) {
  up_.weight.zero_();  // so that training starts from bicubic interpolation
  up_.bias.zero_();
}

Tensor Model::operator()(const Tensor& low) const { return bicubic(low) + up_(body_(low)); }

std::int64_t Model::radius() const {
  constexpr std::int64_t kUpRadius = (kUpKernel / kScale - 1) / 2;  // each phase has kUpKernel / kScale taps
  constexpr std::int64_t kBicubicRadius = 2;
  return std::max(kHeadKernel / 2 + options_.layers * (kBodyKernel / 2) + kUpRadius, kBicubicRadius);
}

Tensor bicubic(const Tensor& low) {
  // With antialias the cubic has a = -0.5; enlarging, it filters nothing.
  return adjoint::interpolate(low,
                              {.scale = double{kScale}, .mode = adjoint::Interpolation::kBicubic, .antialias = true});
}

void save_model(const std::filesystem::path& path, const Model& model) {
  nn::save_safetensors(path, model,
                       {{"architecture", kArchitecture},
                        {"features", std::to_string(model.options().features)},
                        {"layers", std::to_string(model.options().layers)}});
}

Model load_model(const std::filesystem::path& path) {
  const nn::Safetensors file = nn::load_safetensors(path);
  const auto number = [&](const char* key) {
    std::int64_t value = -1;
    if (const auto entry = file.metadata.find(key); entry != file.metadata.end()) {
      std::from_chars(entry->second.data(), entry->second.data() + entry->second.size(), value);
    }
    return value;
  };
  const auto architecture = file.metadata.find("architecture");
  if (architecture == file.metadata.end() || architecture->second != kArchitecture) {
    throw adjoint::Error(fmt::format("super_resolution: '{}' is no model of this program", path.string()));
  }
  Model model({.features = number("features"), .layers = number("layers")});
  model.load_state_dict(file.tensors);
  return model;
}

}  // namespace super_resolution
