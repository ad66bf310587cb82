// The windows of ONNX's convolutions and pooling. Internal to this folder.
#pragma once

#include <adjoint/nn/onnx/load/operators.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::nn::detail {

/// The windows of signals, images and volumes: a value for each axis.
struct OnnxAxes {
  std::vector<std::int64_t> kernel, stride, dilation;
  std::vector<std::int64_t> before, after;  // pads

  std::size_t count() const { return kernel.size(); }
  /// The extent of a window with its gaps.
  std::int64_t extent(std::size_t axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
};

/// The attributes strides, dilations, pads and, for windows that tile operand 0, auto_pad. `kernel` has the windows'
/// extents, one for each axis. Throws Error if operand 0 is not a signal, an image or a volume, and for values that do
/// not fit.
OnnxAxes onnx_axes(const OnnxArgs& x, const std::vector<std::int64_t>& kernel);

/// An attribute of one value for each of `axes` axes.
std::vector<std::int64_t> onnx_values(const OnnxArgs& x, const char* name, std::size_t axes, std::int64_t otherwise,
                                      std::int64_t least);

}  // namespace adjoint::nn::detail
