// The variational autoencoder (Kingma, Welling: "Auto-encoding variational Bayes", 2014), with convolutions down to
// 4 x 4 pixels and transposed convolutions back.
#pragma once

#include "model.h"

#include <adjoint/nn/linear.h>
#include <adjoint/nn/sequential.h>

#include <cstdint>

namespace autoencoder {

struct VaeOptions {
  /// Numbers that a picture becomes.
  std::int64_t latent = 32;
  /// Channels at 16 x 16 pixels; each halving of the resolution doubles them.
  std::int64_t features = 32;
};

class Vae final : public adjoint::nn::Module, public Model {
 public:
  /// Throws Error for options out of range.
  explicit Vae(const VaeOptions& options);

  struct Output {
    adjoint::Tensor pictures, mean, log_variance;  // the latter (N, latent), float32
  };
  /// Reconstructs pictures from mean + noise * deviation; noise (N, latent), standard normal.
  Output operator()(const adjoint::Tensor& pictures, const adjoint::Tensor& noise) const;

  nlohmann::json options() const override;
  adjoint::nn::Module& module() override { return *this; }
  adjoint::Tensor encode(const adjoint::Tensor& pictures) const override;
  adjoint::Tensor decode(const adjoint::Tensor& latent) const override;
  adjoint::Tensor sample(std::int64_t count, adjoint::Device device) const override;
  adjoint::Tensor compress(const adjoint::Tensor& pictures) const override { return encode(pictures); }
  adjoint::Tensor decompress(const adjoint::Tensor& kept) const override { return decode(kept); }
  std::int64_t kept() const override { return options_.latent; }
  double bits() const override { return 32.0; }

 private:
  static adjoint::nn::Sequential encoder(const VaeOptions& options);
  static adjoint::nn::Sequential decoder(const VaeOptions& options);
  adjoint::Tensor encoded(const adjoint::Tensor& pictures) const;  // mean and log variance, (N, 2 latent)

  VaeOptions options_;
  adjoint::nn::Child<adjoint::nn::Sequential> encoder_ = register_module("encoder", encoder(options_));
  adjoint::nn::Child<adjoint::nn::Sequential> decoder_ = register_module("decoder", decoder(options_));
};

/// KL(N(mean, variance) || N(0, 1)) of each picture and number, (N, latent), in nats.
adjoint::Tensor divergence(const adjoint::Tensor& mean, const adjoint::Tensor& log_variance);

/// The negative evidence lower bound, in nats an element and up to a constant, with the decoder variance that is best
/// for the batch (Rybkin, Daniilidis, Levine: "Simple and effective VAE training with calibrated decoders", 2021):
/// log(mean squared error) / 2 + beta * divergence of a picture / elements of a picture. A beta other than 1: Higgins
/// et al.: "beta-VAE", 2017.
adjoint::Tensor vae_loss(const Vae::Output& output, const adjoint::Tensor& pictures, double beta);

}  // namespace autoencoder
