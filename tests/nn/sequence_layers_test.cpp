// Recurrent layers, attention and transformer layers compared with PyTorch's, with gradients: values, names and states.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/nn/recurrent.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/nn/transformer.h>
#include <adjoint/tests/support/fixtures.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

// The tensors that tests/fixtures/make_sequence_layers.py wrote, by case and then by name. Floating-point tensors are
// float64.
using Tensors = std::map<std::string, Tensor>;

const std::map<std::string, Tensors>& cases() {
  static const std::map<std::string, Tensors> all = [] {
    std::map<std::string, Tensors> by_case;
    for (const auto& [path, tensor] : load_safetensors(testing::fixture("sequence_layers.safetensors")).tensors) {
      const std::size_t dot = path.find('.');
      by_case[path.substr(0, dot)][path.substr(dot + 1)] =
          is_floating_point(tensor.dtype()) ? tensor.to(kFloat64) : tensor;
    }
    return by_case;
  }();
  return all;
}

// The inputs of a case by name; undefined if PyTorch's call had no such input.
class Inputs {
 public:
  explicit Inputs(const Tensors& all) {
    for (const auto& [name, tensor] : all) {
      if (!name.starts_with("input.")) continue;
      Tensor own = tensor.clone();
      if (all.contains("gradient." + name)) own.requires_grad_();
      inputs_.emplace(name.substr(6), own);
    }
  }
  Tensor operator[](const std::string& name) const {
    const auto found = inputs_.find(name);
    return found == inputs_.end() ? Tensor() : found->second;
  }
  std::vector<std::int64_t> lengths() const {
    const Tensor given = (*this)["lengths"];
    return given.defined() ? given.to_vector<std::int64_t>() : std::vector<std::int64_t>{};
  }

 private:
  Tensors inputs_;
};

class SequenceLayers : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(compared_, with_prefix_); }

  // `call`(layer, inputs) gives the results.
  template <class M, class Call>
  void expect_pytorchs(const std::string& name, M layer, const Call& call) {
    SCOPED_TRACE(name);
    const Tensors& all = cases().at(name);
    layer.to(kFloat64);
    NamedTensors state;
    for (const auto& [key, tensor] : all) {
      if (key.starts_with("state.")) state.emplace_back(key.substr(6), tensor);
      if (key.starts_with("result.") || key.starts_with("gradient.")) with_prefix_.insert(name + "." + key);
    }
    layer.load_state_dict(state);
    const Inputs inputs(all);
    {
      Tape tape;
      const std::vector<Tensor> results = call(layer, inputs);
      Tensor loss = Tensor::zeros({}, {.dtype = kFloat64});
      for (std::size_t i = 0; i < results.size(); ++i) {
        compare(name, "result." + std::to_string(i), results[i]);
        loss = loss + (results[i] + results[i] * results[i] / 2.0).sum();
      }
      tape.backward(loss);
    }
    for (const auto& [parameter, tensor] : layer.named_parameters())
      compare(name, "gradient." + parameter, tensor.grad());
    for (const auto& [key, tensor] : all) {
      if (key.starts_with("gradient.input.")) compare(name, key, inputs[key.substr(15)].grad());
    }
  }

 private:
  void compare(const std::string& name, const std::string& key, const Tensor& actual) {
    const Tensor& expected = cases().at(name).at(key);
    ASSERT_TRUE(actual.defined()) << key;
    EXPECT_EQ(actual.shape(), expected.shape()) << key;
    testing::expect_near(key, actual, expected.to_vector<double>(), 1e-12);
    compared_.insert(name + "." + key);
  }

  std::set<std::string> compared_, with_prefix_;
};

std::vector<Tensor> run_rnn(const auto& layer, const Inputs& in) {
  const auto [output, h_n] = layer(in["x"], RNNInput{in["h_0"], in.lengths()});
  return {output, h_n};
}
std::vector<Tensor> run_lstm(const LSTM& layer, const Inputs& in) {
  const auto [output, h_n, c_n] = layer(in["x"], {in["h_0"], in["c_0"], in.lengths()});
  return {output, h_n, c_n};
}

TEST_F(SequenceLayers, RecurrentOnesArePyTorchs) {
  const auto rnn = [](const RNN& layer, const Inputs& in) { return run_rnn(layer, in); };
  const auto gru = [](const GRU& layer, const Inputs& in) { return run_rnn(layer, in); };
  expect_pytorchs("rnn", RNN(3, 2, {.num_layers = 2, .bidirectional = true}), rnn);
  expect_pytorchs("rnn_relu", RNN(3, 2, {.nonlinearity = "relu", .bias = false, .batch_first = true}), rnn);
  expect_pytorchs("rnn_lengths", RNN(2, 3, {.bidirectional = true}), rnn);
  expect_pytorchs("lstm", LSTM(3, 2), run_lstm);
  expect_pytorchs("lstm_deep", LSTM(3, 2, {.num_layers = 2, .bias = false, .bidirectional = true}), run_lstm);
  expect_pytorchs("lstm_projected", LSTM(2, 3, {.num_layers = 2, .bidirectional = true, .proj_size = 2}), run_lstm);
  expect_pytorchs("lstm_batch_first", LSTM(3, 2, {.batch_first = true, .bidirectional = true}), run_lstm);
  expect_pytorchs("lstm_unbatched", LSTM(3, 2, {.batch_first = true, .bidirectional = true}), run_lstm);
  expect_pytorchs("gru", GRU(3, 2, {.num_layers = 2, .bidirectional = true}), gru);
  expect_pytorchs("gru_batch_first", GRU(3, 2, {.bias = false, .batch_first = true}), gru);
  expect_pytorchs("gru_unbatched", GRU(3, 2), gru);
}

TEST_F(SequenceLayers, CellsArePyTorchs) {
  const auto cell = [](const auto& layer, const Inputs& in) { return std::vector<Tensor>{layer(in["x"], in["h"])}; };
  const auto lstm = [](const LSTMCell& layer, const Inputs& in) {
    const auto [h, c] = layer(in["x"], {in["h"], in["c"]});
    return std::vector<Tensor>{h, c};
  };
  expect_pytorchs("rnn_cell", RNNCell(3, 2), cell);
  expect_pytorchs("rnn_cell_relu", RNNCell(3, 2, {.bias = false, .nonlinearity = "relu"}), cell);
  expect_pytorchs("lstm_cell", LSTMCell(3, 2), lstm);
  expect_pytorchs("lstm_cell_unbatched", LSTMCell(3, 2, false), lstm);
  expect_pytorchs("gru_cell", GRUCell(3, 2), cell);
}

TEST_F(SequenceLayers, AttentionIsPyTorchs) {
  const auto call = [](bool average) {
    return [average](const MultiheadAttention& layer, const Inputs& in) {
      const Tensor query = in["query"], key = in["key"].defined() ? in["key"] : query;
      const auto [output, weights] = layer(query, key, in["value"].defined() ? in["value"] : key,
                                           {.key_padding_mask = in["key_padding_mask"],
                                            .attn_mask = in["attn_mask"],
                                            .average_attn_weights = average});
      return std::vector<Tensor>{output, weights};
    };
  };
  expect_pytorchs("attention", MultiheadAttention(4, 2), call(true));
  expect_pytorchs("attention_shared", MultiheadAttention(4, 2, {.batch_first = true}), call(false));
  expect_pytorchs("attention_cross", MultiheadAttention(4, 2, {.bias = false, .kdim = 3, .vdim = 5}), call(true));
  expect_pytorchs("attention_more", MultiheadAttention(4, 2, {.add_bias_kv = true, .add_zero_attn = true}), call(true));
  expect_pytorchs("attention_added", MultiheadAttention(4, 2, {.batch_first = true}), call(true));
  expect_pytorchs("attention_unbatched", MultiheadAttention(4, 2, {.batch_first = true}), call(false));
}

TEST_F(SequenceLayers, TransformersArePyTorchs) {
  const auto encode = [](const auto& layer, const Inputs& in) {
    const Tensor mask = in["src_mask"].defined() ? in["src_mask"] : in["mask"];
    return std::vector<Tensor>{
        layer(in["src"], {.src_mask = mask, .src_key_padding_mask = in["src_key_padding_mask"]})};
  };
  const auto decode = [](const auto& layer, const Inputs& in) {
    return std::vector<Tensor>{layer(in["tgt"], in["memory"],
                                     {.tgt_mask = in["tgt_mask"],
                                      .memory_mask = in["memory_mask"],
                                      .tgt_key_padding_mask = in["tgt_key_padding_mask"],
                                      .memory_key_padding_mask = in["memory_key_padding_mask"]})};
  };
  const TransformerLayerOptions plain{.dim_feedforward = 6, .dropout = 0.0};
  TransformerLayerOptions first{.dim_feedforward = 6, .dropout = 0.0, .activation = "gelu", .norm_first = true};
  expect_pytorchs("decoder_layer_norm_first", TransformerDecoderLayer(4, 2, first), decode);
  first.layer_norm_eps = 1e-3;
  first.batch_first = true;
  expect_pytorchs("encoder_layer_norm_first", TransformerEncoderLayer(4, 2, first), encode);
  expect_pytorchs("encoder_layer", TransformerEncoderLayer(4, 2, plain), encode);
  expect_pytorchs("decoder_layer",
                  TransformerDecoderLayer(4, 2, {.dim_feedforward = 6, .dropout = 0.0, .batch_first = true}), decode);
  const TransformerLayerOptions small{.dim_feedforward = 3, .dropout = 0.0};
  expect_pytorchs("encoder", TransformerEncoder(TransformerEncoderLayer(4, 2, small), 2, LayerNorm({4})), encode);
  expect_pytorchs("decoder", TransformerDecoder(TransformerDecoderLayer(4, 2, small), 2), decode);
}

}  // namespace
}  // namespace adjoint::nn
