// softmax and its gradient by device, along the middle axis of contiguous operands that are seen as (outer, extent,
// inner).
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>
#include <span>

namespace adjoint {

struct SoftmaxAttr {
  std::int64_t outer, extent, inner;
  bool log;
};

}  // namespace adjoint

// softmax: in: x. softmax_gradient: in: the result's gradient, the result. `out` has their shape and dtype.
namespace adjoint::cpu {
void softmax(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr);
void softmax_gradient(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void softmax(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr);
void softmax_gradient(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr);
}  // namespace adjoint::cuda
