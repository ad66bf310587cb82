// grid_sample by device. Operands are contiguous.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/grid/taps.h>

#include <span>

namespace adjoint::cpu {
/// in: image, grid; out: (N, C, H', W'), or (N, C, D', H', W').
void grid_sample(std::span<const Tensor> in, Tensor& out, const GridAttr& attr);
/// in: grid, float32 or float64; out: fractions and slopes (N, axes, points), and indices (N, taps^axes, points) of
/// pixels.
void grid_taps(std::span<const Tensor> in, std::span<Tensor> out, const GridAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void grid_sample(std::span<const Tensor> in, Tensor& out, const GridAttr& attr);
void grid_taps(std::span<const Tensor> in, std::span<Tensor> out, const GridAttr& attr);
}  // namespace adjoint::cuda
