// roll by device: in: x, contiguous, seen as (outer, extent, inner); out: of the same shape, written whole.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <span>

namespace adjoint {

struct RollAttr {
  std::int64_t extent;  // of the axis that rolls
  std::int64_t inner;   // elements of one step along it
  std::int64_t shift;   // in [0, extent)
};

}  // namespace adjoint

namespace adjoint::cpu {
void roll(std::span<const Tensor> in, Tensor& out, const RollAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void roll(std::span<const Tensor> in, Tensor& out, const RollAttr& attr);
}  // namespace adjoint::cuda
