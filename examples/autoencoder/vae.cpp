#include "vae.h"

#include "common/drawn.h"
#include "common/memory_format.h"

#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/norm.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/loss.h>

namespace autoencoder {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr std::int64_t kPicture = 3, kHalvings = 3, kLeast = examples::kPictureExtent >> kHalvings;

VaeOptions checked(const VaeOptions& o) {
  check_option("latent", o.latent, 1, 4096);
  check_option("features", o.features, 1, 1024);
  return o;
}

}  // namespace

nn::Sequential Vae::encoder(const VaeOptions& o) {
  nn::Sequential layers;
  std::int64_t in = kPicture;
  for (std::int64_t level = 0; level < kHalvings; ++level) {
    const std::int64_t out = o.features << level;
    layers.append(nn::Conv2d(in, out, {.kernel_size = 4, .stride = 2, .padding = 1, .bias = false}));
    layers.append(nn::BatchNorm2d(out));
    layers.append(nn::ReLU());
    in = out;
  }
  layers.append(nn::Flatten());
  layers.append(nn::Linear(in * kLeast * kLeast, 2 * o.latent));
  return layers;
}

nn::Sequential Vae::decoder(const VaeOptions& o) {
  nn::Sequential layers;
  std::int64_t in = o.features << (kHalvings - 1);
  layers.append(nn::Linear(o.latent, in * kLeast * kLeast));
  layers.append(nn::Unflatten(1, {in, kLeast, kLeast}));
  for (std::int64_t level = kHalvings - 1; level > 0; --level) {
    layers.append(nn::BatchNorm2d(in));
    layers.append(nn::ReLU());
    const std::int64_t out = o.features << (level - 1);
    layers.append(nn::ConvTranspose2d(in, out, {.kernel_size = 4, .stride = 2, .padding = 1, .bias = false}));
    in = out;
  }
  layers.append(nn::BatchNorm2d(in));
  layers.append(nn::ReLU());
  layers.append(nn::ConvTranspose2d(in, kPicture, {.kernel_size = 4, .stride = 2, .padding = 1}));
  return examples::in_format_after(2, layers);
}

Vae::Vae(const VaeOptions& options) : Module("Vae"), options_(checked(options)) {}

Tensor Vae::encoded(const Tensor& pictures) const {
  return encoder_(examples::in_format(pictures, examples::format_of(encoder_)));
}

Vae::Output Vae::operator()(const Tensor& pictures, const Tensor& noise) const {
  const Tensor both = encoded(pictures).to(adjoint::kFloat32);
  const Tensor mean = both.narrow(1, 0, options_.latent);
  const Tensor log_variance = both.narrow(1, options_.latent, options_.latent);
  return {decode(mean + noise * adjoint::exp(0.5 * log_variance)), mean, log_variance};
}

nlohmann::json Vae::options() const {
  return {{"kind", "vae"}, {"latent", options_.latent}, {"features", options_.features}};
}

Tensor Vae::encode(const Tensor& pictures) const {
  return encoded(pictures).narrow(1, 0, options_.latent).to(adjoint::kFloat32).contiguous();
}

Tensor Vae::decode(const Tensor& latent) const { return decoder_(latent).to(adjoint::kFloat32); }

Tensor Vae::sample(std::int64_t count, adjoint::Device device) const {
  return decode(Tensor::randn({count, options_.latent}, {.device = device}));
}

Tensor divergence(const Tensor& mean, const Tensor& log_variance) {
  return 0.5 * (adjoint::square(mean) + adjoint::exp(log_variance) - log_variance - 1.0);
}

Tensor vae_loss(const Vae::Output& output, const Tensor& pictures, double beta) {
  const double elements = static_cast<double>(pictures.numel()) / static_cast<double>(pictures.size(0));
  const Tensor error = adjoint::mse_loss(output.pictures, pictures);
  const Tensor spent = divergence(output.mean, output.log_variance).sum({1}).mean();
  return 0.5 * adjoint::log(error) + (beta / elements) * spent;
}

}  // namespace autoencoder
