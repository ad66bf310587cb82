#include <adjoint/ops/matmul/attention.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/matmul/attention_weights.h>
#include <adjoint/ops/matmul/kernels.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/random/random.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/softmax/softmax.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace adjoint {
namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

void check_attention(const Tensor& query, const Tensor& key, const Tensor& value) {
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

// How many heads of queries share one of keys and values.
std::int64_t queries_a_head(const Tensor& query, const Tensor& key, const Tensor& value) {
  const bool has_heads = query.dim() >= 3 && key.dim() >= 3 && value.dim() >= 3;
  ADJOINT_CHECK(has_heads,
                "{}: with enable_gqa, query, key and value must have an axis of heads, the last but two; got query {}, "
                "key {}, value {}",
                kOp, query.shape(), key.shape(), value.shape());
  const std::int64_t heads = query.size(-3), shared = key.size(-3);
  ADJOINT_CHECK(shared == value.size(-3) && (shared > 0 ? heads % shared == 0 : heads == 0),
                "{}: with enable_gqa, key and value must have one number of heads, which divides the query's; got "
                "query {}, key {}, value {}",
                kOp, query.shape(), key.shape(), value.shape());
  return shared > 0 ? heads / shared : 1;
}

// The rows of heads that read one head of keys, one after the other: (..., H, L, E) -> (..., H / group, group L, E).
Tensor grouped(const Tensor& x, std::int64_t group) {
  if (group == 1) return x;
  Shape shape = x.shape();
  const std::size_t rows = shape.size() - 2;
  shape[rows - 1] /= group;
  shape[rows] *= group;
  return x.reshape(shape);
}
Tensor ungrouped(const Tensor& x, std::int64_t group) {
  if (group == 1) return x;
  Shape shape = x.shape();
  const std::size_t rows = shape.size() - 2;
  shape[rows - 1] *= group;
  shape[rows] /= group;
  return x.reshape(shape);
}

// For a mask of at least one axis: the rows that see no key (..., 1), and the mask in which those rows see every key.
// The results of those rows are finite, and so are their gradients; they are then replaced by 0.
std::pair<Tensor, Tensor> without_blind_rows(const Tensor& seen) {
  if (seen.dtype() == kBool) {
    const Tensor blind = logical_not(any(seen, {-1}, true));
    return {logical_or(seen, blind), blind};
  }
  const Tensor blind = all(seen == -std::numeric_limits<double>::infinity(), {-1}, true);
  return {masked_fill(seen, blind, 0.0), blind};
}

}  // namespace

Tensor detail::causal_mask(std::int64_t queries, std::int64_t keys, Device device) {
  const TensorOptions options{.dtype = kInt64, .device = device};
  const Tensor query = Tensor::arange(0, static_cast<double>(queries), 1, options).unsqueeze(1);
  return query >= Tensor::arange(0, static_cast<double>(keys), 1, options);
}

detail::Attention detail::attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options, bool with_weights) {
  const OpScope scope(kOp);
  const auto& [attn_mask, dropout_p, is_causal, scale, enable_gqa] = options;
  if (const AutocastCall low(MixedPrecision::kLow, {query, key, value, attn_mask}); low) {
    return attention(low[0], low[1], low[2], {low[3], dropout_p, is_causal, scale, enable_gqa}, with_weights);
  }
  check_attention(query, key, value);
  ADJOINT_CHECK(!(is_causal && attn_mask.defined()), "{}: is_causal takes the place of attn_mask; got both", kOp);
  ADJOINT_CHECK(dropout_p >= 0.0 && dropout_p <= 1.0, "{}: dropout_p must lie in [0, 1]; got {}", kOp, dropout_p);
  ADJOINT_CHECK(!attn_mask.defined() || attn_mask.dtype() == kBool || attn_mask.dtype() == query.dtype(),
                "{}: attn_mask must be of bool or of query's dtype; got {}, query {}", kOp, attn_mask.dtype(),
                query.dtype());
  const std::int64_t group = enable_gqa ? queries_a_head(query, key, value) : 1;
  // Scores and weights are float32 or wider. A GPU's tensor cores multiply 16-bit operands, so there the weights are
  // rounded to 16 bits; a CPU widens operands anyway.
  const bool narrow = element_size(query.dtype()) == 2 && query.device().is_cuda();
  // Contiguous, because the order of a product's sums may follow its operands' strides.
  const auto operand = [&](const Tensor& x) { return narrow ? x.contiguous() : widened(x.contiguous()); };
  const double factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
  const Tensor queries = grouped(operand(query), group), keys = operand(key).transpose(-2, -1);
  Tensor scores = ungrouped(narrow ? widened_matmul(queries, keys) * factor : matmul(queries * factor, keys), group);
  Tensor seen = is_causal ? causal_mask(query.size(-2), key.size(-2), query.device()) : attn_mask, blind;
  if (seen.defined()) {
    ADJOINT_CHECK(broadcast_shapes(kOp, seen.shape(), scores.shape()) == scores.shape(),
                  "{}: attn_mask must broadcast to the scores; got {}, scores {}", kOp, seen.shape(), scores.shape());
    if (!is_causal) std::tie(seen, blind) = without_blind_rows(seen.dim() == 0 ? seen.unsqueeze(0) : seen);
    scores =
        seen.dtype() == kBool ? where(seen, scores, -std::numeric_limits<double>::infinity()) : scores + widened(seen);
  }
  Tensor weights = softmax(scores, -1);
  if (dropout_p > 0.0) {
    const double kept = dropout_p < 1.0 ? 1.0 - dropout_p : 1.0;
    weights = where(bernoulli(weights.detach(), 1.0 - dropout_p) != 0.0, weights / kept, 0.0);
  }
  const Tensor values = operand(value);
  const Tensor result = ungrouped(matmul(grouped(weights.to(values.dtype()), group), values), group).to(query.dtype());
  if (!blind.defined()) return {result, weights};
  return {masked_fill(result, blind, 0.0), with_weights ? masked_fill(weights, blind, 0.0) : Tensor()};
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, bool enable_gqa) {
  return detail::attention(query, key, value, {attn_mask, dropout_p, is_causal, scale, enable_gqa}, false).result;
}

}  // namespace adjoint
