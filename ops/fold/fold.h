// Cuts images into blocks, and adds blocks up to images: im2col and col2im.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/conv.h>

namespace adjoint {

struct UnfoldParams {
  Size2 kernel_size, dilation = 1, padding = 0, stride = 1;
};

/// input (N, C, H, W) or (C, H, W) -> (N, C kh kw, L) or (C kh kw, L): column l holds the block that a convolution of
/// this geometry reads for its output pixel l, in row-major order, with zeros for padding. L is L_h L_w, L_d = (size_d
/// + 2 padding_d - dilation_d (kernel_d - 1) - 1) / stride_d + 1. Any dtype. Differentiable: the adjoint is fold.
/// Throws Error for kernel_size, dilation or stride below 1, negative padding, any of them of 2^31 or more, and an
/// image smaller than a block.
ADJOINT_API Tensor unfold(const Tensor& input, const UnfoldParams& params);

/// The adjoint of unfold: input (N, C kh kw, L) or (C kh kw, L) -> (N, C, H, W) or (C, H, W), where H and W are
/// output_size. Each pixel is the sum of the block elements over it, in the order of the kernel's elements; float16 and
/// bfloat16 are summed in float32. Floating point. Differentiable. Throws Error as unfold does, if kh kw does not
/// divide the rows, or if L does not match output_size.
ADJOINT_API Tensor fold(const Tensor& input, const Size2& output_size, const UnfoldParams& params);

}  // namespace adjoint
