#include "denoiser.h"

#include "common/memory_format.h"
#include "common/model_file.h"

#include <adjoint/core/base/error.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/init.h>
#include <adjoint/ops/attention/attention.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/view/view.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <utility>
#include <vector>

namespace diffusion {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr const char* kArchitecture = "adjoint diffusion denoiser";
constexpr std::int64_t kGroup = 8;    // channels of a group
constexpr std::int64_t kWiden = 4;    // features of a time, in channels at full resolution
constexpr double kLongestWave = 1e4;  // of the sines and cosines, in steps over 2 pi
constexpr std::int64_t kHalvings = 2;

DenoiserOptions checked(const DenoiserOptions& o) {
  if (o.features < kGroup || o.features > 1024 || o.features % kGroup != 0)
    throw adjoint::Error(
        fmt::format("diffusion: features must be a multiple of {} up to 1024; got {}", kGroup, o.features));
  if (o.heads < 1 || (o.features << kHalvings) % o.heads != 0)
    throw adjoint::Error(fmt::format("diffusion: heads must divide {}; got {}", o.features << kHalvings, o.heads));
  return o;
}

nn::GroupNorm group_norm(std::int64_t channels) { return nn::GroupNorm(channels / kGroup, channels); }

// A convolution of zeros: a block begins as its short cut alone.
nn::Conv2d zero_conv(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  nn::Conv2d conv(in, out, {.kernel_size = kernel, .padding = kernel / 2});
  nn::init::zeros_(conv.weight);
  nn::init::zeros_(conv.bias);
  return conv;
}

nn::Conv2d conv3(std::int64_t in, std::int64_t out, std::int64_t stride = 1) {
  return nn::Conv2d(in, out, {.kernel_size = 3, .stride = stride, .padding = 1});
}

// Sines and cosines of times (N), (N, features): the encoding of Vaswani et al.: "Attention is all you need", 2017.
Tensor waves(const Tensor& times, std::int64_t features) {
  const std::int64_t half = features / 2;
  const Tensor place = Tensor::arange(half, {.dtype = adjoint::kFloat32, .device = times.device()});
  const Tensor rate = adjoint::exp(place * (-std::log(kLongestWave) / static_cast<double>(half)));
  const Tensor angle = times.to(adjoint::kFloat32).unsqueeze(1) * rate;
  return adjoint::cat({adjoint::sin(angle), adjoint::cos(angle)}, 1);
}

}  // namespace

Residual::Residual(std::int64_t in, std::int64_t out, std::int64_t time_features)
    : Module("Residual"),
      norm1_(register_module("norm1", group_norm(in))),
      norm2_(register_module("norm2", group_norm(out))),
      conv1_(register_module("conv1", conv3(in, out))),
      conv2_(register_module("conv2", zero_conv(out, out, 3))),
      time_(register_module("time", nn::Linear(time_features, out))),
      shortcut_(register_module("shortcut", nn::Sequential())) {
  if (in != out) shortcut_.append(nn::Conv2d(in, out, 1));
}

Tensor Residual::operator()(const Tensor& x, const Tensor& time) const {
  const Tensor shift = time_(adjoint::silu(time)).unsqueeze(-1).unsqueeze(-1);
  const Tensor y = conv1_(adjoint::silu(norm1_(x))) + shift;
  return shortcut_(x) + conv2_(adjoint::silu(norm2_(y)));
}

SelfAttention::SelfAttention(std::int64_t channels, std::int64_t heads)
    : Module("SelfAttention"),
      heads_(heads),
      norm_(register_module("norm", group_norm(channels))),
      qkv_(register_module("qkv", nn::Conv2d(channels, 3 * channels, 1))),
      out_(register_module("out", zero_conv(channels, channels, 1))) {}

Tensor SelfAttention::operator()(const Tensor& x) const {
  const std::int64_t channels = x.size(1);
  // (N, 3 channels, H, W) -> three times (N, heads, H W, channels / heads)
  const Tensor all =
      adjoint::unflatten(qkv_(norm_(x)).flatten(2), 1, {3, heads_, channels / heads_}).permute({1, 0, 2, 4, 3});
  const Tensor found = adjoint::scaled_dot_product_attention(all.select(0, 0), all.select(0, 1), all.select(0, 2));
  return x + out_(examples::in_format(found.transpose(2, 3).reshape(x.shape()), x.memory_format()));
}

Denoiser::Denoiser(const DenoiserOptions& options)
    : Module("Denoiser"),
      options_(checked(options)),
      time_(register_module("time", nn::Sequential())),
      in_(register_module("in", conv3(3, options_.features))),
      down_(register_module("down", nn::ModuleList<Residual>())),
      middle_(register_module("middle", nn::ModuleList<Residual>())),
      up_(register_module("up", nn::ModuleList<Residual>())),
      halve_(register_module("halve", nn::ModuleList<nn::Conv2d>())),
      double_(register_module("double", nn::ModuleList<nn::ConvTranspose2d>())),
      attention_(register_module("attention", SelfAttention(options_.features << kHalvings, options_.heads))),
      out_(register_module("out", nn::Sequential())) {
  const std::int64_t time = kWiden * options_.features;
  time_.append(nn::Linear(options_.features, time));
  time_.append(nn::SiLU());
  time_.append(nn::Linear(time, time));
  std::int64_t channels = options_.features;
  down_.append(Residual(channels, channels, time));
  for (std::int64_t level = 0; level < kHalvings; ++level, channels *= 2) {
    halve_.append(conv3(channels, channels, 2));
    down_.append(Residual(channels, 2 * channels, time));
  }
  for (int i = 0; i < 2; ++i) middle_.append(Residual(channels, channels, time));
  for (std::int64_t level = 0; level < kHalvings; ++level, channels /= 2) {
    double_.append(nn::ConvTranspose2d(channels, channels / 2, {.kernel_size = 4, .stride = 2, .padding = 1}));
    up_.append(Residual(channels, channels / 2, time));
  }
  out_.append(group_norm(channels));
  out_.append(nn::SiLU());
  out_.append(zero_conv(channels, 3, 3));
}

Tensor Denoiser::operator()(const Tensor& pictures, const Tensor& times) const {
  const Tensor time = time_(waves(times, options_.features));
  std::vector<Tensor> skips;
  Tensor x = down_[0](in_(pictures), time);
  for (std::size_t level = 0; level < halve_.size(); ++level) {
    skips.push_back(x);
    x = down_[level + 1](halve_[level](x), time);
  }
  x = middle_[1](attention_(middle_[0](x, time)), time);
  for (std::size_t level = 0; level < double_.size(); ++level)
    x = up_[level](adjoint::cat({skips[skips.size() - 1 - level], double_[level](x)}, 1), time);
  return out_(x);
}

void save_model(const std::filesystem::path& path, const Denoiser& model) {
  const DenoiserOptions& o = model.options();
  examples::save_model(path, model, kArchitecture, {{"features", o.features}, {"heads", o.heads}});
}

Denoiser load_model(const std::filesystem::path& path) {
  return examples::load_model("diffusion", path, kArchitecture,
                              [](const nlohmann::json& options, const adjoint::NamedTensors& tensors) {
                                return examples::restored(Denoiser({.features = options.at("features"),
                                                                    .heads = options.at("heads")}),
                                                          tensors);
                              });
}

}  // namespace diffusion
