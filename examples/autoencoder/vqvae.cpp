#include "vqvae.h"

#include "common/drawn.h"
#include "common/memory_format.h"

#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/classification.h>
#include <adjoint/ops/loss/loss.h>

#include <cmath>

namespace autoencoder {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr std::int64_t kPicture = 3, kGrid = examples::kPictureExtent / 4, kBlocks = 2;

VqVaeOptions checked(const VqVaeOptions& o) {
  check_option("codes", o.codes, 2, 1 << 16);
  check_option("code-width", o.width, 1, 4096);
  check_option("features", o.features, 1, 1024);
  return o;
}

class Residual : public nn::Module {
 public:
  explicit Residual(std::int64_t channels) : Module("Residual"), channels_(channels) {}
  Tensor operator()(const Tensor& x) const { return x + body_(x); }

 private:
  std::int64_t channels_;
  nn::Child<nn::Sequential> body_ =
      register_module("body", nn::Sequential{nn::ReLU(), nn::Conv2d(channels_, channels_, 3, {.padding = 1}),
                                             nn::ReLU(), nn::Conv2d(channels_, channels_, 1)});
};

}  // namespace

nn::Sequential VqVae::encoder(const VqVaeOptions& o) {
  const std::int64_t wide = 2 * o.features;
  nn::Sequential layers{nn::Conv2d(kPicture, o.features, {.kernel_size = 4, .stride = 2, .padding = 1}), nn::ReLU(),
                        nn::Conv2d(o.features, wide, {.kernel_size = 4, .stride = 2, .padding = 1}), nn::ReLU(),
                        nn::Conv2d(wide, wide, {.kernel_size = 3, .padding = 1})};
  for (std::int64_t i = 0; i < kBlocks; ++i) layers.append(Residual(wide));
  layers.append(nn::ReLU());
  layers.append(nn::Conv2d(wide, o.width, {.kernel_size = 1}));
  return layers;
}

nn::Sequential VqVae::decoder(const VqVaeOptions& o) {
  const std::int64_t wide = 2 * o.features;
  nn::Sequential layers{nn::Conv2d(o.width, wide, {.kernel_size = 3, .padding = 1})};
  for (std::int64_t i = 0; i < kBlocks; ++i) layers.append(Residual(wide));
  layers.append(nn::ReLU());
  layers.append(nn::ConvTranspose2d(wide, o.features, {.kernel_size = 4, .stride = 2, .padding = 1}));
  layers.append(nn::ReLU());
  layers.append(nn::ConvTranspose2d(o.features, kPicture, {.kernel_size = 4, .stride = 2, .padding = 1}));
  return layers;
}

VqVae::VqVae(const VqVaeOptions& options) : Module("VqVae"), options_(checked(options)) {}

VqVae::Output VqVae::operator()(const Tensor& pictures) const {
  const Tensor vectors = encode(pictures);
  const Tensor codes = codebook_.nearest(vectors), rounded = vectors_of(codes);
  const Tensor through = vectors + (rounded - vectors.detach());
  return {decoder_(through).to(adjoint::kFloat32), adjoint::mse_loss(vectors, rounded),
          adjoint::cross_entropy(prior_(codes).to(adjoint::kFloat32), codes), vectors.detach(), codes};
}

nlohmann::json VqVae::options() const {
  return {{"kind", "vqvae"}, {"codes", options_.codes}, {"width", options_.width}, {"features", options_.features}};
}

Tensor VqVae::encode(const Tensor& pictures) const {
  return encoder_(examples::in_format(pictures, examples::format_of(encoder_))).to(adjoint::kFloat32);
}

Tensor VqVae::vectors_of(const Tensor& codes) const {
  return examples::in_format(codebook_.vectors(codes), examples::format_of(decoder_));
}

Tensor VqVae::sample(std::int64_t count, adjoint::Device device) const {
  return decompress(prior_.sample(count, kGrid, kGrid, device));
}

Tensor VqVae::decompress(const Tensor& kept) const { return decoder_(vectors_of(kept)).to(adjoint::kFloat32); }

std::int64_t VqVae::kept() const { return kGrid * kGrid; }

double VqVae::bits() const { return std::log2(static_cast<double>(options_.codes)); }

}  // namespace autoencoder
