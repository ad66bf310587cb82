// WGAN-GP (Gulrajani et al.: "Improved training of Wasserstein GANs", 2017): a critic without BatchNorm, whose
// gradients in its input are trained towards a norm of 1.
#pragma once

#include <adjoint/adjoint.h>

#include <cstdint>

namespace adjoint::networks {

/// Noise (N, latent) -> images (N, 1, 16, 16) in (0, 1).
class WganGenerator : public nn::Module {
 public:
  WganGenerator(std::int64_t latent, std::int64_t features)
      : Module("WganGenerator"),
        main(register_module("main",
                             nn::Sequential{
                                 nn::Linear(latent, features * 2 * 16),
                                 nn::Unflatten(1, {features * 2, 4, 4}),
                                 nn::BatchNorm2d(features * 2),
                                 nn::ReLU(),
                                 nn::ConvTranspose2d(features * 2, features,
                                                     {.kernel_size = 4, .stride = 2, .padding = 1, .bias = false}),
                                 nn::BatchNorm2d(features),
                                 nn::ReLU(),
                                 nn::ConvTranspose2d(features, 1, {.kernel_size = 4, .stride = 2, .padding = 1}),
                                 nn::Sigmoid(),
                             })) {}
  Tensor operator()(const Tensor& noise) const { return main(noise); }

  nn::Child<nn::Sequential> main;
};

/// Images (N, 1, 16, 16) -> scores (N, 1).
class WganCritic : public nn::Module {
 public:
  explicit WganCritic(std::int64_t features)
      : Module("WganCritic"),
        main(register_module("main",
                             nn::Sequential{
                                 nn::Conv2d(1, features, {.kernel_size = 4, .stride = 2, .padding = 1}),
                                 nn::LeakyReLU({.negative_slope = 0.2}),
                                 nn::Conv2d(features, features * 2, {.kernel_size = 4, .stride = 2, .padding = 1}),
                                 nn::LayerNorm({features * 2, 4, 4}),
                                 nn::LeakyReLU({.negative_slope = 0.2}),
                                 nn::Flatten(),
                                 nn::Linear(features * 2 * 16, 1),
                             })) {}
  Tensor operator()(const Tensor& image) const { return main(image); }

  nn::Child<nn::Sequential> main;
};

class WganGp : public nn::Module {
 public:
  WganGp()
      : Module("WganGp"),
        generator(register_module("generator", WganGenerator(6, 4))),
        critic(register_module("critic", WganCritic(4))) {}

  /// u (N): the penalty's points between real and fake; undefined: random points.
  Tensor critic_loss(const Tensor& real, const Tensor& noise, const Tensor& u = {}) const {
    const Tensor fake = generator(noise).detach();
    return gan_discriminator_loss(GanLoss::kWasserstein, critic(real), critic(fake)) +
           10.0 * gradient_penalty(critic, real, fake, {.u = u});
  }
  Tensor generator_loss(const Tensor& noise) const {
    return gan_generator_loss(GanLoss::kWasserstein, critic(generator(noise)));
  }

  nn::Child<WganGenerator> generator;
  nn::Child<WganCritic> critic;
};

}  // namespace adjoint::networks
