// The windows of ONNX's convolutions and pooling. Internal to this folder.
#pragma once

#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/conv/conv.h>

namespace adjoint::nn::detail {

/// A node's input and windows. A signal (N, C, L) is an image (N, C, 1, L).
struct OnnxWindow {
  Tensor input;
  bool is_signal;
  Size2 kernel, stride, dilation;
  Size2 before, after;  // pads

  /// The extent of a window with its gaps.
  Size2 extent() const { return {dilation.h * (kernel.h - 1) + 1, dilation.w * (kernel.w - 1) + 1}; }
  bool is_symmetric() const { return before == after; }
  /// The image `y` as a signal if the input was a signal.
  Tensor restored(const Tensor& y) const { return is_signal ? y.squeeze(2) : y; }
};

/// Operand 0 and the attributes strides, dilations, pads and, for windows that tile the input, auto_pad. `kernel` has
/// the windows' extents, one for each axis. Throws Error for other inputs than signals and images, and for values that
/// do not fit.
OnnxWindow onnx_window(const OnnxArgs& x, const std::vector<std::int64_t>& kernel);

/// An attribute of one value for each of the window's axes.
Size2 onnx_pair(const OnnxArgs& x, const char* name, bool is_signal, std::int64_t otherwise, std::int64_t least);

}  // namespace adjoint::nn::detail
