// fold by device: in: columns (N, C, kernel, out); out: images (N, C, size), written whole.
#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <span>

namespace adjoint {

struct FoldAxis {
  std::int64_t size, out;  // of the image, of the blocks
  std::int64_t kernel, dilation, padding, stride;

  /// The block whose element k is over pixel x, or -1.
  ADJOINT_HD std::int64_t block_over(std::int64_t x, std::int64_t k) const {
    const std::int64_t start = x + padding - k * dilation;
    if (start < 0 || start % stride != 0) return -1;
    return start / stride < out ? start / stride : -1;
  }
};

struct FoldAttr {
  std::int64_t batch, channels;
  FoldAxis h, w;
};

}  // namespace adjoint

namespace adjoint::cpu {
void fold(std::span<const Tensor> in, Tensor& out, const FoldAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void fold(std::span<const Tensor> in, Tensor& out, const FoldAttr& attr);
}  // namespace adjoint::cuda
