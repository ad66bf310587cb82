#include "unet.h"

#include "common/model_file.h"

#include <adjoint/core/base/error.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/norm.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/pool/pool.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace segmentation {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr std::int64_t kGroup = 8;
constexpr const char* kArchitecture = "adjoint segmentation unet";

void check(const UNetOptions& o) {
  const auto within = [](const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high)
      throw adjoint::Error(fmt::format("segmentation: {} must be from {} to {}; got {}", name, low, high, value));
  };
  within("classes", o.classes, 2, 255);
  within("features", o.features, 1, 1024);
  within("depth", o.depth, 1, 6);
  if (o.norm != "batch" && o.norm != "group")
    throw adjoint::Error(fmt::format("segmentation: norm must be batch or group; got '{}'", o.norm));
  if (o.norm == "group" && o.features % kGroup != 0) {
    throw adjoint::Error(
        fmt::format("segmentation: with GroupNorm, features must be a multiple of {}; got {}", kGroup, o.features));
  }
}

nn::Sequential double_conv(std::int64_t in, std::int64_t out, const std::string& norm) {
  nn::Sequential layers;
  for (const std::int64_t channels : {in, out}) {
    layers.append(nn::Conv2d(channels, out, {.kernel_size = 3, .padding = 1, .bias = false}));
    if (norm == "group")
      layers.append(nn::GroupNorm(out / kGroup, out));
    else
      layers.append(nn::BatchNorm2d(out));
    layers.append(nn::ReLU());
  }
  return layers;
}

}  // namespace

UNet::UNet(const UNetOptions& options) : Module("UNet"), options_((check(options), options)) {
  std::int64_t channels = options_.features;
  down_.append(double_conv(3, channels, options_.norm));
  for (std::int64_t level = 0; level < options_.depth; ++level, channels *= 2)
    down_.append(double_conv(channels, 2 * channels, options_.norm));
  for (std::int64_t level = 0; level < options_.depth; ++level, channels /= 2) {
    ups_.append(nn::ConvTranspose2d(channels, channels / 2, {.kernel_size = 2, .stride = 2}));
    up_convs_.append(double_conv(channels, channels / 2, options_.norm));
  }
}

Tensor UNet::operator()(const Tensor& picture) const {
  std::vector<Tensor> skips;
  Tensor x = down_[0](picture);
  for (std::size_t level = 1; level < down_.size(); ++level) {
    skips.push_back(x);
    x = down_[level](adjoint::max_pool2d(x, 2));
  }
  for (std::size_t level = 0; level < ups_.size(); ++level) {
    const Tensor& skip = skips[skips.size() - 1 - level];
    // output_size restores the row or column that pooling cut off an odd extent.
    x = up_convs_[level](adjoint::cat({skip, ups_[level](x, {.output_size = {skip.size(2), skip.size(3)}})}, 1));
  }
  return out_(x);
}

// In pixels of the whole resolution, two convolutions reach 2 * 2^level, on the way down and on the way up: together
// 4 (2^depth - 1) above the lowest level and 2 * 2^depth on it; pooling and enlarging add less than 2^depth.
std::int64_t UNet::margin() const { return 7 * alignment(); }

void save_model(const std::filesystem::path& path, const UNet& model, const std::vector<std::string>& names) {
  const UNetOptions& o = model.options();
  examples::save_model(
      path, model, kArchitecture,
      {{"classes", o.classes}, {"features", o.features}, {"depth", o.depth}, {"norm", o.norm}, {"names", names}});
}

NamedModel load_model(const std::filesystem::path& path) {
  return examples::load_model("segmentation", path, kArchitecture,
                              [](const nlohmann::json& options, const adjoint::NamedTensors& tensors) {
                                NamedModel loaded{examples::restored(UNet({.classes = options.at("classes"),
                                                                           .features = options.at("features"),
                                                                           .depth = options.at("depth"),
                                                                           .norm = options.at("norm")}),
                                                                     tensors),
                                                  options.at("names")};
                                if (std::ssize(loaded.names) != loaded.model.options().classes)
                                  throw adjoint::Error("it must name each class");
                                return loaded;
                              });
}

}  // namespace segmentation
