// The reductions' kernels by device. Operands are contiguous; `out` is written whole.
//
// var's attr.divisor is its own: the number of elements less the correction, or 0. `moments` gives what a mean and a
// variance are made of (combine.h's Moments), both of them from one pass over memory.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/reduce/stages.h>

#include <cstdint>
#include <span>

namespace adjoint {
/// Along the middle axis of (outer, extent, inner).
struct ArgmaxAttr {
  std::int64_t outer;
  std::int64_t extent;
  std::int64_t inner;
  Shape result;
};

/// Elements of the result.
std::int64_t result_numel(const ReduceAttr& attr);
/// `tensor`, which has the shape that `attr` gives with `fields` numbers for each result, seen in the operand's shape:
/// a field of each result stands at a reduced axis for its whole length.
Tensor spread_field(const Tensor& tensor, const ReduceAttr& attr, std::int64_t fields, std::int64_t field);
}  // namespace adjoint

namespace adjoint::cpu {
void reduce_sum(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void reduce_max(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void argmax(std::span<const Tensor> in, Tensor& out, const ArgmaxAttr& attr);
void var(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
/// in: x, g of the reduced shape; out: 2 / attr.divisor * g * (x - x's mean), in x's shape.
void centre(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
/// (results, kMomentsFields) in the dtype that `in` is computed in. `in` is floating point, contiguous and not empty.
Tensor moments(const Tensor& in, const ReduceAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void reduce_sum(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void reduce_max(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void argmax(std::span<const Tensor> in, Tensor& out, const ArgmaxAttr& attr);
void var(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
/// in: x, g of the reduced shape; out: 2 / attr.divisor * g * (x - x's mean), in x's shape.
void centre(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
/// (results, kMomentsFields) in the dtype that `in` is computed in. `in` is floating point, contiguous and not empty.
Tensor moments(const Tensor& in, const ReduceAttr& attr);
}  // namespace adjoint::cuda
