// What the convolution trio takes of a GPU's memory besides operands and results.
#pragma once

#include <adjoint/core/device.h>
#include <adjoint/core/dtype.h>
#include <adjoint/core/export.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint {

/// Bytes, by operator. A transposed convolution's forward and its gradients are all three.
struct ConvWorkspace {
  std::int64_t conv = 0;
  std::int64_t conv_transpose = 0;
  std::int64_t conv_weight = 0;

  friend constexpr bool operator==(const ConvWorkspace&, const ConvWorkspace&) = default;
};

/// What one call of each takes from the device's pool while it runs, at the thread's float32 precision, for operands
/// that begin at multiples of 16 bytes; conv of half precision may take an image that does not once more. conv and
/// conv_transpose: the filter once more, padded to tiles, twice for float32 in its own precision, in conv_transpose
/// with zeros for phases of the stride that have fewer taps than others (at strides longer than the kernel most of
/// them), and with many channels and results the input once more in the same way, which is at most 2 GiB, or where the
/// result is small up to 64 times the result in float32; conv_weight: partial sums of the filter, and of half precision
/// with many channels both operands once more, at most 2 GiB each. All three, where another order of operands is
/// quicker: operands or results once more, at most 2 GiB each, besides what the kernel takes that computes them. 0 for
/// the CPU, and where a kernel takes none. Throws Error for a geometry that describes no problem, for a dtype that is
/// not floating point, and for a device that is not there.
ADJOINT_API ConvWorkspace conv_workspace(const ConvGeometry& geometry, DType dtype, Device device = kCUDA);

}  // namespace adjoint
