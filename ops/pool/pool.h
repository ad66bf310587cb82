// 1-D, 2-D and 3-D pooling over windows of one size or a given number of windows, with PyTorch's arguments and results.
#pragma once

#include <adjoint/core/tensor/named.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/conv.h>

#include <cstdint>
#include <utility>

namespace adjoint {

// A stride of 0 means the kernel's size. ceil_mode rounds the result's extents up, unless the last window would begin
// beyond the input and its leading padding.

struct MaxPool1dParams {
  ByName by_name = {};
  std::int64_t stride = 0, padding = 0, dilation = 1;
  bool ceil_mode = false;
};
struct MaxPool2dParams {
  ByName by_name = {};
  Size2 stride = 0, padding = 0, dilation = 1;
  bool ceil_mode = false;
};
struct MaxPool3dParams {
  ByName by_name = {};
  Size3 stride = 0, padding = 0, dilation = 1;
  bool ceil_mode = false;
};
struct AvgPool1dParams {
  ByName by_name = {};
  std::int64_t stride = 0, padding = 0;
  bool ceil_mode = false;
  /// Zeros of the padding count as elements; the overhang of ceil_mode beyond them does not.
  bool count_include_pad = true;
};
struct AvgPool2dParams {
  ByName by_name = {};
  Size2 stride = 0, padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
  /// If not 0, the divisor of sums, in place of the number of elements.
  std::int64_t divisor_override = 0;
};
struct AvgPool3dParams {
  ByName by_name = {};
  Size3 stride = 0, padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::int64_t divisor_override = 0;
};
struct MaxUnpool1dParams {
  ByName by_name = {};
  std::int64_t stride = 0, padding = 0;
  /// If not 0, the result's length, in place of (L - 1) stride - 2 padding + kernel_size; it must differ by less than a
  /// stride.
  std::int64_t output_size = 0;
};
struct MaxUnpool2dParams {
  ByName by_name = {};
  Size2 stride = 0, padding = 0, output_size = 0;
};
struct MaxUnpool3dParams {
  ByName by_name = {};
  Size3 stride = 0, padding = 0, output_size = 0;
};

// All functions: input (N, C, L) or (C, L), 2-D (N, C, H, W) or (C, H, W), 3-D (N, C, D, H, W) or (C, D, H, W),
// floating point; the batch may be empty, other extents may not, and are below 2^30. float16 and bfloat16 are summed in
// float32 and rounded once. Differentiable to any order. Gradients are sums in the order of windows. Throws Error for
// ranks, extents, kernels, strides and dilations below 1, paddings that are negative or more than half of a window's
// extent, and windows that do not fit or have 2^62 elements or more.

/// The largest element of each window, without padding; NaN wins. The gradient goes to the first of equal elements, and
/// to the last NaN. L' = (L + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1. A window without elements,
/// which dilation can make, gives -infinity.
ADJOINT_API Tensor max_pool1d(const Tensor& input, std::int64_t kernel_size, const MaxPool1dParams& params = {});
ADJOINT_API Tensor max_pool2d(const Tensor& input, Size2 kernel_size, const MaxPool2dParams& params = {});
ADJOINT_API Tensor max_pool3d(const Tensor& input, Size3 kernel_size, const MaxPool3dParams& params = {});
/// Also returns its position (int64) in the input's (L), (H, W) or (D, H, W), row by row; -1 for a window without
/// elements.
ADJOINT_API std::pair<Tensor, Tensor> max_pool1d_with_indices(const Tensor& input, std::int64_t kernel_size,
                                                              const MaxPool1dParams& params = {});
ADJOINT_API std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input, Size2 kernel_size,
                                                              const MaxPool2dParams& params = {});
ADJOINT_API std::pair<Tensor, Tensor> max_pool3d_with_indices(const Tensor& input, Size3 kernel_size,
                                                              const MaxPool3dParams& params = {});

/// The mean of each window, with L' as in max_pool1d.
ADJOINT_API Tensor avg_pool1d(const Tensor& input, std::int64_t kernel_size, const AvgPool1dParams& params = {});
ADJOINT_API Tensor avg_pool2d(const Tensor& input, Size2 kernel_size, const AvgPool2dParams& params = {});
ADJOINT_API Tensor avg_pool3d(const Tensor& input, Size3 kernel_size, const AvgPool3dParams& params = {});

// With only stride and padding: max_pool2d(x, 2, 2), max_pool2d(x, 3, 2, 1).
inline Tensor max_pool1d(const Tensor& input, std::int64_t kernel_size, std::int64_t stride, std::int64_t padding = 0) {
  return max_pool1d(input, kernel_size, MaxPool1dParams{.stride = stride, .padding = padding});
}
inline Tensor max_pool2d(const Tensor& input, Size2 kernel_size, Size2 stride, Size2 padding = 0) {
  return max_pool2d(input, kernel_size, MaxPool2dParams{.stride = stride, .padding = padding});
}
inline Tensor max_pool3d(const Tensor& input, Size3 kernel_size, Size3 stride, Size3 padding = 0) {
  return max_pool3d(input, kernel_size, MaxPool3dParams{.stride = stride, .padding = padding});
}
inline Tensor avg_pool1d(const Tensor& input, std::int64_t kernel_size, std::int64_t stride, std::int64_t padding = 0) {
  return avg_pool1d(input, kernel_size, AvgPool1dParams{.stride = stride, .padding = padding});
}
inline Tensor avg_pool2d(const Tensor& input, Size2 kernel_size, Size2 stride, Size2 padding = 0) {
  return avg_pool2d(input, kernel_size, AvgPool2dParams{.stride = stride, .padding = padding});
}
inline Tensor avg_pool3d(const Tensor& input, Size3 kernel_size, Size3 stride, Size3 padding = 0) {
  return avg_pool3d(input, kernel_size, AvgPool3dParams{.stride = stride, .padding = padding});
}

/// output_size is the number of windows; 0 leaves the axis unchanged (PyTorch's None). Window o of n holds the elements
/// from floor(o L / n) up to ceil((o + 1) L / n).
ADJOINT_API Tensor adaptive_avg_pool1d(const Tensor& input, std::int64_t output_size);
ADJOINT_API Tensor adaptive_avg_pool2d(const Tensor& input, Size2 output_size);
ADJOINT_API Tensor adaptive_avg_pool3d(const Tensor& input, Size3 output_size);
ADJOINT_API Tensor adaptive_max_pool1d(const Tensor& input, std::int64_t output_size);
ADJOINT_API Tensor adaptive_max_pool2d(const Tensor& input, Size2 output_size);
ADJOINT_API Tensor adaptive_max_pool3d(const Tensor& input, Size3 output_size);
ADJOINT_API std::pair<Tensor, Tensor> adaptive_max_pool1d_with_indices(const Tensor& input, std::int64_t output_size);
ADJOINT_API std::pair<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& input, Size2 output_size);
ADJOINT_API std::pair<Tensor, Tensor> adaptive_max_pool3d_with_indices(const Tensor& input, Size3 output_size);

/// Zeros with input's elements at `indices` (int64, of input's shape, as max_pool2d_with_indices returns them). Of
/// several elements with one index the last is used, and only it gets the gradient. An element with index -1 is
/// dropped. On the CPU throws Error for an index outside the result; on a GPU such an element is dropped.
ADJOINT_API Tensor max_unpool1d(const Tensor& input, const Tensor& indices, std::int64_t kernel_size,
                                const MaxUnpool1dParams& params = {});
ADJOINT_API Tensor max_unpool2d(const Tensor& input, const Tensor& indices, Size2 kernel_size,
                                const MaxUnpool2dParams& params = {});
ADJOINT_API Tensor max_unpool3d(const Tensor& input, const Tensor& indices, Size3 kernel_size,
                                const MaxUnpool3dParams& params = {});

}  // namespace adjoint
