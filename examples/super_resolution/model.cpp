#include "model.h"

#include "common/memory_format.h"

#include <adjoint/core/base/error.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/ops/resample/resample.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace super_resolution {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr const char* kArchitecture = "adjoint super_resolution luma";
constexpr const char* kFirstArchitecture = "adjoint super_resolution 2x luma";  // of files from the time of one network
constexpr std::int64_t kBicubicRadius = 2, kFsrcnnKernel = 9;

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return nn::Conv2d(in, out, {.kernel_size = kernel, .padding = kernel / 2});
}

/// x + main(x).
class Residual : public nn::Module {
 public:
  explicit Residual(nn::Sequential main) : Module("Residual"), main_(register_module("main", std::move(main))) {}
  Tensor operator()(const Tensor& x) const { return x + main_(x); }

 private:
  nn::Child<nn::Sequential> main_;
};

/// A convolution of 5 x 5, then `layers` of 3 x 3.
nn::Sequential transposed_body(const ModelOptions& o) {
  nn::Sequential body{conv(1, o.features, 5), nn::PReLU({.num_parameters = o.features})};
  for (std::int64_t i = 0; i < o.layers; ++i) {
    body.append(conv(o.features, o.features, 3));
    body.append(nn::PReLU({.num_parameters = o.features}));
  }
  return body;
}

/// Three taps a phase.
nn::Layer transposed_up(const ModelOptions& o) {
  return nn::ConvTranspose2d(o.features, 1, {.kernel_size = 3 * o.scale, .stride = o.scale, .padding = o.scale});
}

// Shi et al.: "Real-time single image and video super-resolution using an efficient sub-pixel convolutional neural
// network", 2016.
std::int64_t espcn_channels(const ModelOptions& o) {
  return o.layers > 0 ? std::max<std::int64_t>(o.features / 2, 1) : o.features;
}

nn::Sequential espcn_body(const ModelOptions& o) {
  nn::Sequential body{conv(1, o.features, 5), nn::Tanh()};
  for (std::int64_t i = 0, in = o.features; i < o.layers; ++i, in = espcn_channels(o)) {
    body.append(conv(in, espcn_channels(o), 3));
    body.append(nn::Tanh());
  }
  return body;
}

/// Each pixel's square of results as channels.
nn::Layer espcn_up(const ModelOptions& o) {
  return nn::Sequential{conv(espcn_channels(o), o.scale * o.scale, 3), nn::PixelShuffle(o.scale)};
}

// Dong, Loy, Tang: "Accelerating the super-resolution convolutional neural network", 2016.
nn::Sequential fsrcnn_body(const ModelOptions& o) {
  const std::int64_t shrunk = std::max<std::int64_t>(o.features * 12 / 56, 1);
  nn::Sequential body;
  const auto append = [&](std::int64_t in, std::int64_t out, std::int64_t kernel) {
    body.append(conv(in, out, kernel));
    body.append(nn::PReLU({.num_parameters = out}));
  };
  append(1, o.features, 5);
  append(o.features, shrunk, 1);
  for (std::int64_t i = 0; i < o.layers; ++i) append(shrunk, shrunk, 3);
  append(shrunk, o.features, 1);
  return body;
}

nn::Layer fsrcnn_up(const ModelOptions& o) {
  return nn::ConvTranspose2d(
      o.features, 1,
      {.kernel_size = kFsrcnnKernel, .stride = o.scale, .padding = kFsrcnnKernel / 2, .output_padding = o.scale - 1});
}

// Lim et al.: "Enhanced deep residual networks for single image super-resolution", 2017, on luma.
nn::Sequential edsr_body(const ModelOptions& o) {
  const std::int64_t c = o.features;
  nn::Sequential blocks;
  for (std::int64_t i = 0; i < o.layers; ++i)
    blocks.append(Residual(nn::Sequential{conv(c, c, 3), nn::ReLU(), conv(c, c, 3)}));
  blocks.append(conv(c, c, 3));
  nn::Sequential body{conv(1, c, 3), Residual(std::move(blocks))};
  for (std::int64_t left = o.scale; left > 1;) {
    const std::int64_t times = left % 2 == 0 ? 2 : left;
    body.append(conv(c, times * times * c, 3));
    body.append(nn::PixelShuffle(times));
    left /= times;
  }
  return body;
}

nn::Layer edsr_up(const ModelOptions& o) { return conv(o.features, 1, 3); }

struct Network {
  const char* name;
  std::int64_t features, layers, quick_features, quick_layers;
  nn::Sequential (*body)(const ModelOptions&);
  std::size_t first;  // layers of the body: the convolution of luma, and its activation
  /// The part after the body; its last layer makes the correction.
  nn::Layer (*up)(const ModelOptions&);
  std::int64_t (*radius)(const ModelOptions&);
};

constexpr std::array<Network, 4> kNetworks{{
    {"transposed", 32, 3, 16, 3, transposed_body, 2, transposed_up, [](const ModelOptions& o) { return 3 + o.layers; }},
    {"espcn", 64, 1, 32, 1, espcn_body, 2, espcn_up, [](const ModelOptions& o) { return 3 + o.layers; }},
    {"fsrcnn", 56, 4, 56, 4, fsrcnn_body, 2, fsrcnn_up,
     [](const ModelOptions& o) { return 2 + o.layers + (o.scale - 1 + kFsrcnnKernel / 2) / o.scale; }},
    // First and last of the blocks' convolutions, one at each of up to two resolutions, and the last.
    {"edsr", 64, 16, 16, 4, edsr_body, 1, edsr_up, [](const ModelOptions& o) { return 4 + 2 * o.layers; }},
}};

const Network& network_of(const std::string& name) {
  for (const Network& network : kNetworks) {
    if (name == network.name) return network;
  }
  throw adjoint::Error(
      fmt::format("super_resolution: the model must be one of {}; got '{}'", fmt::join(networks(), ", "), name));
}

}  // namespace

std::vector<std::string> networks() {
  std::vector<std::string> names;
  for (const Network& network : kNetworks) names.emplace_back(network.name);
  return names;
}

ModelOptions complete(ModelOptions o, bool quick) {
  const Network& network = network_of(o.network);
  if (o.features == 0) o.features = quick ? network.quick_features : network.features;
  if (o.layers == -1) o.layers = quick ? network.quick_layers : network.layers;
  if (o.scale < 2 || o.scale > 4)
    throw adjoint::Error(fmt::format("super_resolution: scale must be 2, 3 or 4; got {}", o.scale));
  if (o.features < 1 || o.features > 1024 || o.layers < 0 || o.layers > 64) {
    throw adjoint::Error(
        fmt::format("super_resolution: features must be from 1 to 1024 and layers from 0 to 64; got {} and {}",
                    o.features, o.layers));
  }
  return o;
}

std::string to_string(const ModelOptions& options) { return fmt::format("{} for {}x", options.network, options.scale); }

nn::Sequential Model::body(const ModelOptions& options) {
  const Network& network = network_of(options.network);
  return examples::in_format_after(network.first, network.body(options));
}
nn::Layer Model::up(const ModelOptions& options) { return network_of(options.network).up(options); }

Model::Model(const ModelOptions& options) : Module("SuperResolution"), options_(complete(options)) {
  for (Tensor parameter : up_.parameters()) parameter.zero_();  // training starts from bicubic interpolation
}

Tensor Model::operator()(const Tensor& low) const { return bicubic(low, scale()) + up_(body_(low)); }

std::int64_t Model::radius() const { return std::max(network_of(options_.network).radius(options_), kBicubicRadius); }

Tensor bicubic(const Tensor& low, std::int64_t scale) {
  // With antialias the cubic has a = -0.5; enlarging, it filters nothing.
  return adjoint::interpolate(low, {.scale_factor = static_cast<double>(scale),
                                    .mode = adjoint::Interpolation::kBicubic,
                                    .antialias = true});
}

void save_model(const std::filesystem::path& path, const Model& model) {
  const ModelOptions& options = model.options();
  nn::save_safetensors(path, model,
                       {{"architecture", kArchitecture},
                        {"network", options.network},
                        {"scale", std::to_string(options.scale)},
                        {"features", std::to_string(options.features)},
                        {"layers", std::to_string(options.layers)}});
}

Model load_model(const std::filesystem::path& path) {
  const nn::Safetensors file = nn::load_safetensors(path);
  const auto text = [&](const char* key) {
    const auto entry = file.metadata.find(key);
    return entry == file.metadata.end() ? std::string() : entry->second;
  };
  const auto number = [&](const char* key) {
    std::int64_t value = -2;  // outside every range
    const std::string digits = text(key);
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  ModelOptions options{.features = number("features"), .layers = number("layers")};
  if (text("architecture") == kArchitecture) {
    options.network = text("network");
    options.scale = number("scale");
  } else if (text("architecture") != kFirstArchitecture) {
    throw adjoint::Error(fmt::format("super_resolution: '{}' is not a model of this program", path.string()));
  }
  try {
    Model model(options);
    model.load_state_dict(file.tensors);
    return model;
  } catch (const adjoint::OutOfMemoryError&) {
    throw;
  } catch (const adjoint::Error& error) {
    throw adjoint::Error(
        fmt::format("super_resolution: '{}' must hold {}, as its metadata says; got another network: {}", path.string(),
                    to_string(options), error.what()));
  }
}

}  // namespace super_resolution
