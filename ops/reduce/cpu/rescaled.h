// Roots of sums of squares, and other norms, whose squares exceed the range although the roots do not: recomputed, each
// from its own elements times a power of two.
#pragma once

#include <adjoint/ops/reduce/kernels.h>

namespace adjoint::cpu {

/// Replaces results of `out` that are infinite, or so small that their squares lost digits. `in` is contiguous,
/// floating point and not empty.
void rescale_deviations(const Tensor& in, Tensor& out, const ReduceAttr& attr);
void rescale_norms(const Tensor& in, Tensor& out, const PowerAttr& attr);

}  // namespace adjoint::cpu
