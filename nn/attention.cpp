#include <adjoint/nn/attention.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/init.h>
#include <adjoint/ops/attention/attention_weights.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/matmul/linear.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

constexpr const char* kAttention = "MultiheadAttention";

bool same_tensor(const Tensor& a, const Tensor& b) { return a.impl() == b.impl(); }

// The shape that a call's masks must fit.
struct ScoresShape {
  std::int64_t batch, heads, queries, keys;
  bool batched;
};

void check_mask(const char* name, const Tensor& mask, std::initializer_list<Shape> fitting, const ScoresShape& scores) {
  ADJOINT_CHECK(mask.dtype() == kBool || is_floating_point(mask.dtype()),
                "{}: {} must be of bool or floating point; got {}", kAttention, name, mask.dtype());
  ADJOINT_CHECK(std::find(fitting.begin(), fitting.end(), mask.shape()) != fitting.end(),
                "{}: {} must be {}, for {} queries, {} keys, {} heads and a batch of {}; got {}", kAttention, name,
                fitting.size() == 1 ? to_string(*fitting.begin())
                                    : fmt::format("{} or {}", *fitting.begin(), *(fitting.end() - 1)),
                scores.queries, scores.keys, scores.heads, scores.batch, mask.shape());
}

// All masks as one that broadcasts to (N, heads, L, S): of bool, true if a query does not see a key, or of `dtype`,
// added to the scores; undefined without masks.
Tensor combined_mask(const MultiheadAttentionInput& given, const ScoresShape& scores, DType dtype, Device device) {
  const auto& [batch, heads, queries, keys, batched] = scores;
  std::vector<Tensor> masks;
  if (given.attn_mask.defined()) {
    check_mask("attn_mask", given.attn_mask, {{queries, keys}, {batch * heads, queries, keys}}, scores);
    const bool each_head = given.attn_mask.dim() == 3;
    masks.push_back(each_head ? given.attn_mask.reshape({batch, heads, queries, keys}) : given.attn_mask);
  }
  if (given.key_padding_mask.defined()) {
    check_mask("key_padding_mask", given.key_padding_mask, {batched ? Shape{batch, keys} : Shape{keys}}, scores);
    masks.push_back(given.key_padding_mask.reshape({batch, 1, 1, keys}));
  }
  if (given.is_causal) masks.push_back(logical_not(adjoint::detail::causal_mask(queries, keys, device)));
  if (masks.empty()) return {};
  const auto is_bool = [](const Tensor& mask) { return mask.dtype() == kBool; };
  const bool all_bool = std::all_of(masks.begin(), masks.end(), is_bool);
  const auto added = [&](const Tensor& mask) {
    return is_bool(mask) ? where(mask, -std::numeric_limits<double>::infinity(), 0.0).to(dtype) : mask.to(dtype);
  };
  Tensor all = all_bool ? masks[0] : added(masks[0]);
  for (std::size_t i = 1; i < masks.size(); ++i) {
    all = all_bool ? logical_or(all, masks[i]) : all + added(masks[i]);
  }
  return all;
}

// Checks the constructor's numbers first.
Linear output_map(std::int64_t embed_dim, std::int64_t num_heads, const MultiheadAttentionOptions& options) {
  const std::int64_t kdim = options.kdim.value_or(embed_dim), vdim = options.vdim.value_or(embed_dim);
  ADJOINT_CHECK(embed_dim >= 1 && num_heads >= 1 && kdim >= 1 && vdim >= 1,
                "{}: embed_dim, num_heads, kdim and vdim must be at least 1; got {}, {}, {}, {}", kAttention, embed_dim,
                num_heads, kdim, vdim);
  ADJOINT_CHECK(embed_dim % num_heads == 0, "{}: num_heads must divide embed_dim; got {} heads for {} features",
                kAttention, num_heads, embed_dim);
  ADJOINT_CHECK(options.dropout >= 0.0 && options.dropout <= 1.0, "{}: dropout must be between 0 and 1; got {}",
                kAttention, options.dropout);
  const OpScope scope(kAttention);
  Linear map(embed_dim, embed_dim, LinearOptions{.bias = options.bias});
  if (options.bias) init::zeros_(map.bias);
  return map;
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       const MultiheadAttentionOptions& options)
    : Module(kAttention),
      out_proj(register_module("out_proj", output_map(embed_dim, num_heads, options))),
      embed_dim_(embed_dim),
      num_heads_(num_heads),
      options_(options) {
  const OpScope scope(kAttention);
  const std::int64_t kdim = options.kdim.value_or(embed_dim), vdim = options.vdim.value_or(embed_dim);
  options_.kdim = kdim;
  options_.vdim = vdim;
  const auto make = [&](const char* name, const Shape& shape, const auto& fill) {
    const Tensor parameter = Tensor::empty(shape);
    fill(parameter);
    return register_parameter(name, parameter);
  };
  const auto xavier_uniform = [](const Tensor& x) { init::xavier_uniform_(x); };
  const auto xavier_normal = [](const Tensor& x) { init::xavier_normal_(x); };
  if (kdim == embed_dim && vdim == embed_dim) {
    in_proj_weight = make("in_proj_weight", {3 * embed_dim, embed_dim}, xavier_uniform);
  } else {
    q_proj_weight = make("q_proj_weight", {embed_dim, embed_dim}, xavier_uniform);
    k_proj_weight = make("k_proj_weight", {embed_dim, kdim}, xavier_uniform);
    v_proj_weight = make("v_proj_weight", {embed_dim, vdim}, xavier_uniform);
  }
  if (options.bias) in_proj_bias = make("in_proj_bias", {3 * embed_dim}, init::zeros_);
  if (options.add_bias_kv) {
    bias_k = make("bias_k", {1, 1, embed_dim}, xavier_normal);
    bias_v = make("bias_v", {1, 1, embed_dim}, xavier_normal);
  }
}

MultiheadAttentionResult MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                                        const MultiheadAttentionInput& given) const {
  MultiheadAttentionResult result;
  result.output = hooked(query, [&](const Tensor& x) {
    // A hook's replacement of the query also replaces key and value if they were the same tensor.
    const auto replaced = [&](const Tensor& other) { return same_tensor(other, query) ? x : other; };
    result = forward(x, replaced(key), replaced(value), given);
    return result.output;
  });
  return result;
}

void MultiheadAttention::check(const Tensor& query, const Tensor& key, const Tensor& value) const {
  check_defined(kAttention, "query", query);
  check_defined(kAttention, "key", key);
  check_defined(kAttention, "value", value);
  const char* const axes = options_.batch_first ? "N, L" : "L, N";
  ADJOINT_CHECK((query.dim() == 2 || query.dim() == 3) && query.size(-1) == embed_dim_,
                "{}: query must be ({}, {}), or (L, {}) without a batch; got {}", kAttention, axes, embed_dim_,
                embed_dim_, query.shape());
  const auto fits = [&](const Tensor& x, std::int64_t features) {
    const bool batched = query.dim() == 3;
    const std::int64_t batch_axis = options_.batch_first ? 0 : 1;
    return x.dim() == query.dim() && x.size(-1) == features &&
           (!batched || x.size(batch_axis) == query.size(batch_axis));
  };
  ADJOINT_CHECK(fits(key, *options_.kdim) && fits(value, *options_.vdim),
                "{}: key and value must have query's axes and batch, and {} and {} features; got query {}, key {}, "
                "value {}",
                kAttention, *options_.kdim, *options_.vdim, query.shape(), key.shape(), value.shape());
  const std::int64_t rows = query.dim() == 3 && options_.batch_first ? 1 : 0;
  ADJOINT_CHECK(key.size(rows) == value.size(rows), "{}: there must be a value for each key; got key {}, value {}",
                kAttention, key.shape(), value.shape());
}

// Query, key and value behind their linear maps, in their own layouts.
std::vector<Tensor> MultiheadAttention::projected(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const Tensor bias = in_proj_bias, weight = in_proj_weight;
  const bool one_source = same_tensor(key, value);
  if (weight.defined() && one_source && same_tensor(query, key)) return chunk(linear(query, weight, bias), 3, -1);
  if (weight.defined() && one_source) {
    const std::vector<std::int64_t> rows{embed_dim_, 2 * embed_dim_};
    const std::vector<Tensor> weights = split(weight, rows);
    const std::vector<Tensor> biases = bias.defined() ? split(bias, rows) : std::vector<Tensor>(2);
    const std::vector<Tensor> pair = chunk(linear(key, weights[1], biases[1]), 2, -1);
    return {linear(query, weights[0], biases[0]), pair[0], pair[1]};
  }
  const std::vector<Tensor> weights =
      weight.defined() ? chunk(weight, 3) : std::vector<Tensor>{q_proj_weight, k_proj_weight, v_proj_weight};
  const std::vector<Tensor> biases = bias.defined() ? chunk(bias, 3) : std::vector<Tensor>(3);
  return {linear(query, weights[0], biases[0]), linear(key, weights[1], biases[1]),
          linear(value, weights[2], biases[2])};
}

MultiheadAttentionResult MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                     const MultiheadAttentionInput& given) const {
  std::vector<Tensor> maps;
  Tensor joined;
  MultiheadAttentionResult result;
  const bool batched = query.defined() && query.dim() == 3, batch_first = batched && options_.batch_first;
  {
    const OpScope scope(kAttention);
    check_not_moved_from(kAttention);
    check(query, key, value);
    maps = projected(query, key, value);
    if (!batched) {
      for (Tensor& x : maps) x = x.unsqueeze(1);
    }
    const std::int64_t batch_axis = batch_first ? 0 : 1, row_axis = 1 - batch_axis;
    const ScoresShape scores{maps[0].size(batch_axis), num_heads_, maps[0].size(row_axis), maps[1].size(row_axis),
                             batched};
    Tensor mask = combined_mask(given, scores, maps[0].dtype(), maps[0].device());

    // Keys and values behind the others, which every query sees.
    std::int64_t more = 0;
    const auto append = [&](const Tensor& key_row, const Tensor& value_row) {
      for (std::size_t i = 1; i < 3; ++i) {
        Shape shape = maps[i].shape();
        shape[static_cast<std::size_t>(row_axis)] = 1;
        const Tensor row = (i == 1 ? key_row : value_row).to(maps[i].dtype()).expand(shape);
        maps[i] = cat({maps[i], row}, row_axis);
      }
      ++more;
    };
    if (options_.add_bias_kv) append(bias_k, bias_v);
    if (options_.add_zero_attn) {
      const Tensor zeros = Tensor::zeros({1, 1, embed_dim_}, maps[1].options());
      append(zeros, zeros);
    }
    if (more > 0 && mask.defined()) mask = pad(mask, {0, more});

    // (L, N, embed_dim) -> (N, heads, L, head size), and back
    const Dims to_heads = batch_first ? Dims{0, 2, 1, 3} : Dims{1, 2, 0, 3};
    const Dims to_rows = batch_first ? Dims{0, 2, 1, 3} : Dims{2, 0, 1, 3};
    const auto heads = [&](const Tensor& x) {
      return unflatten(x, -1, {num_heads_, embed_dim_ / num_heads_}).permute(to_heads);
    };
    const bool causal_alone =
        given.is_causal && more == 0 && !given.attn_mask.defined() && !given.key_padding_mask.defined();
    AttentionOptions options{.dropout_p = training() ? options_.dropout : 0.0, .is_causal = causal_alone};
    if (mask.defined() && !causal_alone) options.attn_mask = mask.dtype() == kBool ? logical_not(mask) : mask;
    const auto [found, weights] =
        adjoint::detail::attention(heads(maps[0]), heads(maps[1]), heads(maps[2]), options, given.need_weights);
    joined = found.permute(to_rows).reshape(maps[0].shape());
    if (!batched) joined = joined.squeeze(1);
    if (given.need_weights) {
      result.weights = (given.average_attn_weights ? weights.mean({1}) : weights).to(found.dtype());
      if (!batched) result.weights = result.weights.squeeze(0);
    }
  }
  result.output = out_proj(joined);
  return result;
}

}  // namespace adjoint::nn
