// The variational autoencoder (Kingma, Welling: "Auto-encoding variational Bayes", 2014), with convolutions.
#pragma once

#include <adjoint/adjoint.h>

#include <cstdint>

namespace adjoint::networks {

/// Images (N, 1, 8, 8) in [0, 1].
class Vae : public nn::Module {
 public:
  explicit Vae(std::int64_t latent = 4, std::int64_t features = 6)
      : Module("Vae"),
        encoder(register_module("encoder",
                                nn::Sequential{
                                    nn::Conv2d(1, features, {.kernel_size = 4, .stride = 2, .padding = 1}),
                                    nn::ReLU(),
                                    nn::Conv2d(features, features * 2, {.kernel_size = 4, .stride = 2, .padding = 1}),
                                    nn::ReLU(),
                                    nn::Flatten(),
                                })),
        mu(register_module("mu", nn::Linear(features * 8, latent))),
        logvar(register_module("logvar", nn::Linear(features * 8, latent))),
        decoder(register_module(
            "decoder", nn::Sequential{
                           nn::Linear(latent, features * 8),
                           nn::ReLU(),
                           nn::Unflatten(1, {features * 2, 2, 2}),
                           nn::ConvTranspose2d(features * 2, features, {.kernel_size = 4, .stride = 2, .padding = 1}),
                           nn::ReLU(),
                           nn::ConvTranspose2d(features, 1, {.kernel_size = 4, .stride = 2, .padding = 1}),
                           nn::Sigmoid(),
                       })) {}

  /// The negative evidence lower bound. noise (N, latent) is the standard normal one of the reparametrisation.
  Tensor loss(const Tensor& image, const Tensor& noise) const {
    const Tensor hidden = encoder(image);
    const Tensor mean = mu(hidden), log_variance = logvar(hidden);
    const Tensor reconstruction = decoder(mean + noise * exp(0.5 * log_variance));
    const Tensor divergence = -0.5 * (1.0 + log_variance - square(mean) - exp(log_variance)).sum();
    return binary_cross_entropy(reconstruction, image, {.reduction = Reduction::kSum}) + divergence;
  }

  nn::Child<nn::Sequential> encoder;
  nn::Child<nn::Linear> mu, logvar;
  nn::Child<nn::Sequential> decoder;
};

}  // namespace adjoint::networks
