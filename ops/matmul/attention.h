// Attention, composed of matrix products and a softmax: correct rather than fast.
#pragma once

#include <adjoint/core/tensor.h>

#include <optional>

namespace adjoint {

/// softmax(query key^T * scale + mask) value over the keys (Vaswani et al.: "Attention is all you need", 2017). query
/// (..., L, E), key (..., S, E), value (..., S, V) -> (..., L, V); the axes in front broadcast. attn_mask broadcasts to
/// (..., L, S): of bool, true where a query sees a key, or of query's dtype, added. is_causal, without a mask: query i
/// sees keys 0 to i. scale: 1 / sqrt(E) where it is left out. dropout_p: the probability that a weight becomes 0 and
/// others grow by 1 / (1 - p), from the global generator. A query that sees no key gives NaN. float16 and bfloat16 are
/// computed in float32 from the scores to the weights. Differentiable to any order, but in a bool mask. Throws Error
/// for fewer than two axes, and for shapes, dtypes and devices that do not fit.
ADJOINT_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                const Tensor& attn_mask = {}, double dropout_p = 0.0,
                                                bool is_causal = false, std::optional<double> scale = {});

}  // namespace adjoint
