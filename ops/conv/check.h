// The checks that all convolution front ends share, done once, before any work: a call becomes a ConvGeometry, or an
// Error that names the broken rule, the operands' shapes and the remedy. Internal to ops/conv.
#pragma once

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/elementwise/activation.h>

#include <cstdint>

namespace adjoint {

/// A front end's arguments. Axes that it lacks have the values of a unit axis.
struct ConvCall {
  const char* op;
  int rank;  // spatial axes: 1 to 3
  bool transposed;
  const Tensor& input;
  const Tensor& weight;
  const Tensor& bias;  // undefined: no bias
  Extents stride;
  Margins padding;
  Extents dilation;
  std::int64_t groups = 1;
  Margins output_padding;  // only transposed
  Margins output_size;     // only transposed; 0: from output_padding
  Activation activation{};
  bool causal = false;  // the depth's padding is in front

  bool batched() const { return input.dim() == rank + 2; }
  /// The first of the axes (depth, height, width) that it has.
  std::size_t first_axis() const { return static_cast<std::size_t>(3 - rank); }
};

/// The upper bound of stride, padding, dilation and output_padding: small enough for kernels to round positions up to
/// whole tiles within 64 bits.
inline constexpr std::int64_t kMaxConvStep = std::int64_t{1} << 40;

/// Checks the whole call and resolves output_padding or output_size into the geometry's extents. Throws Error.
ConvGeometry resolve_geometry(const ConvCall& call);

/// Rethrows `error`, adding the call that requested the memory.
[[noreturn]] void rethrow_out_of_memory(const ConvCall& call, const OutOfMemoryError& error);

}  // namespace adjoint
