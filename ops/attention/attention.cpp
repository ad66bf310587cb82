#include <adjoint/ops/attention/attention.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/tensor/fill.h>
#include <adjoint/core/tensor/philox.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/attention/attention_weights.h>
#include <adjoint/ops/attention/composed.h>
#include <adjoint/ops/attention/fused.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/matmul/kernels.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/random/random.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/softmax/softmax.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
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

void check_mask(const Tensor& mask, const Shape& scores) {
  ADJOINT_CHECK(broadcast_shapes(kOp, mask.shape(), scores) == scores,
                "{}: attn_mask must broadcast to the scores; got {}, scores {}", kOp, mask.shape(), scores);
}

// Returns the number of query heads that share a head of keys and values.
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

Tensor detail::grouped(const Tensor& x, std::int64_t group) {
  if (group == 1) return x;
  Shape shape = x.shape();
  const std::size_t rows = shape.size() - 2;
  shape[rows - 1] /= group;
  shape[rows] *= group;
  return x.reshape(shape);
}
Tensor detail::ungrouped(const Tensor& x, std::int64_t group) {
  if (group == 1) return x;
  Shape shape = x.shape();
  const std::size_t rows = shape.size() - 2;
  shape[rows - 1] *= group;
  shape[rows] /= group;
  return x.reshape(shape);
}

detail::SoftmaxedScores detail::softmaxed_scores(const Tensor& query, const Tensor& key, const Tensor& mask,
                                                 bool is_causal, double factor, double dropout_p, std::int64_t group) {
  const bool narrow = element_size(query.dtype()) == 2;
  const Tensor queries = grouped(query, group), keys = key.transpose(-2, -1);
  Tensor scores = ungrouped(narrow ? widened_matmul(queries, keys) * factor : matmul(queries * factor, keys), group);
  SoftmaxedScores result;
  Tensor seen = is_causal ? causal_mask(query.size(-2), key.size(-2), query.device()) : mask;
  if (seen.defined()) {
    check_mask(seen, scores.shape());
    if (!is_causal) {
      std::tie(seen, result.blind) = without_blind_rows(seen.dim() == 0 ? seen.unsqueeze(0) : seen);
    }
    scores =
        seen.dtype() == kBool ? where(seen, scores, -std::numeric_limits<double>::infinity()) : scores + widened(seen);
  }
  result.weights = softmax(scores, -1);
  if (dropout_p > 0.0) result.stays = bernoulli(result.weights.detach(), 1.0 - dropout_p) != 0.0;
  return result;
}

namespace {

#if defined(ADJOINT_WITH_CUDA)
Shape joined(const Shape& front, const Shape& back, std::size_t axes) {
  Shape shape = front;
  for (auto extent = back.end() - static_cast<std::ptrdiff_t>(axes); extent != back.end(); ++extent) {
    shape.push_back(*extent);
  }
  return shape;
}

// (..., H, L, E) as (N, H, L, E).
Tensor in_four_axes(const Tensor& x) {
  const Shape& shape = x.shape();
  return shape.size() == 4 ? x : x.reshape({-1, shape.size() > 2 ? x.size(-3) : 1, x.size(-2), x.size(-1)});
}

// The fused operator's result; empty if the operator does not support the operands.
std::optional<Tensor> fused(const Tensor& query, const Tensor& key, const Tensor& value,
                            const AttentionOptions& options, double factor) {
  const Tensor& mask = options.attn_mask;
  const Device device = query.device();
  const auto takes = [&](const Tensor& x) { return x.device() == device && x.numel() > 0; };
  if (!device.is_cuda() || !takes(query) || !takes(key) || !takes(value)) return {};
  if (mask.defined() && (!takes(mask) || (mask.requires_grad() && Tape::current() != nullptr))) return {};
  if (detail::CallTrace::of_functions() != nullptr) return {};  // ONNX knows the composed form
  constexpr std::int64_t kMostRows = std::int64_t{1} << 30;
  const std::int64_t longest = std::max(query.size(-2), key.size(-2));
  if (longest > kMostRows || !(factor > 0.0 && std::isfinite(factor))) return {};
  if (!cuda::takes_attention(query.dtype(), query.size(-1), value.size(-1), device.index)) return {};
  // Heads that share others do not broadcast.
  const std::size_t own = options.enable_gqa ? 3 : 2;
  const auto batch_of = [&](const Tensor& x) {
    return Shape(x.shape().begin(), x.shape().end() - static_cast<std::ptrdiff_t>(own));
  };
  const Shape scored = broadcast_shapes(kOp, batch_of(query), batch_of(key));
  const Shape batch = broadcast_shapes(kOp, scored, batch_of(value));
  // Masks and dropout have the scores' shape. The kernels compute the scores again for each value of a larger batch.
  if (batch != scored && (mask.defined() || options.dropout_p > 0.0)) return {};
  const auto whole = [&](const Tensor& x) { return x.expand(joined(batch, x.shape(), own)); };
  const Tensor queries = whole(query);
  // The kernels count blocks of at least 64 rows of all heads in 32 bits.
  const std::int64_t heads = queries.numel() / (queries.size(-2) * queries.size(-1));
  if (heads > kMostRows / (longest / 64 + 1)) return {};
  const auto with_columns = [&](std::int64_t columns) {
    Shape shape = queries.shape();
    shape[shape.size() - 1] = columns;
    return shape;
  };
  const Shape scores = with_columns(key.size(-2));
  if (mask.defined()) check_mask(mask, scores);
  AttentionAttr attr{.scale = factor, .dropout_p = options.dropout_p, .is_causal = options.is_causal};
  if (attr.dropout_p > 0.0) attr.at = reserve_numbers(scores, device, default_generator());
  const Tensor result =
      detail::fused_attention(in_four_axes(queries), in_four_axes(whole(key)), in_four_axes(whole(value)),
                              mask.defined() ? in_four_axes(mask.expand(scores)) : mask, attr);
  return result.reshape(with_columns(value.size(-1)));
}
#endif

}  // namespace

detail::Attention detail::attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options, bool with_weights) {
  const OpScope scope(kOp);
  const auto& [attn_mask, dropout_p, is_causal, scale, enable_gqa] = options;
  if (const AutocastCall low(MixedPrecision::kLow, {query, key, value, attn_mask}); low) {
    return attention(low[0], low[1], low[2], {low[3], dropout_p, is_causal, scale, enable_gqa}, with_weights);
  }
  check_attention(query, key, value);
  ADJOINT_CHECK(!(is_causal && attn_mask.defined()), "{}: is_causal replaces attn_mask; got both", kOp);
  ADJOINT_CHECK(dropout_p >= 0.0 && dropout_p <= 1.0, "{}: dropout_p must lie in [0, 1]; got {}", kOp, dropout_p);
  ADJOINT_CHECK(!attn_mask.defined() || attn_mask.dtype() == kBool || attn_mask.dtype() == query.dtype(),
                "{}: attn_mask must be of bool or of query's dtype; got {}, query {}", kOp, attn_mask.dtype(),
                query.dtype());
  const std::int64_t group = enable_gqa ? queries_a_head(query, key, value) : 1;
  const double factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
#if defined(ADJOINT_WITH_CUDA)
  if (!with_weights) {
    if (const std::optional<Tensor> result = fused(query, key, value, options, factor)) return {*result, {}};
  }
#endif
  // Scores and weights are float32 or wider. A GPU's tensor cores multiply 16-bit operands, so there the weights are
  // rounded to 16 bits; a CPU widens operands anyway.
  const bool narrow = element_size(query.dtype()) == 2 && query.device().is_cuda();
  // Contiguous, because the order of a product's sums may follow its operands' strides.
  const auto operand = [&](const Tensor& x) { return narrow ? x.contiguous() : widened(x.contiguous()); };
  const SoftmaxedScores scores =
      softmaxed_scores(operand(query), operand(key), attn_mask, is_causal, factor, dropout_p, group);
  const Tensor values = operand(value), &blind = scores.blind;
  Tensor weights = scores.weights;
  if (scores.stays.defined()) {
    const double kept = dropout_p < 1.0 ? 1.0 - dropout_p : 1.0;
    weights = where(scores.stays, weights / kept, 0.0);
  }
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
