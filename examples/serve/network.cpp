#include "network.h"

#include "gan/networks.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/pool.h>
#include <adjoint/nn/sequential.h>
#if EXAMPLES_WITH_ONNX
#include <adjoint/nn/onnx/onnx_model.h>
#endif

#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace serve {
namespace {

namespace nn = adjoint::nn;
using adjoint::Error;
using adjoint::Shape;
using adjoint::Tensor;

constexpr std::int64_t kSide = 28, kFeatures = 16, kClasses = 10;
constexpr std::int64_t kMostElements = std::int64_t{1} << 28;  // 1 GiB: a message counts bytes in 32 bits

// Server and client make it alike, because the seed is fixed.
Network built_in() {
  adjoint::manual_seed(1);
  nn::Sequential net{nn::Conv2d(1, kFeatures, {.kernel_size = 5, .padding = 2}),
                     nn::ReLU(),
                     nn::MaxPool2d(2),
                     nn::Conv2d(kFeatures, kFeatures, {.kernel_size = 5, .padding = 2}),
                     nn::ReLU(),
                     nn::MaxPool2d(2),
                     nn::Flatten(),
                     nn::Linear(kFeatures * (kSide / 4) * (kSide / 4), kClasses)};
  net.eval();
  return {"the built-in classifier", {1, kSide, kSide}, [net](const Tensor& x) { return net(x); }};
}

Network from_gan(const std::string& path) {
  const gan::Generator generator = gan::load_model(path);
  return {"the generator in " + path, {generator.options().latent}, [generator](const Tensor& x) {
            return generator(x);
          }};
}

Network from_onnx(const std::string& path, const std::vector<std::int64_t>& shape) {
#if EXAMPLES_WITH_ONNX
  if (shape.empty()) {
    throw Error(fmt::format(
        "serve: an ONNX file needs --shape, the extents of one input without the batch, such as 3,32,32; got none for "
        "'{}'",
        path));
  }
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 1 || extent > kMostElements / elements) {
      throw Error(fmt::format("serve: --shape must have positive extents and at most {} elements; got {}",
                              kMostElements, fmt::join(shape, ",")));
    }
    elements *= extent;
  }
  nn::OnnxModel model = nn::load_onnx(path);
  model.eval();
  return {path, Shape(shape), [model](const Tensor& x) { return model(x); }};
#else
  static_cast<void>(shape);
  throw Error("serve: the program must be built with Adjoint::onnx (libonnx-dev); cannot read '" + path + "'");
#endif
}

}  // namespace

Shape Network::batch_of(std::int64_t size) const {
  std::vector<std::int64_t> extents{size};
  extents.insert(extents.end(), shape.begin(), shape.end());
  return Shape(extents);
}

Network load_network(const NetworkOptions& options) {
  const std::string extension = std::filesystem::path(options.model).extension().string();
  if (extension == ".onnx") return from_onnx(options.model, options.shape);
  if (!options.shape.empty()) {
    throw Error(fmt::format("serve: --shape is for ONNX files, because other networks know theirs; got {}",
                            fmt::join(options.shape, ",")));
  }
  if (options.model.empty()) return built_in();
  if (extension == ".safetensors") return from_gan(options.model);
  throw Error(
      fmt::format("serve: --model must end in .onnx, or be a model.safetensors of gan; got '{}'", options.model));
}

}  // namespace serve
