// Attention with several heads as a module, with PyTorch's parameter names and initial values.
//
//   nn::MultiheadAttention attention(64, 4, {.batch_first = true});
//   const auto [output, weights] = attention(x, x, x, {.is_causal = true});
#pragma once

#include <adjoint/nn/linear.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/number.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace adjoint::nn {

struct MultiheadAttentionOptions {
  /// In training, the probability that a weight becomes 0.
  double dropout = 0.0;
  bool bias = true;
  /// Adds a learned key and value behind the others.
  bool add_bias_kv = false;
  /// Adds a key and a value of zeros behind the others.
  bool add_zero_attn = false;
  /// Features of keys and values; by default embed_dim.
  std::optional<std::int64_t> kdim = {}, vdim = {};
  bool batch_first = false;
};

/// A call's arguments besides query, key and value. A mask is of bool, true if a query does not see a key, or floating
/// point, added to the scores. As in PyTorch, a bool mask is the opposite of scaled_dot_product_attention's.
struct MultiheadAttentionInput {
  /// (N, S); (S) without a batch.
  Tensor key_padding_mask = {};
  bool need_weights = true;
  /// (L, S), or (N num_heads, L, S); (num_heads, L, S) without a batch.
  Tensor attn_mask = {};
  /// Weights are the mean over the heads.
  bool average_attn_weights = true;
  /// If true, query i sees only keys 0 to i that the masks allow.
  bool is_causal = false;
};

struct MultiheadAttentionResult {
  Tensor output;
  /// (N, L, S), or (N, num_heads, L, S) if they are not averaged, after dropout; without axis N if there is no batch.
  /// Undefined unless need_weights.
  Tensor weights;
};

/// softmax(q k^T / sqrt(head size)) v for each of num_heads slices of q, k and v, which are linear maps of query, key
/// and value; a last linear map mixes all slices' results (Vaswani et al.: "Attention is all you need", 2017). query
/// (L, N, embed_dim), key (S, N, kdim) and value (S, N, vdim), with batch_first (N, L, ...), or without a batch (L,
/// ...); the output is like query. L is the number of queries, S of keys. A query that sees no key gets weights of 0,
/// where PyTorch's are NaN. scaled_dot_product_attention has the arithmetic. If query, key and value are one tensor,
/// one matrix product computes all three projections.
class ADJOINT_API MultiheadAttention : public Module {
 public:
  /// nn::MultiheadAttention(64, 4, {.dropout = 0.1}), or nn::MultiheadAttention(64, 4, 0.1). Throws Error for sizes
  /// below 1, a num_heads that does not divide embed_dim, and a dropout outside [0, 1].
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, const MultiheadAttentionOptions& options = {});
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, double dropout)
      : MultiheadAttention(embed_dim, num_heads, MultiheadAttentionOptions{.dropout = dropout}) {}
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, detail::NoNumber) = delete;
  /// Throws Error, naming the layer, for shapes that do not fit.
  MultiheadAttentionResult operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const MultiheadAttentionInput& given = {}) const;

  std::int64_t embed_dim() const { return embed_dim_; }
  std::int64_t num_heads() const { return num_heads_; }
  const MultiheadAttentionOptions& options() const { return options_; }

  Parameter in_proj_weight;  // (3 embed_dim, embed_dim): of query, key and value; undefined if kdim or vdim differ
  Parameter q_proj_weight, k_proj_weight, v_proj_weight;  // (embed_dim, features) each; undefined if neither differs
  Parameter in_proj_bias;                                 // (3 embed_dim); undefined without .bias
  Parameter bias_k, bias_v;                               // (1, 1, embed_dim); undefined unless add_bias_kv
  Child<Linear> out_proj;

 private:
  MultiheadAttentionResult forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const MultiheadAttentionInput& given) const;
  void check(const Tensor& query, const Tensor& key, const Tensor& value) const;
  std::vector<Tensor> projected(const Tensor& query, const Tensor& key, const Tensor& value) const;

  std::int64_t embed_dim_, num_heads_;
  MultiheadAttentionOptions options_;
};

}  // namespace adjoint::nn
