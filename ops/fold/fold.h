// Cutting images into blocks, and adding blocks up to images: im2col and col2im.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/conv/conv.h>

namespace adjoint {

struct UnfoldParams {
  Size2 kernel_size, dilation = 1, padding = 0, stride = 1;
};

/// input (N, C, H, W) or (C, H, W) -> (N, C kh kw, L) or (C kh kw, L): column l holds the block that a convolution of
/// this geometry reads for its output pixel l, in row-major order, zeros where it lies in the padding; L is
/// L_h L_w, L_d = (size_d + 2 padding_d - dilation_d (kernel_d - 1) - 1) / stride_d + 1. Any dtype. Differentiable: the
/// adjoint is fold. Throws Error for kernel_size, dilation or stride below 1, negative padding, any of them of 2^31 or
/// more, and an image smaller than a block.
ADJOINT_API Tensor unfold(const Tensor& input, const UnfoldParams& params);

/// The adjoint: input (N, C kh kw, L) or (C kh kw, L) -> (N, C, H, W) or (C, H, W), H and W being output_size: each
/// pixel is the sum of what lies over it, in the order of the kernel's elements; float16 and bfloat16 are summed in
/// float32. Floating point. Differentiable. Throws Error as unfold does, and where rows are no multiple of kh kw or L
/// is not what output_size gives.
ADJOINT_API Tensor fold(const Tensor& input, const Size2& output_size, const UnfoldParams& params);

}  // namespace adjoint
