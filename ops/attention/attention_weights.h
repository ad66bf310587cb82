// Attention's weights, for the layers that return them. Internal to ops and nn.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/attention/attention.h>

#include <cstdint>

namespace adjoint::detail {

struct Attention {
  Tensor result;
  Tensor weights;  // (..., L, S), after dropout; float32 for 16-bit operands on a CPU
};
/// scaled_dot_product_attention, with the weights if they are requested.
ADJOINT_API Attention attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                const AttentionOptions& options, bool with_weights);
/// (queries, keys), bool: true if the key is no later than the query, which then sees it.
ADJOINT_API Tensor causal_mask(std::int64_t queries, std::int64_t keys, Device device);

}  // namespace adjoint::detail
