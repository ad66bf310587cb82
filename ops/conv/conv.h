// Convolution and transposed convolution, 1-D to 3-D, with PyTorch's arguments, weight layouts and results.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/activation.h>

#include <array>
#include <concepts>
#include <cstdint>

namespace adjoint {

/// A value for height and one for width: from one int for both, or {h, w}.
struct Size2 {
  std::int64_t h = 0, w = 0;
  constexpr Size2() = default;
  constexpr Size2(std::int64_t both) : h(both), w(both) {}
  constexpr Size2(std::int64_t height, std::int64_t width) : h(height), w(width) {}
  friend constexpr bool operator==(const Size2&, const Size2&) = default;
};

/// A value for depth, one for height and one for width: from one int for all three, or {d, h, w}.
struct Size3 {
  std::int64_t d = 0, h = 0, w = 0;
  constexpr Size3() = default;
  constexpr Size3(std::int64_t all) : d(all), h(all), w(all) {}
  constexpr Size3(std::int64_t depth, std::int64_t height, std::int64_t width) : d(depth), h(height), w(width) {}
  friend constexpr bool operator==(const Size3&, const Size3&) = default;
};

struct Conv1dParams {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  Activation activation = {};
};
struct Conv2dParams {
  Size2 stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
  Activation activation = {};
};
struct Conv3dParams {
  Size3 stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
  Activation activation = {};
  /// If true, the depth is time: its whole padding, 2 padding.d, is in front. No result then depends on later input if
  /// the padding is half the dilated kernel's reach. The result keeps its extents.
  bool causal = false;
};
struct ConvTranspose1dParams {
  std::int64_t stride = 1, padding = 0;
  /// Adds to one side of the result's length; below stride or below dilation.
  std::int64_t output_padding = 0;
  std::int64_t dilation = 1, groups = 1;
  /// If not 0, the result's length, in place of output_padding; any length that an output_padding could give.
  std::int64_t output_size = 0;
  Activation activation = {};
};
struct ConvTranspose2dParams {
  Size2 stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;
  /// If not 0, the result's height or width, as in ConvTranspose1dParams.
  Size2 output_size = 0;
  Activation activation = {};
};

struct ConvTranspose3dParams {
  Size3 stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;
  /// If not 0, the result's depth, height or width, as in ConvTranspose1dParams.
  Size3 output_size = 0;
  Activation activation = {};
};

// All functions: input and weight share one floating-point dtype and device; input and result may both lack the batch
// axis; the batch may be empty; an undefined bias adds nothing. Throws Error, before any work, for ranks, channels,
// groups, strides, paddings, dilations and extents that do not fit, for steps beyond 2^40, and for a result with an
// extent below 1 or whose bytes exceed 63 bits; OutOfMemoryError for a result that does not fit in memory.
//
// An activation becomes part of the operator: conv2d(x, w, b, {.activation = Activation::relu()}) is relu(conv2d(x, w,
// b)), without extra passes over memory. In float32 and float64 results and gradients have the same bits as with two
// calls. In float16 and bfloat16 the sums are activated before they are rounded: one rounding instead of two.

/// input (N, C, L), weight (O, C / groups, k), bias (O) -> (N, O, (L + 2 padding - dilation (k - 1) - 1) / stride + 1).
ADJOINT_API Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                          const Conv1dParams& params = {});
/// input (N, C, H, W), weight (O, C / groups, kh, kw), bias (O) -> (N, O, H', W'), each axis as in conv1d.
ADJOINT_API Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                          const Conv2dParams& params = {});
/// input (N, C, D, H, W), weight (O, C / groups, kd, kh, kw), bias (O) -> (N, O, D', H', W'), each axis as in conv1d.
ADJOINT_API Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                          const Conv3dParams& params = {});
/// input (N, C, L), weight (C, O / groups, k), bias (O)
/// -> (N, O, (L - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1).
ADJOINT_API Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                                    const ConvTranspose1dParams& params = {});
/// input (N, C, H, W), weight (C, O / groups, kh, kw), bias (O) -> (N, O, H', W'), each axis as in conv_transpose1d.
ADJOINT_API Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                                    const ConvTranspose2dParams& params = {});
/// input (N, C, D, H, W), weight (C, O / groups, kd, kh, kw), bias (O) -> (N, O, D', H', W'), each axis as in
/// conv_transpose1d.
ADJOINT_API Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                                    const ConvTranspose3dParams& params = {});

// Without names, in PyTorch's order: conv2d(x, w, b, 2, 1), conv_transpose2d(x, w, b, 2, 1, 1). The stride is one
// number.

template <std::integral Stride>
Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias, Stride stride, std::int64_t padding = 0,
              std::int64_t dilation = 1, std::int64_t groups = 1) {
  return conv1d(input, weight, bias, Conv1dParams{static_cast<std::int64_t>(stride), padding, dilation, groups});
}
template <std::integral Stride>
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, Stride stride, Size2 padding = 0,
              Size2 dilation = 1, std::int64_t groups = 1) {
  return conv2d(input, weight, bias, Conv2dParams{static_cast<std::int64_t>(stride), padding, dilation, groups});
}
template <std::integral Stride>
Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias, Stride stride, Size3 padding = 0,
              Size3 dilation = 1, std::int64_t groups = 1) {
  return conv3d(input, weight, bias, Conv3dParams{static_cast<std::int64_t>(stride), padding, dilation, groups});
}
template <std::integral Stride>
Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias, Stride stride,
                        std::int64_t padding = 0, std::int64_t output_padding = 0, std::int64_t groups = 1,
                        std::int64_t dilation = 1) {
  return conv_transpose1d(input, weight, bias,
                          ConvTranspose1dParams{.stride = static_cast<std::int64_t>(stride),
                                                .padding = padding,
                                                .output_padding = output_padding,
                                                .dilation = dilation,
                                                .groups = groups});
}
template <std::integral Stride>
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias, Stride stride, Size2 padding = 0,
                        Size2 output_padding = 0, std::int64_t groups = 1, Size2 dilation = 1) {
  return conv_transpose2d(input, weight, bias,
                          ConvTranspose2dParams{.stride = static_cast<std::int64_t>(stride),
                                                .padding = padding,
                                                .output_padding = output_padding,
                                                .dilation = dilation,
                                                .groups = groups});
}
template <std::integral Stride>
Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias, Stride stride, Size3 padding = 0,
                        Size3 output_padding = 0, std::int64_t groups = 1, Size3 dilation = 1) {
  return conv_transpose3d(input, weight, bias,
                          ConvTranspose3dParams{.stride = static_cast<std::int64_t>(stride),
                                                .padding = padding,
                                                .output_padding = output_padding,
                                                .dilation = dilation,
                                                .groups = groups});
}

}  // namespace adjoint
