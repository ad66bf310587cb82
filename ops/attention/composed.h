// Attention's weights by operators, for the composed form and for the fused operator's recorded gradient. Internal.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace adjoint::detail {

struct SoftmaxedScores {
  Tensor weights;  // (..., H, L, S), before dropout; rows that see no key are finite
  Tensor stays;    // bool: weights that dropout leaves; undefined without dropout
  Tensor blind;    // bool, (..., L, 1): rows that see no key; undefined without a mask
};
/// softmax(query key^T * factor + mask), with a mask, or causal, or neither. Draws from the default generator if
/// dropout_p is not 0. Operands are contiguous; 16-bit operands are multiplied without conversion. Recorded.
SoftmaxedScores softmaxed_scores(const Tensor& query, const Tensor& key, const Tensor& mask, bool is_causal,
                                 double factor, double dropout_p, std::int64_t group);
/// The factor of weights that stay.
inline double dropout_factor(double dropout_p) { return dropout_p < 1.0 ? 1.0 / (1.0 - dropout_p) : 1.0; }

/// The rows of heads that read one head of keys, one after the other: (..., H, L, E) -> (..., H / group, group L, E).
Tensor grouped(const Tensor& x, std::int64_t group);
Tensor ungrouped(const Tensor& x, std::int64_t group);

}  // namespace adjoint::detail
