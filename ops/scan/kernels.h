// cumsum by device: in: x, contiguous, seen as (outer, extent, inner); out: of the same shape, int64 if x is an integer
// or bool.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <span>

namespace adjoint {

struct CumsumAttr {
  std::int64_t outer, extent, inner;
  bool reversed;  // from the end
};

}  // namespace adjoint

namespace adjoint::cpu {
void cumsum(std::span<const Tensor> in, Tensor& out, const CumsumAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void cumsum(std::span<const Tensor> in, Tensor& out, const CumsumAttr& attr);
}  // namespace adjoint::cuda
