// Attention's weights, for the layers that return them. Internal to ops and nn.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/matmul/attention.h>

#include <cstdint>

namespace adjoint::detail {

struct Attention {
  Tensor result;
  Tensor weights;  // (..., L, S), behind dropout; float32 where the operands have 16 bits on a CPU
};
/// scaled_dot_product_attention, with the weights where they are asked for.
ADJOINT_API Attention attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                const AttentionOptions& options, bool with_weights);
/// (queries, keys), bool: true where a query sees a key that is no later.
ADJOINT_API Tensor causal_mask(std::int64_t queries, std::int64_t keys, Device device);

}  // namespace adjoint::detail
