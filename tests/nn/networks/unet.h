// U-Net (Ronneberger, Fischer, Brox: "U-Net: convolutional networks for biomedical image segmentation", 2015), padded
// and with BatchNorm, as is usual today, and for images of any size: output_size restores the rows and columns that
// pooling cut off.
#pragma once

#include <adjoint/adjoint.h>

#include <cstdint>

namespace adjoint::networks {

class DoubleConv : public nn::Module {
 public:
  DoubleConv(std::int64_t in_channels, std::int64_t out_channels)
      : Module("DoubleConv"),
        double_conv(
            register_module("double_conv",
                            nn::Sequential{
                                nn::Conv2d(in_channels, out_channels, {.kernel_size = 3, .padding = 1, .bias = false}),
                                nn::BatchNorm2d(out_channels),
                                nn::ReLU(),
                                nn::Conv2d(out_channels, out_channels, {.kernel_size = 3, .padding = 1, .bias = false}),
                                nn::BatchNorm2d(out_channels),
                                nn::ReLU(),
                            })) {}
  Tensor operator()(const Tensor& x) const { return double_conv(x); }

  nn::Child<nn::Sequential> double_conv;
};

class Up : public nn::Module {
 public:
  Up(std::int64_t in_channels, std::int64_t out_channels)
      : Module("Up"),
        up(register_module("up", nn::ConvTranspose2d(in_channels, out_channels, {.kernel_size = 2, .stride = 2}))),
        conv(register_module("conv", DoubleConv(out_channels * 2, out_channels))) {}
  Tensor operator()(const Tensor& x, const Tensor& skip) const {
    return conv(cat({skip, up(x, {.output_size = {skip.size(2), skip.size(3)}})}, 1));
  }

  nn::Child<nn::ConvTranspose2d> up;
  nn::Child<DoubleConv> conv;
};

/// Images (N, channels, H, W) -> scores (N, classes, H, W).
class UNet : public nn::Module {
 public:
  explicit UNet(std::int64_t channels = 1, std::int64_t classes = 3, std::int64_t features = 3)
      : Module("UNet"),
        inc(register_module("inc", DoubleConv(channels, features))),
        down1(register_module("down1", DoubleConv(features, features * 2))),
        down2(register_module("down2", DoubleConv(features * 2, features * 4))),
        up1(register_module("up1", Up(features * 4, features * 2))),
        up2(register_module("up2", Up(features * 2, features))),
        outc(register_module("outc", nn::Conv2d(features, classes, {.kernel_size = 1}))) {}
  Tensor operator()(const Tensor& image) const {
    const Tensor x1 = inc(image);
    const Tensor x2 = down1(max_pool2d(x1, 2));
    const Tensor x3 = down2(max_pool2d(x2, 2));
    return outc(up2(up1(x3, x2), x1));
  }

  /// target (N, H, W): each pixel's class.
  Tensor loss(const Tensor& image, const Tensor& target) const {
    const Tensor scores = (*this)(image);
    const Tensor classes = one_hot(target, scores.size(1)).permute({0, 3, 1, 2}).to(scores.dtype());
    return cross_entropy(scores, target) + dice_loss(softmax(scores, 1), classes);
  }

  nn::Child<DoubleConv> inc, down1, down2;
  nn::Child<Up> up1, up2;
  nn::Child<nn::Conv2d> outc;
};

}  // namespace adjoint::networks
