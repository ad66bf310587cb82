// Recurrent layers: derivatives, lengths, states, precision, and invalid calls. sequence_layers_test.cpp has
// PyTorch's values.
#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/clone.h>
#include <adjoint/nn/recurrent.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/tests/nn/registry_modules.h>
#include <adjoint/tests/nn/safetensors_files.h>
#include <adjoint/tests/nn/sequence_checks.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;

constexpr TensorOptions kWide{.dtype = kFloat64};

void expect_close(const std::string& what, const Tensor& actual, const Tensor& expected, double tolerance = 1e-12) {
  EXPECT_EQ(actual.shape(), expected.shape()) << what;
  testing::expect_near(what, actual, expected.to_vector<double>(), tolerance);
}

template <class M>
M in_float64(M layer) {
  layer.to(kFloat64);
  return layer;
}

TEST(Recurrent, DerivativesAreRightToTheSecondOrder) {
  manual_seed(1);
  const std::vector<std::int64_t> lengths{1, 2};
  const Tensor x = Tensor::randn({2, 2, 1}, kWide), h_0 = Tensor::randn({2, 2, 1}, kWide);
  expect_right_derivatives(LSTM(1, 2, {.bidirectional = true, .proj_size = 1}),
                           {x, h_0, Tensor::randn({2, 2, 2}, kWide)},
                           [&](const LSTM& lstm, const std::vector<Tensor>& in) {
                             const auto [output, h_n, c_n] = lstm(in[0], {in[1], in[2], lengths});
                             return std::vector<Tensor>{output, h_n, c_n};
                           });
  const auto run = [&](const auto& layer, const std::vector<Tensor>& in) {
    const auto [output, h_n] = layer(in[0], RNNInput{in[1], lengths});
    return std::vector<Tensor>{output, h_n};
  };
  expect_right_derivatives(GRU(1, 2), {x, Tensor::randn({1, 2, 2}, kWide)}, run);
  expect_right_derivatives(RNN(1, 1, {.bidirectional = true}), {x, h_0}, run);
}

TEST(Recurrent, ASequenceWithALengthIsWhatItIsAlone) {
  manual_seed(2);
  const std::vector<std::int64_t> lengths{2, 5, 1, 5};
  for (const bool batch_first : {false, true}) {
    const LSTM lstm = in_float64(LSTM(3, 4, {.num_layers = 2, .batch_first = batch_first, .bidirectional = true}));
    const std::int64_t batch_axis = batch_first ? 0 : 1, steps_axis = 1 - batch_axis;
    const Tensor x = Tensor::randn(batch_first ? Shape{4, 5, 3} : Shape{5, 4, 3}, kWide);
    const Tensor h_0 = Tensor::randn({4, 4, 4}, kWide), c_0 = Tensor::randn({4, 4, 4}, kWide);
    const auto [output, h_n, c_n] = lstm(x, {h_0, c_0, lengths});
    EXPECT_EQ(output.size(steps_axis), 5);
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::int64_t length = lengths[static_cast<std::size_t>(i)];
      const auto one = [&](const Tensor& state) { return state.narrow(1, i, 1); };
      const auto [own, own_h, own_c] =
          lstm(x.narrow(batch_axis, i, 1).narrow(steps_axis, 0, length), {one(h_0), one(c_0)});
      const Tensor mine = output.narrow(batch_axis, i, 1);
      expect_close("output", mine.narrow(steps_axis, 0, length), own);
      testing::expect_values("padding", mine.narrow(steps_axis, length, 5 - length),
                             std::vector<double>(static_cast<std::size_t>((5 - length) * 8), 0.0));
      expect_close("h_n", one(h_n), own_h);
      expect_close("c_n", one(c_n), own_c);
    }
  }
}

TEST(Recurrent, PaddingIsNeverRead) {
  manual_seed(3);
  const GRU gru(2, 3, {.bidirectional = true});
  const Tensor clean = Tensor::randn({4, 2, 2});
  Tensor x = clean.clone();
  x.narrow(0, 2, 2).select(1, 0).fill_(std::numeric_limits<double>::quiet_NaN());
  x.requires_grad_();
  Tape tape;
  const auto [output, h_n] = gru(x, {.lengths = {2, 4}});
  expect_same_bits("output", output, gru(clean, {.lengths = {2, 4}}).output);
  tape.backward((output * output).sum() + h_n.sum());
  EXPECT_TRUE(isfinite(x.grad()).all().item<bool>());
  testing::expect_values("padding's gradient", x.grad().narrow(0, 2, 2).select(1, 0), {0, 0, 0, 0});
  for (const Tensor& parameter : gru.parameters()) EXPECT_TRUE(isfinite(parameter.grad()).all().item<bool>());
}

TEST(Recurrent, LengthsOfTheWholeSequenceChangeNothing) {
  manual_seed(4);
  const RNN rnn(2, 3);
  const Tensor x = Tensor::randn({3, 2, 2});
  expect_same_bits("output", rnn(x, {.lengths = {3, 3}}).output, rnn(x).output);
}

TEST(Recurrent, StatesGoOnOverAThousandSteps) {
  manual_seed(5);
  const LSTM lstm = in_float64(LSTM(2, 3, 2));
  Tensor x = Tensor::randn({1000, 1, 2}, kWide);
  x.requires_grad_();
  Tape tape;
  const auto [whole, h_n, c_n] = lstm(x);
  const auto [first, h, c] = lstm(x.narrow(0, 0, 400));
  const auto [second, h_end, c_end] = lstm(x.narrow(0, 400, 600), {h, c});
  expect_close("output", cat({first, second}), whole);
  expect_close("h_n", h_end, h_n);
  expect_close("c_n", c_end, c_n);
  const std::vector<Tensor> one = gradient(whole.sum(), {x}, {.retain = true});
  expect_close("gradient", gradient(first.sum() + second.sum(), {x})[0], one[0]);
  EXPECT_GT(one[0].select(0, 0).abs().sum().item<double>(), 0.0);
}

TEST(Recurrent, CellsAreALayersSteps) {
  manual_seed(6);
  const LSTM lstm = in_float64(LSTM(2, 3));
  LSTMCell cell = in_float64(LSTMCell(2, 3));
  NamedTensors state;
  for (const auto& [name, tensor] : lstm.state_dict()) state.emplace_back(name.substr(0, name.size() - 3), tensor);
  cell.load_state_dict(state);
  const Tensor x = Tensor::randn({4, 2, 2}, kWide);
  LSTMState stepped;
  for (std::int64_t step = 0; step < 4; ++step) stepped = cell(x[step], stepped);
  const auto [output, h_n, c_n] = lstm(x);
  expect_close("h", stepped.h, h_n[0]);
  expect_close("c", stepped.c, c_n[0]);
  EXPECT_EQ(GRUCell(2, 3)(Tensor::ones({2})).shape(), Shape({3}));
  EXPECT_EQ(RNNCell(2, 3)(Tensor::ones({0, 2})).shape(), Shape({0, 3}));
}

TEST(Recurrent, DropoutStandsBetweenLayers) {
  manual_seed(7);
  RNN rnn(2, 3, {.num_layers = 2, .dropout = 1.0});
  const Tensor x = Tensor::randn({3, 2, 2});
  RNN second(3, 3);
  NamedTensors state;
  for (const auto& [name, tensor] : rnn.state_dict()) {
    if (name.ends_with("_l1")) state.emplace_back(name.substr(0, name.size() - 1) + "0", tensor);
  }
  second.load_state_dict(state);
  expect_same_bits("training", rnn(x).output, second(Tensor::zeros({3, 2, 3})).output);
  rnn.eval();
  RNN plain(2, 3, 2);
  plain.load_state_dict(rnn.state_dict());
  expect_same_bits("eval", rnn(x).output, plain(x).output);
  const RNN single(2, 3, {.dropout = 1.0});
  EXPECT_GT(single(x).output.abs().sum().item<float>(), 0.0F);
}

TEST(Recurrent, HasPyTorchsNamesAndStart) {
  manual_seed(8);
  const LSTM lstm(3, 16, {.num_layers = 2, .dropout = 0.25, .bidirectional = true, .proj_size = 4});
  EXPECT_EQ(to_string(lstm), "LSTM(3, 16, proj_size=4, num_layers=2, dropout=0.25, bidirectional=True)");
  std::vector<std::string> expected;
  for (const char* layer : {"l0", "l0_reverse", "l1", "l1_reverse"}) {
    for (const char* name : {"weight_ih_", "weight_hh_", "bias_ih_", "bias_hh_", "weight_hr_"}) {
      expected.push_back(std::string(name) + layer);
    }
  }
  EXPECT_EQ(names(lstm.state_dict()), expected);
  EXPECT_EQ(lstm.weights(1, true).weight_ih.shape(), Shape({64, 8}));
  for (const Tensor& parameter : lstm.parameters()) {
    const double bound = parameter.abs().max().item<double>();
    EXPECT_LE(bound, 0.25);
    EXPECT_GT(bound, 0.2);
  }
  EXPECT_NEAR((lstm.weights(0).weight_ih * lstm.weights(0).weight_ih).mean().item<double>(), 0.0625 / 3.0, 0.005);
  EXPECT_EQ(names(GRU(3, 4, {.bias = false, .batch_first = true}).state_dict()),
            (std::vector<std::string>{"weight_ih_l0", "weight_hh_l0"}));
  EXPECT_EQ(to_string(GRU(3, 4, {.bias = false, .batch_first = true})), "GRU(3, 4, bias=False, batch_first=True)");
  EXPECT_EQ(names(RNNCell(3, 4).state_dict()),
            (std::vector<std::string>{"weight_ih", "weight_hh", "bias_ih", "bias_hh"}));
  EXPECT_EQ(to_string(RNNCell(3, 4, {.bias = false, .nonlinearity = "relu"})),
            "RNNCell(3, 4, bias=False, nonlinearity=relu)");
}

using RecurrentFile = SafetensorsTest;

TEST_F(RecurrentFile, HoldsAState) {
  const LSTM lstm(2, 3, 2);
  save_safetensors(folder_ / "lstm.safetensors", lstm);
  LSTM other(2, 3, 2);
  load_safetensors(folder_ / "lstm.safetensors", other);
  const Tensor x = Tensor::randn({3, 2, 2});
  expect_same_bits("output", other(x).output, lstm(x).output);
}

TEST(Recurrent, WhatIsAssignedIsWhatTheyComputeWith) {
  GRU gru(2, 3);
  const GRU before = clone(gru), handle = gru;
  const Tensor x = Tensor::randn({3, 2, 2});
  expect_same_bits("a clone's", before(x).output, gru(x).output);
  gru.weights(0).weight_hh = Tensor::zeros({9, 3});
  testing::expect_values("listed", gru.parameters()[1], std::vector<double>(27, 0.0));
  expect_same_bits("every handle", handle(x).output, gru(x).output);
  EXPECT_NE(values(before(x).output), values(gru(x).output));
  gru = before;
  expect_same_bits("assigned", gru(x).output, before(x).output);
}

class Tagger : public Module {
 public:
  Tagger() : Module("Tagger") {}
  Tensor operator()(const Tensor& x) const {
    const auto [y, h_n, c_n] = lstm(x, {.lengths = {3, 2}});
    return gru(y, h_n).output + cell(y[0], h_n[0]);
  }

  Child<LSTM> lstm = register_module("lstm", LSTM(2, 3));
  Child<GRU> gru = register_module("gru", GRU(3, 3));
  Child<GRUCell> cell = register_module("cell", GRUCell(3, 3));
};

TEST(Recurrent, AreChildrenWhoseErrorsTellTheirPlaces) {
  const Tagger tagger;
  const Tensor x = Tensor::randn({3, 2, 2});
  const Tagger copy = clone(tagger);
  expect_same_bits("a clone's", copy(x), tagger(x));
  EXPECT_ERROR(tagger(Tensor::ones({3, 2, 4})), "lstm: LSTM: input must be (L, N, 2)");
  EXPECT_ERROR(tagger.gru(x), "gru: GRU: input must be (L, N, 3)");
}

TEST(Recurrent, HooksSeeTheOutput) {
  LSTM lstm(2, 3);
  const Tensor x = Tensor::randn({3, 2, 2});
  const LSTMResult plain = lstm(x);
  lstm.register_forward_hook([](const Module&, const Tensor&, const Tensor& output) { return output * 2.0; });
  const LSTMResult seen = lstm(x);
  expect_same_bits("output", seen.output, plain.output * 2.0);
  expect_same_bits("state", seen.c_n, plain.c_n);
  RNNCell cell(2, 3);
  int calls = 0;
  cell.register_forward_pre_hook([&](const Module&, const Tensor&) {
    ++calls;
    return Tensor();
  });
  cell(x[0]);
  EXPECT_EQ(calls, 1);
}

TEST(Recurrent, InMixedPrecisionALayerIsComputedInTheRegionsDtype) {
  manual_seed(9);
  for (const DType low : {kBFloat16, kFloat16}) {
    const LSTM lstm(4, 8, {.num_layers = 2, .bidirectional = true});
    const Tensor x = Tensor::randn({5, 3, 4});
    const Tensor expected = lstm(x).output;
    Tape tape;
    Tensor output;
    {
      const AutocastGuard autocast(low);
      const LSTMResult result = lstm(x, {.lengths = {5, 2, 3}});
      EXPECT_EQ(result.h_n.dtype(), low);
      EXPECT_EQ(result.c_n.dtype(), low);
      output = lstm(x).output;
      EXPECT_EQ(GRUCell(4, 2)(x[0]).dtype(), low);
    }
    EXPECT_EQ(output.dtype(), low);
    expect_close("output", output, expected, 0.02);
    tape.backward(output.to(kFloat32).sum());
    EXPECT_EQ(lstm.weights(0).weight_hh.grad().dtype(), kFloat32);
  }
}

// A cell of 16 bits would lose addends that are small beside it: a sum of 1/64 would stop at 4.
TEST(Recurrent, AnLSTMsCellIsFloat32BetweenSteps) {
  LSTM lstm(1, 1);
  for (Tensor& parameter : lstm.parameters()) parameter.zero_();
  lstm.weights(0).bias_ih.copy_(Tensor::from_vector<float>({100, 100, std::atanh(1.0F / 64), 0}, {4}));
  lstm.to(kBFloat16);
  const LSTMResult result = lstm(Tensor::zeros({640, 1, 1}, {.dtype = kBFloat16}));
  EXPECT_EQ(result.c_n.dtype(), kBFloat16);
  EXPECT_NEAR(result.c_n.item<float>(), 10.0F, 0.1F);
}

TEST(Recurrent, ABatchMayBeEmpty) {
  const auto [output, h_n, c_n] = LSTM(2, 3, {.bidirectional = true})(Tensor::zeros({4, 0, 2}));
  EXPECT_EQ(output.shape(), Shape({4, 0, 6}));
  EXPECT_EQ(c_n.shape(), Shape({2, 0, 3}));
}

TEST(Recurrent, SaysWhatIsWrong) {
  EXPECT_ERROR(LSTM(0, 3), "LSTM: input_size, hidden_size and num_layers must be at least 1; got 0, 3, 1");
  EXPECT_ERROR(GRU(2, 3, {.dropout = 1.5}), "GRU: dropout must be between 0 and 1; got 1.5");
  EXPECT_ERROR(LSTM(2, 3, {.proj_size = 3}), "LSTM: proj_size must be below hidden_size", "got 3, hidden_size 3");
  EXPECT_ERROR(RNN(2, 3, {.nonlinearity = "gelu"}), "nonlinearity: ", "\"tanh\"", "gelu");
  EXPECT_ERROR(RNNCell(2, 3, {.nonlinearity = static_cast<RecurrentNonlinearity>(2)}), "RNNCell: ", "got 2");
  EXPECT_ERROR(RNNCell(2, 0), "RNNCell: input_size and hidden_size must be at least 1; got 2, 0");

  const LSTM lstm(2, 3, {.num_layers = 2, .bidirectional = true});
  EXPECT_ERROR(lstm(Tensor::ones({4, 2, 5})),
               "LSTM: input must be (L, N, 2), or (L, 2) without a batch; got (4, 2, 5)");
  EXPECT_ERROR(GRU(2, 3, {.batch_first = true})(Tensor::ones({2})), "GRU: input must be (N, L, 2), or (L, 2)", "(2,)");
  EXPECT_ERROR(lstm(Tensor::ones({0, 2, 2})), "LSTM: sequences must have a step at least; got input (0, 2, 2)");
  EXPECT_ERROR(lstm(Tensor::ones({4, 2, 2}, kWide)), "LSTM: input must have the weights' dtype", "float64", "float32");
  EXPECT_ERROR(lstm(Tensor{}), "LSTM: ", "input");
  const Tensor x = Tensor::ones({4, 2, 2}), state = Tensor::zeros({4, 2, 3});
  EXPECT_ERROR(lstm(x, {state}), "LSTM: h_0 and c_0 must be given together; got h_0 alone");
  EXPECT_ERROR(lstm(x, {state, Tensor::zeros({2, 2, 3})}),
               "LSTM: c_0 must be float32 (4, 2, 3) on cpu, for 2 layers of two directions and input (4, 2, 2); got "
               "float32 (2, 2, 3) on cpu");
  EXPECT_ERROR(lstm(x, {.lengths = {4}}), "LSTM: lengths must be one for each sequence of a batch; got 1", "(4, 2, 2)");
  EXPECT_ERROR(lstm(x, {.lengths = {4, 5}}), "LSTM: lengths must lie between 1 and the number of steps, 4; got 5 in ",
               "place 1");
  EXPECT_ERROR(lstm(x, {.lengths = {0, 4}}), "got 0 in place 0");
  EXPECT_ERROR(lstm(x[0], {.lengths = {4}}), "lengths must be one for each sequence of a batch", "(2, 2)");
  EXPECT_ERROR(lstm.weights(2), "LSTM: weights must be those of one of 2 layers and 2 directions; got layer 2");
  EXPECT_ERROR(GRU(2, 3).weights(0, true), "GRU: ", "layer 0, reverse");
  EXPECT_ERROR(RNN(2, 3)(x, Tensor::zeros({1, 3, 3})), "RNN: h_0 must be float32 (1, 2, 3)", "got float32 (1, 3, 3)");
  EXPECT_ERROR(LSTMCell(2, 3)(x), "LSTMCell: input must be (N, 2), or (2,) without a batch; got (4, 2, 2)");
  EXPECT_ERROR(LSTMCell(2, 3)(x[0], {state[0]}), "LSTMCell: h and c must be given together; got h alone");
  EXPECT_ERROR(GRUCell(2, 3)(x[0], state[0][0]), "GRUCell: h must be float32 (2, 3)", "got float32 (3,)");
  LSTM moved(2, 3);
  const LSTM taken = std::move(moved);
  EXPECT_ERROR(moved(x), "LSTM: ");  // NOLINT(bugprone-use-after-move)
}

}  // namespace
}  // namespace adjoint::nn
