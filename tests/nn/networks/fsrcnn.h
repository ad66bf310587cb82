// FSRCNN (Dong, Loy, Tang: "Accelerating the super-resolution convolutional neural network", 2016): features shrink,
// are mapped at the low resolution, expand, and a transposed convolution enlarges.
#pragma once

#include <adjoint/adjoint.h>

#include <cstdint>

namespace adjoint::networks {

/// Images (N, 1, H, W) -> (N, 1, H scale, W scale). d, s and m are the paper's: channels, those between, and layers.
class Fsrcnn : public nn::Module {
 public:
  explicit Fsrcnn(std::int64_t scale = 3, std::int64_t d = 12, std::int64_t s = 5, std::int64_t m = 4)
      : Module("Fsrcnn"),
        first_part(register_module("first_part",
                                   nn::Sequential{
                                       nn::Conv2d(1, d, {.kernel_size = 5, .padding = 2}),
                                       nn::PReLU({.num_parameters = d}),
                                   })),
        mid_part(register_module("mid_part", nn::Sequential())),
        last_part(register_module(
            "last_part",
            nn::ConvTranspose2d(d, 1,
                                {.kernel_size = 9, .stride = scale, .padding = 4, .output_padding = scale - 1}))) {
    mid_part.append(nn::Conv2d(d, s, {.kernel_size = 1}));
    mid_part.append(nn::PReLU({.num_parameters = s}));
    for (std::int64_t i = 0; i < m; ++i) {
      mid_part.append(nn::Conv2d(s, s, {.kernel_size = 3, .padding = 1}));
      mid_part.append(nn::PReLU({.num_parameters = s}));
    }
    mid_part.append(nn::Conv2d(s, d, {.kernel_size = 1}));
    mid_part.append(nn::PReLU({.num_parameters = d}));
  }
  Tensor operator()(const Tensor& low) const { return last_part(mid_part(first_part(low))); }

  Tensor loss(const Tensor& low, const Tensor& high) const { return mse_loss((*this)(low), high); }

  nn::Child<nn::Sequential> first_part, mid_part;
  nn::Child<nn::ConvTranspose2d> last_part;
};

}  // namespace adjoint::networks
