#include <adjoint/nn/transformer.h>

#include <adjoint/core/base/check.h>
#include <adjoint/nn/clone.h>
#include <adjoint/ops/attention/attention_weights.h>
#include <adjoint/ops/elementwise/elementwise.h>

#include <limits>

namespace adjoint::nn {
namespace {

MultiheadAttention attention_of(const char* type, std::int64_t d_model, std::int64_t nhead,
                                const TransformerLayerOptions& options) {
  ADJOINT_CHECK(d_model >= 1 && nhead >= 1 && options.dim_feedforward >= 1,
                "{}: d_model, nhead and dim_feedforward must be at least 1; got {}, {}, {}", type, d_model, nhead,
                options.dim_feedforward);
  ADJOINT_CHECK(d_model % nhead == 0, "{}: nhead must divide d_model; got {} heads for {} features", type, nhead,
                d_model);
  ADJOINT_CHECK(options.dropout >= 0.0 && options.dropout <= 1.0, "{}: dropout must be between 0 and 1; got {}", type,
                options.dropout);
  return {d_model, nhead,
          MultiheadAttentionOptions{.dropout = options.dropout,
                                    .bias = options.bias,
                                    .batch_first = options.batch_first}};
}

LayerNorm norm_of(std::int64_t d_model, const TransformerLayerOptions& options) {
  return LayerNorm(Shape{d_model}, LayerNormOptions{.eps = options.layer_norm_eps, .bias = options.bias});
}

Linear linear_of(std::int64_t from, std::int64_t to, const TransformerLayerOptions& options) {
  return {from, to, LinearOptions{.bias = options.bias}};
}

// A part of a layer with its norm and residual sum.
template <class Part>
Tensor with_residual(const Tensor& x, const LayerNorm& norm, bool norm_first, const Part& part) {
  return norm_first ? x + part(norm(x)) : norm(x + part(x));
}

Tensor attended(const MultiheadAttention& attention, const Tensor& query, const Tensor& memory, const Tensor& padding,
                const Tensor& mask, bool is_causal) {
  return attention(query, memory, memory,
                   {.key_padding_mask = padding, .need_weights = false, .attn_mask = mask, .is_causal = is_causal})
      .output;
}

// Of either kind of layer.
template <class L>
Tensor feedforward(const L& layer, const Tensor& x, const Activation& activation) {
  return layer.linear2(layer.dropout(activate(layer.linear1(x), activation)));
}

template <class Stack, class L>
void append_clones(const char* type, Stack& layers, const L& layer, std::int64_t num_layers) {
  ADJOINT_CHECK(num_layers >= 1, "{}: num_layers must be at least 1; got {}", type, num_layers);
  for (std::int64_t i = 0; i < num_layers; ++i) layers.append(clone(layer));
}

}  // namespace

Activation FeedforwardActivation::named(std::string_view name) {
  ADJOINT_CHECK(name == "relu" || name == "gelu",
                "transformer: activation must be \"relu\", \"gelu\" or an Activation; got \"{}\"", name);
  return name == "relu" ? Activation::relu() : Activation::gelu();
}

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerEncoderLayerOptions& options)
    : Module("TransformerEncoderLayer"),
      self_attn(register_module("self_attn", attention_of("TransformerEncoderLayer", d_model, nhead, options))),
      linear1(register_module("linear1", linear_of(d_model, options.dim_feedforward, options))),
      dropout(register_module("dropout", Dropout(options.dropout))),
      linear2(register_module("linear2", linear_of(options.dim_feedforward, d_model, options))),
      norm1(register_module("norm1", norm_of(d_model, options))),
      norm2(register_module("norm2", norm_of(d_model, options))),
      dropout1(register_module("dropout1", Dropout(options.dropout))),
      dropout2(register_module("dropout2", Dropout(options.dropout))),
      options_(options) {}

Tensor TransformerEncoderLayer::operator()(const Tensor& src, const TransformerEncoderInput& given) const {
  check_not_moved_from("TransformerEncoderLayer");
  return hooked(src, [&](const Tensor& input) {
    const Tensor x = with_residual(input, norm1, options_.norm_first, [&](const Tensor& y) {
      return dropout1(attended(self_attn, y, y, given.src_key_padding_mask, given.src_mask, given.is_causal));
    });
    return with_residual(x, norm2, options_.norm_first,
                         [&](const Tensor& y) { return dropout2(feedforward(*this, y, options_.activation)); });
  });
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerDecoderLayerOptions& options)
    : Module("TransformerDecoderLayer"),
      self_attn(register_module("self_attn", attention_of("TransformerDecoderLayer", d_model, nhead, options))),
      multihead_attn(
          register_module("multihead_attn", attention_of("TransformerDecoderLayer", d_model, nhead, options))),
      linear1(register_module("linear1", linear_of(d_model, options.dim_feedforward, options))),
      dropout(register_module("dropout", Dropout(options.dropout))),
      linear2(register_module("linear2", linear_of(options.dim_feedforward, d_model, options))),
      norm1(register_module("norm1", norm_of(d_model, options))),
      norm2(register_module("norm2", norm_of(d_model, options))),
      norm3(register_module("norm3", norm_of(d_model, options))),
      dropout1(register_module("dropout1", Dropout(options.dropout))),
      dropout2(register_module("dropout2", Dropout(options.dropout))),
      dropout3(register_module("dropout3", Dropout(options.dropout))),
      options_(options) {}

Tensor TransformerDecoderLayer::operator()(const Tensor& tgt, const Tensor& memory,
                                           const TransformerDecoderInput& given) const {
  check_not_moved_from("TransformerDecoderLayer");
  return hooked(tgt, [&](const Tensor& input) {
    const bool norm_first = options_.norm_first;
    Tensor x = with_residual(input, norm1, norm_first, [&](const Tensor& y) {
      return dropout1(attended(self_attn, y, y, given.tgt_key_padding_mask, given.tgt_mask, given.tgt_is_causal));
    });
    x = with_residual(x, norm2, norm_first, [&](const Tensor& y) {
      return dropout2(attended(multihead_attn, y, memory, given.memory_key_padding_mask, given.memory_mask,
                               given.memory_is_causal));
    });
    return with_residual(x, norm3, norm_first,
                         [&](const Tensor& y) { return dropout3(feedforward(*this, y, options_.activation)); });
  });
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers,
                                       const std::optional<LayerNorm>& norm_)
    : Module("TransformerEncoder"),
      layers(register_module("layers", ModuleList<TransformerEncoderLayer>())),
      norm(register_module("norm", norm_)) {
  append_clones("TransformerEncoder", layers, layer, num_layers);
}

Tensor TransformerEncoder::operator()(const Tensor& src, const TransformerEncoderInput& given) const {
  check_not_moved_from("TransformerEncoder");
  return hooked(src, [&](const Tensor& input) {
    Tensor x = input;
    for (const auto& layer : layers) x = layer(x, given);
    return norm(x);
  });
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers,
                                       const std::optional<LayerNorm>& norm_)
    : Module("TransformerDecoder"),
      layers(register_module("layers", ModuleList<TransformerDecoderLayer>())),
      norm(register_module("norm", norm_)) {
  append_clones("TransformerDecoder", layers, layer, num_layers);
}

Tensor TransformerDecoder::operator()(const Tensor& tgt, const Tensor& memory,
                                      const TransformerDecoderInput& given) const {
  check_not_moved_from("TransformerDecoder");
  return hooked(tgt, [&](const Tensor& input) {
    Tensor x = input;
    for (const auto& layer : layers) x = layer(x, memory, given);
    return norm(x);
  });
}

Tensor generate_square_subsequent_mask(std::int64_t size, const TensorOptions& options) {
  ADJOINT_CHECK(size >= 0, "generate_square_subsequent_mask: size must not be negative; got {}", size);
  const Tensor seen = adjoint::detail::causal_mask(size, size, options.device);
  return where(seen, 0.0, -std::numeric_limits<double>::infinity()).to(options.dtype.value_or(kFloat32));
}

}  // namespace adjoint::nn
