// One step of a recurrent layer. Internal to nn.
#pragma once

#include <adjoint/nn/recurrent.h>

#include <cstdint>

namespace adjoint::nn::detail {

std::int64_t gates_of(RecurrentKind kind);
/// Throws Error, naming `type`, for a value that is not an enumerator.
RecurrentKind kind_of(RecurrentNonlinearity nonlinearity, const char* type);

/// U(-b, b), b = 1 / sqrt(hidden_size).
Tensor recurrent_parameter(const Shape& shape, std::int64_t hidden_size);

/// The tensors of RecurrentWeights, of one dtype.
struct StepWeights {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh, weight_hr;
};

/// States between its steps have h in the weights' dtype, and an LSTM's c in float32 if that has 16 bits.
class Recurrence {
 public:
  Recurrence(RecurrentKind kind, const StepWeights& weights);

  /// (rows, features) -> (rows, gates hidden_size): the inputs' part of the gates. Rows are of any number of steps.
  Tensor from_inputs(const Tensor& x) const;
  /// The state behind a step. `inputs` (N, gates hidden_size): from_inputs' rows.
  LSTMState step(const Tensor& inputs, const LSTMState& before) const;

 private:
  Tensor from_state(const Tensor& h) const;

  RecurrentKind kind_;
  StepWeights weights_;
  Tensor to_gates_, to_output_;  // weight_hh and weight_hr, transposed
};

/// A Recurrence's initial state: the given one, or zeros.
LSTMState first_state(RecurrentKind kind, const Tensor& h, const Tensor& c);

}  // namespace adjoint::nn::detail
