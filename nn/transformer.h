// The transformer's layers and stacks (Vaswani et al.: "Attention is all you need", 2017), with PyTorch's parameter
// names and initial values.
//
//   const nn::TransformerEncoderLayer layer(64, 4, {.activation = "gelu", .batch_first = true});
//   nn::TransformerEncoder encoder(layer, 6);  // six clones of it
//   Tensor y = encoder(x, {.src_key_padding_mask = padding});
//
// Sequences are (L, N, d_model), with batch_first (N, L, d_model), or (L, d_model) without a batch. Masks are
// MultiheadAttention's: of bool, true if a query does not see a key, or floating point, added to the scores.
// Constructors throw Error for sizes below 1, heads that do not divide d_model, and a dropout outside [0, 1]; calls
// throw as the inner layers do, with the path to the one that throws.
#pragma once

#include <adjoint/nn/activation.h>
#include <adjoint/nn/attention.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/module_list.h>
#include <adjoint/nn/norm.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace adjoint::nn {

/// Between the two linear maps of a transformer's layer: Activation::silu(), or "relu" or "gelu".
struct FeedforwardActivation : Activation {
  constexpr FeedforwardActivation(const Activation& activation)  // NOLINT(google-explicit-constructor)
      : Activation(activation) {}
  template <std::size_t N>
  FeedforwardActivation(const char (&name)[N]) : Activation(named(name)) {}  // NOLINT(google-explicit-constructor)

  /// Throws Error for other names.
  ADJOINT_API static Activation named(std::string_view name);
};

struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;
  /// In training, the probability that an attention's weight, or an element behind a part of the layer, becomes 0.
  double dropout = 0.1;
  FeedforwardActivation activation = Activation::relu();
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  /// x + part(norm(x)) in place of norm(x + part(x)).
  bool norm_first = false;
  bool bias = true;
};
using TransformerEncoderLayerOptions = TransformerLayerOptions;
using TransformerDecoderLayerOptions = TransformerLayerOptions;

struct TransformerEncoderInput {
  Tensor src_mask = {}, src_key_padding_mask = {};
  /// Position i sees positions 0 to i.
  bool is_causal = false;
};
struct TransformerDecoderInput {
  Tensor tgt_mask = {}, memory_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool tgt_is_causal = false, memory_is_causal = false;
};

/// Self-attention and two linear maps, each with a residual sum and a LayerNorm.
class ADJOINT_API TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerEncoderLayerOptions& options = {});
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, std::int64_t dim_feedforward,
                          double dropout_p = 0.1)
      : TransformerEncoderLayer(d_model, nhead, {.dim_feedforward = dim_feedforward, .dropout = dropout_p}) {}
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, detail::NoNumber) = delete;
  Tensor operator()(const Tensor& src, const TransformerEncoderInput& given = {}) const;

  Child<MultiheadAttention> self_attn;
  Child<Linear> linear1;
  Child<Dropout> dropout;
  Child<Linear> linear2;
  Child<LayerNorm> norm1, norm2;
  Child<Dropout> dropout1, dropout2;

 private:
  TransformerLayerOptions options_;
};

/// Self-attention, attention to `memory`, which is an encoder's output, and two linear maps, each with a residual sum
/// and a LayerNorm.
class ADJOINT_API TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerDecoderLayerOptions& options = {});
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, std::int64_t dim_feedforward,
                          double dropout_p = 0.1)
      : TransformerDecoderLayer(d_model, nhead, {.dim_feedforward = dim_feedforward, .dropout = dropout_p}) {}
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, detail::NoNumber) = delete;
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const TransformerDecoderInput& given = {}) const;

  Child<MultiheadAttention> self_attn, multihead_attn;
  Child<Linear> linear1;
  Child<Dropout> dropout;
  Child<Linear> linear2;
  Child<LayerNorm> norm1, norm2, norm3;
  Child<Dropout> dropout1, dropout2, dropout3;

 private:
  TransformerLayerOptions options_;
};

/// Clones of a layer, one behind the other, and behind the last a norm if it is given.
class ADJOINT_API TransformerEncoder : public Module {
 public:
  /// Throws Error for fewer than one layer.
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers,
                     const std::optional<LayerNorm>& norm = {});
  Tensor operator()(const Tensor& src, const TransformerEncoderInput& given = {}) const;

  Child<ModuleList<TransformerEncoderLayer>> layers;
  Child<std::optional<LayerNorm>> norm;
};

/// The same, of decoder layers.
class ADJOINT_API TransformerDecoder : public Module {
 public:
  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers,
                     const std::optional<LayerNorm>& norm = {});
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const TransformerDecoderInput& given = {}) const;

  Child<ModuleList<TransformerDecoderLayer>> layers;
  Child<std::optional<LayerNorm>> norm;
};

/// (size, size): -infinity above the diagonal, else 0, to be added to scores: position i sees positions 0 to i.
ADJOINT_API Tensor generate_square_subsequent_mask(std::int64_t size, const TensorOptions& options = {});

}  // namespace adjoint::nn
