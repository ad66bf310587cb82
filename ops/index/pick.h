// The operators behind every function that picks by index. Internal to ops.
#pragma once

#include <adjoint/core/autograd/op.h>
#include <adjoint/ops/index/kernels.h>

namespace adjoint {

/// The elements of x that `index` (int64, in range or kNowhere) names. Differentiable in x.
Tensor take(const Tensor& x, const Tensor& index, const IndexAttr& attr);
/// The adjoint of take, added to `base` if that is defined. Differentiable in `picked` and `base`.
Tensor accumulate(const Tensor& picked, const Tensor& index, const Tensor& base, const IndexAttr& attr);
/// x with `picked` in place of the elements that `index` names; of equal indices the last along `count` counts.
/// Differentiable in x and `picked`.
Tensor put(const Tensor& x, const Tensor& picked, const Tensor& index, const IndexAttr& attr);
/// The same, written over x and not recorded.
void put_into(Tensor& x, const Tensor& picked, const Tensor& index, const IndexAttr& attr);
/// take in ONNX.
OnnxValue take_onnx(OnnxCall& call, const IndexAttr& attr);
/// As int64. Throws Error, naming `op`, for another dtype and, on the CPU, for an index outside [low, high).
Tensor checked_index(const char* op, const Tensor& index, std::int64_t low, std::int64_t high);
/// Picks along one axis by an index of one row: (outer, count, inner).
IndexAttr row_attr(const Shape& whole, std::size_t first, std::size_t last, const Shape& rows);

}  // namespace adjoint
