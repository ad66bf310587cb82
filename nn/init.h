// Initialisers: fill a tensor in place, from the default generator where they draw. Never recorded: a leaf may be
// initialised while a tape records, as in a module that is made there. Throw Error for a tensor that such a tape has
// used already, and for bounds, means and deviations as Tensor::uniform_ and normal_ do.
//
// fan_in is size(1) times the taps, fan_out is size(0) times the taps, as PyTorch counts them: for a transposed
// convolution's weight (in, out / groups, taps) too.
#pragma once

#include <adjoint/core/tensor.h>

namespace adjoint::nn::init {

enum class FanMode { kFanIn, kFanOut };
enum class Nonlinearity { kLinear, kSigmoid, kTanh, kReLU, kLeakyReLU, kSELU };

struct KaimingOptions {
  /// Negative slope of the leaky ReLU that follows.
  double a = 0.0;
  FanMode mode = FanMode::kFanIn;
  Nonlinearity nonlinearity = Nonlinearity::kLeakyReLU;
};
struct XavierOptions {
  double gain = 1.0;
};

/// The factor by which a nonlinearity shrinks the standard deviation; `a` is kLeakyReLU's negative slope.
ADJOINT_API double calculate_gain(Nonlinearity nonlinearity, double a = 0.01);

ADJOINT_API void constant_(Tensor tensor, double value);
ADJOINT_API void zeros_(Tensor tensor);
ADJOINT_API void ones_(Tensor tensor);
ADJOINT_API void uniform_(Tensor tensor, double low = 0.0, double high = 1.0);
ADJOINT_API void normal_(Tensor tensor, double mean = 0.0, double standard_deviation = 1.0);

// The next four throw Error for fewer than two axes, which have no fan; nothing happens to a tensor without elements.

/// He, Zhang, Ren, Sun: "Delving deep into rectifiers" (2015): U(-b, b), b = gain * sqrt(3 / fan).
ADJOINT_API void kaiming_uniform_(Tensor tensor, const KaimingOptions& options = {});
/// N(0, gain^2 / fan).
ADJOINT_API void kaiming_normal_(Tensor tensor, const KaimingOptions& options = {});
/// Glorot, Bengio: "Understanding the difficulty of training deep feedforward neural networks" (2010): U(-b, b),
/// b = gain * sqrt(6 / (fan_in + fan_out)).
ADJOINT_API void xavier_uniform_(Tensor tensor, const XavierOptions& options = {});
/// N(0, gain^2 * 2 / (fan_in + fan_out)).
ADJOINT_API void xavier_normal_(Tensor tensor, const XavierOptions& options = {});

/// Makes a transposed convolution with weight (C, O / groups, taps) and stride ceil(k / 2) enlarge by linear
/// interpolation (Long, Shelhamer, Darrell: "Fully convolutional networks for semantic segmentation", 2015). Channel c
/// feeds channel c alone. Throws Error unless there are one or two spatial axes and size(1) divides size(0).
ADJOINT_API void bilinear_(Tensor tensor);

/// PyTorch's default of convolutions and linear layers: weight U(-b, b) with b = 1 / sqrt(fan_in), which is
/// kaiming_uniform_ with a = sqrt(5), and the same for `bias`, where it is defined.
ADJOINT_API void default_(Tensor weight, Tensor bias = {});

}  // namespace adjoint::nn::init
