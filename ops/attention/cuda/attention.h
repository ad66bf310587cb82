// Fused attention by arithmetic.
#pragma once

#include <adjoint/ops/attention/kernels.h>
#include <adjoint/ops/conv/base/arithmetic.h>

#include <span>

namespace adjoint::cuda {

/// There is one translation unit for each arithmetic: halves and TF32.
template <Arithmetic kArithmetic>
void run_attention(std::span<const Tensor> in, std::span<Tensor> out, const AttentionAttr& attr);
template <Arithmetic kArithmetic>
void run_attention_gradients(std::span<const Tensor> in, std::span<Tensor> out, const AttentionAttr& attr);

}  // namespace adjoint::cuda
