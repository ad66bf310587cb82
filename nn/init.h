// Initialisers fill a tensor in place and draw from the default generator. They are never recorded: a leaf may be
// initialised while a tape records, as in a module's constructor. They throw Error for a tensor that such a tape has
// already used, and for bounds, means and deviations as Tensor::uniform_ and normal_ do.
//
// fan_in is size(1) times the taps, and fan_out is size(0) times the taps, as in PyTorch, also for a transposed
// convolution's weight (in, out / groups, taps).
#pragma once

#include <adjoint/core/tensor/named.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/number.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace adjoint::nn::init {

enum class FanMode { kFanIn, kFanOut };
enum class Nonlinearity { kLinear, kSigmoid, kTanh, kReLU, kLeakyReLU, kSELU };

/// "fan_in", "fan_out"; "linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu".
ADJOINT_API FanMode enumerator(std::string_view name, FanMode);
ADJOINT_API Nonlinearity enumerator(std::string_view name, Nonlinearity);

struct KaimingOptions {
  /// Negative slope of the leaky ReLU that follows.
  double a = 0.0;
  Named<FanMode> mode = FanMode::kFanIn;
  Named<Nonlinearity> nonlinearity = Nonlinearity::kLeakyReLU;
};
struct XavierOptions {
  double gain = 1.0;
};

/// The factor by which a nonlinearity shrinks the standard deviation; `a` is kLeakyReLU's negative slope.
ADJOINT_API double calculate_gain(Named<Nonlinearity> nonlinearity, double a = 0.01);

ADJOINT_API void constant_(Tensor tensor, double value);
ADJOINT_API void zeros_(Tensor tensor);
ADJOINT_API void ones_(Tensor tensor);
ADJOINT_API void uniform_(Tensor tensor, double low = 0.0, double high = 1.0);
ADJOINT_API void normal_(Tensor tensor, double mean = 0.0, double standard_deviation = 1.0);

// The next four throw Error for fewer than two axes, which have no fan; they leave a tensor without elements alone.

/// He, Zhang, Ren, Sun: "Delving deep into rectifiers" (2015): U(-b, b), b = gain * sqrt(3 / fan).
ADJOINT_API void kaiming_uniform_(Tensor tensor, const KaimingOptions& options = {});
inline void kaiming_uniform_(Tensor tensor, double a) { kaiming_uniform_(std::move(tensor), KaimingOptions{a}); }
void kaiming_uniform_(Tensor tensor, detail::NoNumber) = delete;
/// N(0, gain^2 / fan).
ADJOINT_API void kaiming_normal_(Tensor tensor, const KaimingOptions& options = {});
inline void kaiming_normal_(Tensor tensor, double a) { kaiming_normal_(std::move(tensor), KaimingOptions{a}); }
void kaiming_normal_(Tensor tensor, detail::NoNumber) = delete;
/// Glorot, Bengio: "Understanding the difficulty of training deep feedforward neural networks" (2010): U(-b, b),
/// b = gain * sqrt(6 / (fan_in + fan_out)).
ADJOINT_API void xavier_uniform_(Tensor tensor, const XavierOptions& options = {});
inline void xavier_uniform_(Tensor tensor, double gain) { xavier_uniform_(std::move(tensor), XavierOptions{gain}); }
void xavier_uniform_(Tensor tensor, detail::NoNumber) = delete;
/// N(0, gain^2 * 2 / (fan_in + fan_out)).
ADJOINT_API void xavier_normal_(Tensor tensor, const XavierOptions& options = {});
inline void xavier_normal_(Tensor tensor, double gain) { xavier_normal_(std::move(tensor), XavierOptions{gain}); }
void xavier_normal_(Tensor tensor, detail::NoNumber) = delete;

/// Makes a transposed convolution with weight (C, O / groups, taps) and stride ceil(k / 2) enlarge by linear
/// interpolation (Long, Shelhamer, Darrell: "Fully convolutional networks for semantic segmentation", 2015). Channel c
/// feeds only channel c. Throws Error unless there are one or two spatial axes and size(1) divides size(0).
ADJOINT_API void bilinear_(Tensor tensor);

/// Ones on the diagonal, zeros elsewhere. Throws Error unless there are two axes.
ADJOINT_API void eye_(Tensor tensor);
/// Makes a convolution with weight (O, C / groups, taps) the identity, channel by channel, for as many channels as each
/// group has. Throws Error unless there are three to five axes and groups divides size(0).
ADJOINT_API void dirac_(Tensor tensor, std::int64_t groups = 1);
/// N(mean, standard_deviation^2) truncated to [a, b]. Throws Error unless the deviation is positive and [a, b] holds
/// some of the distribution.
ADJOINT_API void trunc_normal_(Tensor tensor, double mean = 0.0, double standard_deviation = 1.0, double a = -2.0,
                               double b = 2.0);
/// gain times a matrix (size(0), everything else) whose rows, or columns if those are fewer, are orthonormal, uniformly
/// distributed (Saxe, McClelland, Ganguli: "Exact solutions to the nonlinear dynamics of learning in deep linear neural
/// networks", 2013). Throws Error for fewer than two axes.
ADJOINT_API void orthogonal_(Tensor tensor, double gain = 1.0);
/// N(0, standard_deviation^2) with ceil(sparsity size(0)) random elements of each column set to 0. Throws Error unless
/// there are two axes and sparsity is in [0, 1].
ADJOINT_API void sparse_(Tensor tensor, double sparsity, double standard_deviation = 0.01);

using Initialiser = std::function<void(Tensor)>;

/// Initialises an upsampling layer without checkerboards: it initially repeats the pixels of its smaller result
/// (Aitken, Ledig, Theis, Caballero, Wang, Shi: "Checkerboard artifact free sub-pixel convolution", 2017). `init` (by
/// default kaiming_normal_) draws the repeated values. icnr_ is for a convolution before pixel_shuffle, with weight (O
/// factor^2, C, h, w), icnr_transposed_ for a transposed convolution with weight (C, O / groups, taps), whose kernel is
/// a multiple of its stride. Both throw Error for other weights.
ADJOINT_API void icnr_(Tensor tensor, std::int64_t upscale_factor, const Initialiser& init = {});
ADJOINT_API void icnr_transposed_(Tensor tensor, std::int64_t stride, const Initialiser& init = {});

/// PyTorch's default for convolutions and linear layers: weight U(-b, b) with b = 1 / sqrt(fan_in), which is
/// kaiming_uniform_ with a = sqrt(5), and the same for `bias`, if it is defined.
ADJOINT_API void default_(Tensor weight, Tensor bias = {});

}  // namespace adjoint::nn::init
