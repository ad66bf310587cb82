// Attention and transformer layers: derivatives, masks, states, precision, and invalid calls.
// sequence_layers_test.cpp has PyTorch's values.
#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/clone.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/nn/transformer.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/nn/registry_modules.h>
#include <adjoint/tests/nn/sequence_checks.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;

constexpr TensorOptions kWide{.dtype = kFloat64};

Tensor mask(const std::vector<bool>& blocked, const Shape& shape) {
  return Tensor::from_vector<bool>(blocked, shape, {.dtype = kBool});
}

TEST(MultiheadAttention, DerivativesAreRightToTheSecondOrder) {
  manual_seed(1);
  const Tensor padding = mask({false, true}, {1, 2});
  expect_right_derivatives(MultiheadAttention(2, 2, {.add_bias_kv = true, .kdim = 1}),
                           {Tensor::randn({2, 1, 2}, kWide), Tensor::randn({2, 1, 1}, kWide),
                            Tensor::randn({2, 1, 2}, kWide)},
                           [&](const MultiheadAttention& attention, const std::vector<Tensor>& in) {
                             const auto [output, weights] =
                                 attention(in[0], in[1], in[2],
                                           {.key_padding_mask = padding, .average_attn_weights = false});
                             return std::vector<Tensor>{output, weights};
                           });
}

TEST(Transformer, DerivativesAreRightToTheSecondOrder) {
  manual_seed(2);
  const TransformerLayerOptions options{.dim_feedforward = 2, .dropout = 0.0, .activation = "gelu"};
  const Tensor x = Tensor::randn({2, 2}, kWide);
  expect_right_derivatives(TransformerEncoderLayer(2, 1, options), {x},
                           [](const TransformerEncoderLayer& layer, const std::vector<Tensor>& in) {
                             return layer(in[0], {.is_causal = true});
                           });
  TransformerLayerOptions first = options;
  first.norm_first = true;
  first.bias = false;
  expect_right_derivatives(TransformerDecoderLayer(2, 1, first), {x, Tensor::randn({2, 2}, kWide)},
                           [](const TransformerDecoderLayer& layer, const std::vector<Tensor>& in) {
                             return layer(in[0], in[1], {.tgt_is_causal = true});
                           });
}

TEST(MultiheadAttention, MasksSayTheSameInEveryForm) {
  manual_seed(3);
  const MultiheadAttention attention(4, 2, {.batch_first = true});
  const Tensor x = Tensor::randn({2, 3, 4});
  const Tensor later = mask({0, 1, 1, 0, 0, 1, 0, 0, 0}, {3, 3});
  const Tensor added = generate_square_subsequent_mask(3);
  testing::expect_values("subsequent", added, {0, -HUGE_VAL, -HUGE_VAL, 0, 0, -HUGE_VAL, 0, 0, 0});
  EXPECT_EQ(generate_square_subsequent_mask(2, {.dtype = kFloat64}).dtype(), kFloat64);
  const Tensor padding = mask({0, 0, 1, 0, 1, 0}, {2, 3});
  for (const Tensor& keys : {Tensor(), padding}) {
    const auto [causal, causal_weights] = attention(x, x, x, {.key_padding_mask = keys, .is_causal = true});
    for (const Tensor& attn_mask : {later, added, later.expand({4, 3, 3})}) {
      const auto [output, weights] = attention(x, x, x, {.key_padding_mask = keys, .attn_mask = attn_mask});
      expect_same_bits("output", output, causal);
      expect_same_bits("weights", weights, causal_weights);
    }
    const auto silent = attention(x, x, x, {.key_padding_mask = keys, .need_weights = false, .is_causal = true});
    expect_same_bits("without weights", silent.output, causal);
    EXPECT_FALSE(silent.weights.defined());
  }
  const Tensor as_added = where(padding, -HUGE_VAL, 0.0);
  expect_same_bits("padding, added", attention(x, x, x, {.key_padding_mask = as_added}).output,
                   attention(x, x, x, {.key_padding_mask = padding}).output);
}

TEST(MultiheadAttention, AQueryThatSeesNoKeyGivesNothing) {
  manual_seed(4);
  const MultiheadAttention attention(4, 2);
  Tensor x = Tensor::randn({3, 1, 4});
  x.requires_grad_();
  Tape tape;
  const auto [output, weights] = attention(x, x, x, {.key_padding_mask = mask({1, 1, 1}, {1, 3})});
  testing::expect_values("weights", weights, std::vector<double>(9, 0.0));
  testing::expect_values("output", output, std::vector<double>(12, 0.0));  // out_proj's bias, which starts at 0
  tape.backward((output * output + output).sum() + weights.sum());
  EXPECT_TRUE(isfinite(x.grad()).all().item<bool>());
}

TEST(MultiheadAttention, ProjectsSharedOperandsToTheSameBits) {
  manual_seed(5);
  const MultiheadAttention attention(8, 2);
  const Tensor x = Tensor::randn({3, 2, 8}), y = Tensor::randn({5, 2, 8});
  const auto near = [](const char* what, const Tensor& a, const Tensor& b) {
    testing::expect_near(what, a, b.to_vector<double>(), 1e-6);
  };
  near("one tensor", attention(x, x, x).output, attention(x, x.clone(), x.clone()).output);
  near("two", attention(x, y, y).output, attention(x, y, y.clone()).output);
}

TEST(MultiheadAttention, DropsWeightsInTraining) {
  manual_seed(6);
  MultiheadAttention attention(4, 2, 1.0);
  const Tensor x = Tensor::randn({3, 2, 4});
  const auto dropped = attention(x, x, x);
  testing::expect_values("weights", dropped.weights, std::vector<double>(18, 0.0));
  attention.eval();
  testing::expect_near("sums", attention(x, x, x).weights.sum({-1}), std::vector<double>(6, 1.0), 1e-6);
}

TEST(MultiheadAttention, HasPyTorchsNamesAndStart) {
  manual_seed(7);
  const MultiheadAttention attention(32, 4, {.add_bias_kv = true});
  EXPECT_EQ(names(attention.state_dict()), (std::vector<std::string>{"in_proj_weight", "in_proj_bias", "bias_k",
                                                                     "bias_v", "out_proj.weight", "out_proj.bias"}));
  const double bound = std::sqrt(6.0 / (4 * 32)), largest = attention.in_proj_weight.abs().max().item<double>();
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.98 * bound);
  EXPECT_EQ(attention.in_proj_bias.abs().max().item<double>(), 0.0);
  EXPECT_EQ(attention.out_proj.bias.abs().max().item<double>(), 0.0);
  EXPECT_EQ(names(MultiheadAttention(4, 2, {.bias = false, .vdim = 3}).state_dict()),
            (std::vector<std::string>{"q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"}));
}

TEST(Transformer, AStackHoldsClones) {
  manual_seed(8);
  const TransformerEncoderLayer layer(4, 2, 8, 0.0);
  const TransformerEncoder encoder(layer, 2, LayerNorm({4}));
  const Tensor x = Tensor::randn({3, 2, 4});
  expect_same_bits("output", encoder(x), encoder.norm(layer(layer(x))));
  EXPECT_FALSE(encoder.layers[0] == encoder.layers[1]);
  EXPECT_FALSE(same(encoder.layers[0].linear1.weight, layer.linear1.weight));
  const std::vector<std::string> all = names(encoder.state_dict());
  EXPECT_EQ(all.size(), 26U);
  EXPECT_EQ(all[0], "layers.0.self_attn.in_proj_weight");
  EXPECT_EQ(all.back(), "norm.bias");
  EXPECT_EQ(names(TransformerDecoder(TransformerDecoderLayer(4, 2), 1).state_dict()).size(), 18U);
  const TransformerEncoder copy = clone(encoder);
  expect_same_bits("a clone's", copy(x), encoder(x));
  EXPECT_FALSE(same(copy.layers[1].norm2.weight, encoder.layers[1].norm2.weight));
  const Sequential net{layer, LayerNorm({4})};
  EXPECT_EQ(net(x).shape(), x.shape());
}

TEST(Transformer, HooksRunInEveryPart) {
  TransformerDecoderLayer layer(4, 2, 8, 0.0);
  std::vector<std::string> seen;
  for (Module module : {Module(layer), Module(layer.multihead_attn), Module(layer.multihead_attn.out_proj),
                        Module(layer.dropout), Module(layer.norm3)}) {
    module.register_forward_hook([&](const Module& called, const Tensor&, const Tensor&) {
      seen.push_back(called.type());
      return Tensor();
    });
  }
  const Tensor x = Tensor::ones({3, 4});
  layer(x, x);
  EXPECT_EQ(seen, (std::vector<std::string>{"Linear", "MultiheadAttention", "Dropout", "LayerNorm",
                                            "TransformerDecoderLayer"}));
  // A query that a hook replaces is the key and value too, if they were one tensor.
  MultiheadAttention attention(4, 2);
  const Tensor y = Tensor::randn({3, 4}), plain = attention(y, y, y).output;
  attention.register_forward_pre_hook([&](const Module&, const Tensor&) { return y; });
  expect_same_bits("replaced", attention(x, x, x).output, plain);
}

TEST(Transformer, InMixedPrecisionMapsAreComputedInTheRegionsDtype) {
  manual_seed(9);
  const TransformerEncoderLayer layer(8, 2, 16, 0.0);
  const Tensor x = Tensor::randn({3, 2, 8}), expected = layer(x);
  Tape tape;
  Tensor output;
  {
    const AutocastGuard autocast(kBFloat16);
    EXPECT_EQ(layer.self_attn(x, x, x, {.attn_mask = generate_square_subsequent_mask(3)}).output.dtype(), kBFloat16);
    output = layer(x, {.src_key_padding_mask = mask(std::vector<bool>(6, false), {2, 3})});
  }
  EXPECT_EQ(output.dtype(), kFloat32);  // of a LayerNorm
  testing::expect_near("output", output, expected.to_vector<double>(), 0.05);
  tape.backward(output.sum());
  EXPECT_EQ(layer.self_attn.in_proj_weight.grad().dtype(), kFloat32);
}

TEST(Transformer, TakesEveryFloatingDtype) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat64}) {
    TransformerDecoderLayer layer(4, 2, 8, 0.0);
    const Tensor x = Tensor::randn({3, 2, 4}), expected = layer(x, x);
    layer.to(dtype);
    const Tensor y = layer(x.to(dtype), x.to(dtype));
    EXPECT_EQ(y.dtype(), dtype);
    testing::expect_near("output", y, expected.to_vector<double>(), dtype == kFloat64 ? 1e-5 : 0.06);
  }
}

TEST(Transformer, SaysWhatIsWrong) {
  EXPECT_ERROR(MultiheadAttention(6, 4), "MultiheadAttention: num_heads must divide embed_dim; got 4 heads for 6");
  EXPECT_ERROR(MultiheadAttention(0, 4), "MultiheadAttention: embed_dim, num_heads, kdim and vdim must be at least 1");
  EXPECT_ERROR(MultiheadAttention(4, 4, 2.0), "MultiheadAttention: dropout must be between 0 and 1; got 2");
  const MultiheadAttention attention(4, 2, {.kdim = 3});
  const Tensor query = Tensor::ones({5, 2, 4}), key = Tensor::ones({6, 2, 3}), value = Tensor::ones({6, 2, 4});
  EXPECT_ERROR(attention(Tensor::ones({5, 2, 3}), key, value),
               "MultiheadAttention: query must be (L, N, 4), or (L, 4) without a batch; got (5, 2, 3)");
  EXPECT_ERROR(attention(query, value, value), "key and value must have query's axes and batch, and 3 and 4 features",
               "query (5, 2, 4), key (6, 2, 4), value (6, 2, 4)");
  EXPECT_ERROR(attention(query, key, query), "there must be a value for each key; got key (6, 2, 3), value (5, 2, 4)");
  EXPECT_ERROR(attention(query, key, value, {.key_padding_mask = mask({0, 0}, {2})}),
               "key_padding_mask must be (2, 6), for 5 queries, 6 keys, 2 heads and a batch of 2; got (2,)");
  EXPECT_ERROR(attention(query, key, value, {.attn_mask = Tensor::zeros({6, 5})}),
               "attn_mask must be (5, 6) or (4, 5, 6)", "got (6, 5)");
  EXPECT_ERROR(attention(query, key, value, {.attn_mask = Tensor::zeros({5, 6}, {.dtype = kInt64})}),
               "attn_mask must be of bool or floating point; got int64");
  EXPECT_ERROR(attention(query, Tensor{}, value), "MultiheadAttention: ", "key");

  EXPECT_ERROR(TransformerEncoderLayer(6, 4), "TransformerEncoderLayer: nhead must divide d_model; got 4 heads for 6");
  EXPECT_ERROR(TransformerDecoderLayer(4, 4, 0), "TransformerDecoderLayer: d_model, nhead and dim_feedforward must be");
  EXPECT_ERROR(TransformerEncoderLayer(4, 4, {.activation = "tanh"}), "activation must be \"relu\", \"gelu\"", "tanh");
  EXPECT_ERROR(TransformerEncoder(TransformerEncoderLayer(4, 2), 0), "TransformerEncoder: num_layers must be at least");
  const TransformerEncoder encoder(TransformerEncoderLayer(4, 2, 8, 0.0), 2);
  EXPECT_ERROR(encoder(Tensor::ones({3, 2, 5})), "layers.0.self_attn: MultiheadAttention: query must be (L, N, 4)");
  EXPECT_ERROR(generate_square_subsequent_mask(-1), "generate_square_subsequent_mask: size must not be negative");
}

}  // namespace
}  // namespace adjoint::nn
