// DCGAN (Radford, Metz, Chintala: "Unsupervised representation learning with deep convolutional generative adversarial
// networks", 2016): strided and transposed convolutions with BatchNorm, except in the outer layers.
#pragma once

#include <adjoint/adjoint.h>

#include <cstdint>

namespace adjoint::networks {

/// Noise (N, latent, 1, 1) -> images (N, 1, 16, 16) in (-1, 1).
class DcganGenerator : public nn::Module {
 public:
  DcganGenerator(std::int64_t latent, std::int64_t features)
      : Module("DcganGenerator"),
        main(register_module("main",
                             nn::Sequential{
                                 nn::ConvTranspose2d(latent, features * 4, {.kernel_size = 4, .bias = false}),
                                 nn::BatchNorm2d(features * 4),
                                 nn::ReLU(),
                                 nn::ConvTranspose2d(features * 4, features * 2,
                                                     {.kernel_size = 4, .stride = 2, .padding = 1, .bias = false}),
                                 nn::BatchNorm2d(features * 2),
                                 nn::ReLU(),
                                 nn::ConvTranspose2d(features * 2, 1,
                                                     {.kernel_size = 4, .stride = 2, .padding = 1, .bias = false}),
                                 nn::Tanh(),
                             })) {}
  Tensor operator()(const Tensor& noise) const { return main(noise); }

  nn::Child<nn::Sequential> main;
};

/// Images (N, 1, 16, 16) -> logits (N) of being real.
class DcganDiscriminator : public nn::Module {
 public:
  explicit DcganDiscriminator(std::int64_t features)
      : Module("DcganDiscriminator"),
        main(register_module("main",
                             nn::Sequential{
                                 nn::Conv2d(1, features, {.kernel_size = 4, .stride = 2, .padding = 1, .bias = false}),
                                 nn::LeakyReLU({.negative_slope = 0.2}),
                                 nn::Conv2d(features, features * 2,
                                            {.kernel_size = 4, .stride = 2, .padding = 1, .bias = false}),
                                 nn::BatchNorm2d(features * 2),
                                 nn::LeakyReLU({.negative_slope = 0.2}),
                                 nn::Conv2d(features * 2, 1, {.kernel_size = 4, .bias = false}),
                                 nn::Flatten({.start_dim = 0}),
                             })) {}
  Tensor operator()(const Tensor& image) const { return main(image); }

  nn::Child<nn::Sequential> main;
};

class Dcgan : public nn::Module {
 public:
  Dcgan()
      : Module("Dcgan"),
        generator(register_module("generator", DcganGenerator(6, 3))),
        discriminator(register_module("discriminator", DcganDiscriminator(4))) {}

  Tensor discriminator_loss(const Tensor& real, const Tensor& noise) const {
    const Tensor of_real = discriminator(real);  // first: C++ leaves the order within an expression open
    const Tensor of_fake = discriminator(generator(noise).detach());
    return binary_cross_entropy_with_logits(of_real, ones_like(of_real)) +
           binary_cross_entropy_with_logits(of_fake, zeros_like(of_fake));
  }
  Tensor generator_loss(const Tensor& noise) const {
    const Tensor of_fake = discriminator(generator(noise));
    return binary_cross_entropy_with_logits(of_fake, ones_like(of_fake));
  }

  nn::Child<DcganGenerator> generator;
  nn::Child<DcganDiscriminator> discriminator;
};

}  // namespace adjoint::networks
