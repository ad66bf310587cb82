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

namespace volumes {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr const char* kArchitecture = "adjoint volumes unet";

void check(const UNetOptions& o) {
  const auto within = [](const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high)
      throw adjoint::Error(fmt::format("volumes: {} must be from {} to {}; got {}", name, low, high, value));
  };
  within("classes", o.classes, 2, 255);
  within("features", o.features, 1, 1024);
  within("depth", o.depth, 1, 6);
  if (o.norm != "instance" && o.norm != "batch")
    throw adjoint::Error(fmt::format("volumes: norm must be instance or batch; got '{}'", o.norm));
}

nn::Sequential double_conv(std::int64_t in, std::int64_t out, const std::string& norm) {
  nn::Sequential layers;
  for (const std::int64_t channels : {in, out}) {
    layers.append(nn::Conv3d(channels, out, {.kernel_size = 3, .padding = 1, .bias = false}));
    if (norm == "instance")
      layers.append(nn::InstanceNorm3d(out, {.affine = true}));
    else
      layers.append(nn::BatchNorm3d(out));
    layers.append(nn::LeakyReLU(0.01));
  }
  return layers;
}

}  // namespace

UNet::UNet(const UNetOptions& options) : Module("UNet"), options_((check(options), options)) {
  std::int64_t channels = options_.features;
  down_.append(double_conv(1, channels, options_.norm));
  for (std::int64_t level = 0; level < options_.depth; ++level, channels *= 2)
    down_.append(double_conv(channels, 2 * channels, options_.norm));
  for (std::int64_t level = 0; level < options_.depth; ++level, channels /= 2) {
    ups_.append(nn::ConvTranspose3d(channels, channels / 2, {.kernel_size = 2, .stride = 2}));
    up_convs_.append(double_conv(channels, channels / 2, options_.norm));
  }
}

Tensor UNet::operator()(const Tensor& volume) const {
  std::vector<Tensor> skips;
  Tensor x = down_[0](volume);
  for (std::size_t level = 1; level < down_.size(); ++level) {
    skips.push_back(x);
    x = down_[level](adjoint::max_pool3d(x, 2));
  }
  for (std::size_t level = 0; level < ups_.size(); ++level) {
    const Tensor& skip = skips[skips.size() - 1 - level];
    // output_size restores the layer, row or column that pooling cut off an odd extent.
    const adjoint::Size3 size(skip.size(2), skip.size(3), skip.size(4));
    x = up_convs_[level](adjoint::cat({skip, ups_[level](x, {.output_size = size})}, 1));
  }
  return out_(x);
}

void save_model(const std::filesystem::path& path, const UNet& model, const std::vector<std::string>& names) {
  const UNetOptions& o = model.options();
  examples::save_model(
      path, model, kArchitecture,
      {{"classes", o.classes}, {"features", o.features}, {"depth", o.depth}, {"norm", o.norm}, {"names", names}});
}

NamedModel load_model(const std::filesystem::path& path) {
  return examples::load_model("volumes", path, kArchitecture,
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

}  // namespace volumes
