// Attention as one operator, whose memory is linear in the sequence. Internal.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/attention/kernels.h>

namespace adjoint::detail {

/// Operands as in kernels.h, checked. A mask gets no gradient. CPU tensors are computed by the composed form, for tests
/// of the operator.
ADJOINT_API Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                   const AttentionAttr& attr);

}  // namespace adjoint::detail
