#include <adjoint/ops/matmul/attention.h>

#include <adjoint/core/check.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/random/random.h>
#include <adjoint/ops/softmax/softmax.h>

#include <cmath>
#include <limits>
#include <utility>

namespace adjoint {
namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

void check_operands(const Tensor& query, const Tensor& key, const Tensor& value) {
  for (const auto& [name, tensor] : {std::pair{"query", &query}, {"key", &key}, {"value", &value}}) {
    check_defined(kOp, name, *tensor);
    ADJOINT_CHECK(tensor->dim() >= 2, "{}: {} must have two axes or more; got {}", kOp, name, tensor->shape());
    ADJOINT_CHECK(is_floating_point(tensor->dtype()) && tensor->dtype() == query.dtype(),
                  "{}: query, key and value must share one floating-point dtype; got {} {}, query {}", kOp, name,
                  tensor->dtype(), query.dtype());
  }
  ADJOINT_CHECK(query.size(-1) == key.size(-1), "{}: query and key must have one last extent; got query {}, key {}",
                kOp, query.shape(), key.shape());
  ADJOINT_CHECK(key.size(-2) == value.size(-2),
                "{}: key and value must have one last extent but one; got key {}, "
                "value {}",
                kOp, key.shape(), value.shape());
}

// (L, S): true where a query sees a key that is no later.
Tensor causal_mask(std::int64_t queries, std::int64_t keys, Device device) {
  const TensorOptions options{.dtype = kInt64, .device = device};
  const Tensor query = Tensor::arange(0, static_cast<double>(queries), 1, options).unsqueeze(1);
  return query >= Tensor::arange(0, static_cast<double>(keys), 1, options);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale) {
  const OpScope scope(kOp);
  if (const detail::AutocastCall low(MixedPrecision::kLow, {query, key, value, attn_mask}); low) {
    return scaled_dot_product_attention(low[0], low[1], low[2], low[3], dropout_p, is_causal, scale);
  }
  check_operands(query, key, value);
  ADJOINT_CHECK(!(is_causal && attn_mask.defined()), "{}: is_causal stands for a mask; got one beside it", kOp);
  ADJOINT_CHECK(dropout_p >= 0.0 && dropout_p <= 1.0, "{}: dropout_p must lie in [0, 1]; got {}", kOp, dropout_p);
  ADJOINT_CHECK(!attn_mask.defined() || attn_mask.dtype() == kBool || attn_mask.dtype() == query.dtype(),
                "{}: attn_mask must be of bool or of query's dtype; got {}, query {}", kOp, attn_mask.dtype(),
                query.dtype());
  // Contiguous: the order of a product's sums may follow its operands' strides.
  const double factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
  Tensor scores = widened(matmul(query.contiguous() * factor, key.contiguous().transpose(-2, -1)));
  const Tensor seen = is_causal ? causal_mask(query.size(-2), key.size(-2), query.device()) : attn_mask;
  if (seen.defined()) {
    ADJOINT_CHECK(broadcast_shapes(kOp, seen.shape(), scores.shape()) == scores.shape(),
                  "{}: attn_mask must broadcast to the scores; got {}, scores {}", kOp, seen.shape(), scores.shape());
    scores =
        seen.dtype() == kBool ? where(seen, scores, -std::numeric_limits<double>::infinity()) : scores + widened(seen);
  }
  Tensor weights = softmax(scores, -1);
  if (dropout_p > 0.0)
    weights = where(bernoulli(weights.detach(), 1.0 - dropout_p) != 0.0, weights / (1.0 - dropout_p), 0.0);
  return matmul(weights.to(query.dtype()), value.contiguous());
}

}  // namespace adjoint
