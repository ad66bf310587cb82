// The device memory of the convolution trio besides operands and results.
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint {

/// Bytes, by operator. A transposed convolution's forward and gradients use all three.
struct ConvWorkspace {
  std::int64_t conv = 0;
  std::int64_t conv_transpose = 0;
  std::int64_t conv_weight = 0;

  friend constexpr bool operator==(const ConvWorkspace&, const ConvWorkspace&) = default;
};

/// The bytes that one call of each operator allocates from the device's pool while it runs, at the thread's float32
/// precision, for operands that begin at multiples of 16 bytes. In half precision, conv may need a copy of an image
/// that does not begin at one.
///
/// conv and conv_transpose: a copy of the filter, padded to tiles, twice for float32 in its own precision; in
/// conv_transpose it has zeros for phases of the stride with fewer taps than others (most of them, at strides longer
/// than the kernel). With many channels and results, also a copy of the input made in the same way, at most 2 GiB; or,
/// if the result is small, up to 64 times the result in float32.
///
/// conv_weight: partial sums of the filter, and in half precision with many channels copies of both operands, at most 2
/// GiB each.
///
/// All three, if another order of operands is faster: copies of operands or results, at most 2 GiB each, besides the
/// workspace of the kernel that computes them. 0 for the CPU, and if a kernel needs none. Throws Error for a geometry
/// that describes no problem, for a dtype that is not floating point, and for a device that does not exist.
ADJOINT_API ConvWorkspace conv_workspace(const ConvGeometry& geometry, DType dtype, Device device = kCUDA);

}  // namespace adjoint
