// ESPCN (Shi et al.: "Real-time single image and video super-resolution using an efficient sub-pixel convolutional
// neural network", 2016): every layer is at the low resolution, and a pixel shuffle enlarges.
#pragma once

#include <adjoint/adjoint.h>

#include <cstdint>

namespace adjoint::networks {

/// Images (N, 1, H, W) -> (N, 1, H scale, W scale).
class Espcn : public nn::Module {
 public:
  explicit Espcn(std::int64_t scale = 3, std::int64_t features = 12)
      : Module("Espcn"),
        main(register_module("main", nn::Sequential{
                                         nn::Conv2d(1, features, {.kernel_size = 5, .padding = 2}),
                                         nn::Tanh(),
                                         nn::Conv2d(features, features / 2, {.kernel_size = 3, .padding = 1}),
                                         nn::Tanh(),
                                         nn::Conv2d(features / 2, scale * scale, {.kernel_size = 3, .padding = 1}),
                                         nn::PixelShuffle(scale),
                                     })) {}
  Tensor operator()(const Tensor& low) const { return main(low); }

  Tensor loss(const Tensor& low, const Tensor& high) const { return charbonnier_loss((*this)(low), high); }

  nn::Child<nn::Sequential> main;
};

}  // namespace adjoint::networks
