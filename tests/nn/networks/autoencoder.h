// A denoising autoencoder (Vincent et al.: "Stacked denoising autoencoders", 2010) of convolutions, with max pooling
// (Masci et al.: "Stacked convolutional auto-encoders", 2011), GroupNorm and reflected borders.
#pragma once

#include <adjoint/adjoint.h>

#include <cstdint>

namespace adjoint::networks {

/// Images (N, 1, 4 h, 4 w) in [0, 1].
class Autoencoder : public nn::Module {
 public:
  explicit Autoencoder(std::int64_t features = 6)
      : Module("Autoencoder"),
        encoder(register_module(
            "encoder",
            nn::Sequential{
                nn::Conv2d(1, features, {.kernel_size = 3, .padding = 1, .padding_mode = PadMode::kReflect}),
                nn::GroupNorm(2, features),
                nn::SiLU(),
                nn::MaxPool2d(2),
                nn::Conv2d(features, features * 2, {.kernel_size = 3, .padding = 1, .padding_mode = PadMode::kReflect}),
                nn::GroupNorm(2, features * 2),
                nn::SiLU(),
                nn::MaxPool2d(2),
            })),
        decoder(register_module(
            "decoder", nn::Sequential{
                           nn::ConvTranspose2d(features * 2, features, {.kernel_size = 4, .stride = 2, .padding = 1}),
                           nn::GroupNorm(2, features),
                           nn::SiLU(),
                           nn::ConvTranspose2d(features, 1, {.kernel_size = 4, .stride = 2, .padding = 1}),
                           nn::Sigmoid(),
                       })) {}
  Tensor operator()(const Tensor& image) const { return decoder(encoder(image)); }

  Tensor loss(const Tensor& image, const Tensor& corrupted) const { return mse_loss((*this)(corrupted), image); }

  nn::Child<nn::Sequential> encoder, decoder;
};

}  // namespace adjoint::networks
