// Attention: one fused operator on GPUs of sm_90, and otherwise matrix products and a softmax.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <optional>

namespace adjoint {

/// softmax(query key^T * scale + mask) value over the keys (Vaswani et al.: "Attention is all you need", 2017). query
/// (..., L, E), key (..., S, E), value (..., S, V) -> (..., L, V); the axes in front broadcast. attn_mask broadcasts to
/// (..., L, S): a bool mask is true if a query sees a key; a mask of query's dtype is added. is_causal, without a mask:
/// query i sees keys 0 to i. scale defaults to 1 / sqrt(E). dropout_p: the probability that a weight becomes 0 while
/// the others grow by 1 / (1 - p), from the global generator. enable_gqa: several heads of queries share one of keys
/// and values (Ainslie et al.: "GQA", 2023). Query is (..., H, L, E), key (..., G, S, E) and value (..., G, S, V), and
/// query head h reads head h / (H / G), as if the heads of keys and values were repeated, without copies. A query that
/// sees no key gives 0. Scores, softmax and weights are float32 for 16-bit operands; a GPU rounds weights and scores'
/// gradients to 16 bits before it multiplies them, or to TF32 where it rounds float32. Differentiable to any order,
/// except in a bool mask. Throws Error for fewer than two axes, and for shapes, dtypes and devices that do not fit.
///
/// On sm_90, memory is linear in L and S for 16-bit operands, and for float32 under Precision::kTF32, if E and V are at
/// most 256 and fill multiples of 16 bytes, if scale is positive, and if no tape records a gradient of attn_mask. In
/// other cases, and in a sweep that is recorded, scores (..., L, S) are stored.
ADJOINT_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                const Tensor& attn_mask, double dropout_p = 0.0, bool is_causal = false,
                                                std::optional<double> scale = {}, bool enable_gqa = false);

struct AttentionOptions {
  Tensor attn_mask = {};
  double dropout_p = 0.0;
  bool is_causal = false;
  std::optional<double> scale = {};
  bool enable_gqa = false;
};
/// With named arguments: scaled_dot_product_attention(q, k, v, {.is_causal = true}).
inline Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const AttentionOptions& options = {}) {
  return scaled_dot_product_attention(query, key, value, options.attn_mask, options.dropout_p, options.is_causal,
                                      options.scale, options.enable_gqa);
}

}  // namespace adjoint
