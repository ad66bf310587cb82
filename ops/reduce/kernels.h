// The reductions' kernels by device. Operands are contiguous; `out` is written whole.
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
}  // namespace adjoint

namespace adjoint::cpu {
void reduce_sum(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void reduce_max(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void argmax(std::span<const Tensor> in, Tensor& out, const ArgmaxAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void reduce_sum(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void reduce_max(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void argmax(std::span<const Tensor> in, Tensor& out, const ArgmaxAttr& attr);
}  // namespace adjoint::cuda
