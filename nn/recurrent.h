// Recurrent layers: RNN, LSTM and GRU, and their cells, with PyTorch's formulas, parameter names, layouts and initial
// values: every parameter from U(-b, b), b = 1 / sqrt(hidden_size).
//
//   nn::LSTM lstm(10, 20, {.num_layers = 2, .bidirectional = true});
//   const auto [output, h_n, c_n] = lstm(x);                    // x (L, N, 10); the states start at zero
//   const auto next = lstm(y, {h_n, c_n});                      // and go on from there
//   const auto padded = lstm(x, {.lengths = {7, 3, 5}});        // three sequences of these lengths, padded to L
//
// An input is (L, N, input_size), with batch_first (N, L, input_size), or (L, input_size) without a batch. L is the
// number of steps, N of sequences. D is 2 for bidirectional layers, otherwise 1. H is the size of a step's output:
// hidden_size, or an LSTM's proj_size if that is above 0. Outputs are (L, N, D H) or in the input's layout,
// the forward direction's features first. States are (D num_layers, N, H), an LSTM's c has hidden_size features, and
// states of an unbatched input have no axis N. Their first axis counts layers, and within a layer directions.
//
// With .lengths, one for each sequence, results and gradients are those of PyTorch's packed sequences: steps behind a
// sequence's end are never read, their outputs are 0, last states are those at its end, and the reverse direction
// begins there. The output has as many steps as the input. The lengths are numbers on the host; a GPU gets indices
// computed from them. A GraphedStep refuses them, because it cannot hold copies from the host: its sequences are
// padded, and its loss leaves the padding out.
//
// The inputs of all steps go through one matrix product per layer and direction. With 16-bit operands, gates and an
// LSTM's cell state between steps are float32. In a region of mixed precision a layer is computed in the region's
// dtype. Differentiable to any order. Constructors throw Error for sizes and numbers of layers below 1, a dropout
// outside [0, 1], and a proj_size outside [0, hidden_size); calls for shapes, dtypes and devices that do not fit, and
// for sequences without a step.
#pragma once

#include <adjoint/core/tensor/named.h>
#include <adjoint/nn/clone.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/number.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace adjoint::nn {

enum class RecurrentNonlinearity : std::uint8_t { kTanh, kReLU };
/// "tanh" or "relu". Throws Error for other names.
ADJOINT_API RecurrentNonlinearity enumerator(std::string_view name, RecurrentNonlinearity);

struct RNNOptions {
  std::int64_t num_layers = 1;
  Named<RecurrentNonlinearity> nonlinearity = RecurrentNonlinearity::kTanh;
  bool bias = true;
  bool batch_first = false;
  /// In training, the probability that an element of a layer's output becomes 0, except in the last layer.
  double dropout = 0.0;
  bool bidirectional = false;
};
struct LSTMOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0.0;
  bool bidirectional = false;
  /// If above 0, each step's h is projected by weight_hr to this size (Sak, Senior, Beaufays: "Long short-term
  /// memory based recurrent neural network architectures", 2014).
  std::int64_t proj_size = 0;
};
struct GRUOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0.0;
  bool bidirectional = false;
};

/// A call's arguments besides the input. States that are left out are zeros.
struct RNNInput {
  Tensor h_0 = {};
  std::vector<std::int64_t> lengths = {};
};
struct LSTMInput {
  Tensor h_0 = {}, c_0 = {};
  std::vector<std::int64_t> lengths = {};
};
struct RNNResult {
  Tensor output, h_n;
};
struct LSTMResult {
  Tensor output, h_n, c_n;
};

/// The parameters of one direction of one layer.
struct RecurrentWeights {
  Parameter weight_ih;         // (gates hidden_size, features of the layer's input)
  Parameter weight_hh;         // (gates hidden_size, H)
  Parameter bias_ih, bias_hh;  // (gates hidden_size); undefined without .bias
  Parameter weight_hr = {};    // (proj_size, hidden_size); undefined without .proj_size
};

namespace detail {

enum class RecurrentKind : std::uint8_t { kTanh, kReLU, kLSTM, kGRU };

struct RecurrentOptions {
  RecurrentKind kind;
  std::int64_t num_layers;
  bool bias, batch_first;
  double dropout;
  bool bidirectional;
  std::int64_t proj_size = 0;
};

/// The base of the three layers.
class ADJOINT_API Recurrent : public Module {
 public:
  std::int64_t input_size() const { return input_size_; }
  std::int64_t hidden_size() const { return hidden_size_; }
  /// Handles on weight_ih_l0, or weight_ih_l0_reverse, and so on. Throws Error if the layer or the direction does
  /// not exist.
  RecurrentWeights weights(std::int64_t layer, bool reverse = false) const;

 protected:
  Recurrent(const char* type, std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options);
  LSTMResult run(const Tensor& input, const LSTMInput& given) const;

 private:
  LSTMResult forward(const Tensor& input, const LSTMInput& given) const;
  LSTMResult computed(std::vector<Tensor> operands, const std::vector<std::int64_t>& lengths) const;
  void check(const std::vector<Tensor>& operands, const std::vector<std::int64_t>& lengths) const;
  std::int64_t directions() const { return options_.bidirectional ? 2 : 1; }
  std::int64_t output_size() const { return options_.proj_size > 0 ? options_.proj_size : hidden_size_; }

  const char* type_;
  std::int64_t input_size_, hidden_size_;
  RecurrentOptions options_;
  Shared<std::vector<RecurrentWeights>> weights_;  // by layer, and within a layer by direction
};

}  // namespace detail

/// h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu (Elman: "Finding structure in time", 1990).
class ADJOINT_API RNN : public detail::Recurrent {
 public:
  /// nn::RNN(10, 20, {.num_layers = 2}), or nn::RNN(10, 20, 2).
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  RNN(std::int64_t input_size, std::int64_t hidden_size, std::int64_t num_layers)
      : RNN(input_size, hidden_size, RNNOptions{.num_layers = num_layers}) {}
  RNN(std::int64_t input_size, std::int64_t hidden_size, detail::NoNumber) = delete;
  RNNResult operator()(const Tensor& input, const RNNInput& given = {}) const;
  RNNResult operator()(const Tensor& input, const Tensor& h_0) const { return (*this)(input, RNNInput{h_0}); }
};

/// i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of W_ih x + b_ih + W_hh h + b_hh, whose rows are in this order;
/// c' = f c + i g, h' = o tanh(c') (Hochreiter, Schmidhuber: "Long short-term memory", 1997; Gers, Schmidhuber,
/// Cummins: "Learning to forget", 2000).
class ADJOINT_API LSTM : public detail::Recurrent {
 public:
  /// nn::LSTM(10, 20, {.num_layers = 2}), or nn::LSTM(10, 20, 2).
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const LSTMOptions& options = {});
  LSTM(std::int64_t input_size, std::int64_t hidden_size, std::int64_t num_layers)
      : LSTM(input_size, hidden_size, LSTMOptions{.num_layers = num_layers}) {}
  LSTM(std::int64_t input_size, std::int64_t hidden_size, detail::NoNumber) = delete;
  /// Throws Error if one of the states is given without the other.
  LSTMResult operator()(const Tensor& input, const LSTMInput& given = {}) const;
};

/// r, z = sigmoid of the first two thirds of W_ih x + b_ih + W_hh h + b_hh, n = tanh(W_in x + b_in + r (W_hn h + b_hn))
/// of the last, h' = (1 - z) n + z h (Cho et al.: "Learning phrase representations using RNN encoder-decoder", 2014).
class ADJOINT_API GRU : public detail::Recurrent {
 public:
  /// nn::GRU(10, 20, {.num_layers = 2}), or nn::GRU(10, 20, 2).
  GRU(std::int64_t input_size, std::int64_t hidden_size, const GRUOptions& options = {});
  GRU(std::int64_t input_size, std::int64_t hidden_size, std::int64_t num_layers)
      : GRU(input_size, hidden_size, GRUOptions{.num_layers = num_layers}) {}
  GRU(std::int64_t input_size, std::int64_t hidden_size, detail::NoNumber) = delete;
  RNNResult operator()(const Tensor& input, const RNNInput& given = {}) const;
  RNNResult operator()(const Tensor& input, const Tensor& h_0) const { return (*this)(input, RNNInput{h_0}); }
};

// ---- Cells: one step. Inputs are (N, input_size) or (input_size), states (N, hidden_size) or (hidden_size).

struct RNNCellOptions {
  bool bias = true;
  Named<RecurrentNonlinearity> nonlinearity = RecurrentNonlinearity::kTanh;
};
struct LSTMCellOptions {
  bool bias = true;
};
using GRUCellOptions = LSTMCellOptions;

/// The state that an LSTMCell accepts and returns: cell(x) starts from zeros, cell(x, {h, c}) from a state.
struct LSTMState {
  Tensor h = {}, c = {};
};

namespace detail {

class ADJOINT_API RecurrentCell : public Module {
 public:
  Parameter weight_ih;         // (gates hidden_size, input_size)
  Parameter weight_hh;         // (gates hidden_size, hidden_size)
  Parameter bias_ih, bias_hh;  // (gates hidden_size); undefined without .bias

 protected:
  RecurrentCell(const char* type, RecurrentKind kind, std::int64_t input_size, std::int64_t hidden_size, bool bias);
  LSTMState step(const Tensor& input, const LSTMState& state) const;

 private:
  LSTMState forward(const Tensor& input, const LSTMState& state) const;

  const char* type_;
  RecurrentKind kind_;
  std::int64_t input_size_, hidden_size_;
};

}  // namespace detail

class ADJOINT_API RNNCell : public detail::RecurrentCell {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {});
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, bool with_bias)
      : RNNCell(input_size, hidden_size, RNNCellOptions{.bias = with_bias}) {}
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, detail::NoNumber) = delete;
  Tensor operator()(const Tensor& input, const Tensor& h = {}) const { return step(input, {h}).h; }
};

class ADJOINT_API LSTMCell : public detail::RecurrentCell {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const LSTMCellOptions& options = {});
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, bool with_bias)
      : LSTMCell(input_size, hidden_size, LSTMCellOptions{with_bias}) {}
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, detail::NoNumber) = delete;
  /// Throws Error if one of the states is given without the other.
  LSTMState operator()(const Tensor& input, const LSTMState& state = {}) const { return step(input, state); }
};

class ADJOINT_API GRUCell : public detail::RecurrentCell {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, const GRUCellOptions& options = {});
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, bool with_bias)
      : GRUCell(input_size, hidden_size, GRUCellOptions{with_bias}) {}
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, detail::NoNumber) = delete;
  Tensor operator()(const Tensor& input, const Tensor& h = {}) const { return step(input, {h}).h; }
};

}  // namespace adjoint::nn
