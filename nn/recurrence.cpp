#include <adjoint/nn/recurrence.h>

#include <adjoint/core/base/check.h>
#include <adjoint/nn/init.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/matmul/linear.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/view/view.h>

#include <cmath>
#include <vector>

namespace adjoint::nn::detail {

std::int64_t gates_of(RecurrentKind kind) {
  switch (kind) {
    case RecurrentKind::kLSTM: return 4;
    case RecurrentKind::kGRU: return 3;
    default: return 1;
  }
}

RecurrentKind kind_of(RecurrentNonlinearity nonlinearity, const char* type) {
  check_enumerator(type, "RecurrentNonlinearity", nonlinearity, RecurrentNonlinearity::kReLU);
  return nonlinearity == RecurrentNonlinearity::kReLU ? RecurrentKind::kReLU : RecurrentKind::kTanh;
}

Tensor recurrent_parameter(const Shape& shape, std::int64_t hidden_size) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(hidden_size));
  Tensor parameter = Tensor::empty(shape);
  init::uniform_(parameter, -bound, bound);
  return parameter;
}

Recurrence::Recurrence(RecurrentKind kind, const StepWeights& weights) : kind_(kind), weights_(weights) {
  to_gates_ = weights.weight_hh.transpose(0, 1);
  if (weights.weight_hr.defined()) to_output_ = weights.weight_hr.transpose(0, 1);
}

Tensor Recurrence::from_inputs(const Tensor& x) const {
  // A GRU's reset gate multiplies the state's part with its own bias; elsewhere one sum has both.
  const bool apart = kind_ == RecurrentKind::kGRU || !weights_.bias_hh.defined();
  return linear(x, weights_.weight_ih, apart ? weights_.bias_ih : weights_.bias_ih + weights_.bias_hh);
}

Tensor Recurrence::from_state(const Tensor& h) const { return widened(matmul(h, to_gates_)); }

LSTMState Recurrence::step(const Tensor& inputs, const LSTMState& before) const {
  const DType dtype = inputs.dtype();
  const Tensor given = widened(inputs);
  switch (kind_) {
    case RecurrentKind::kTanh: return {tanh(given + from_state(before.h)).to(dtype)};
    case RecurrentKind::kReLU: return {relu(given + from_state(before.h)).to(dtype)};
    case RecurrentKind::kLSTM: {
      const std::vector<Tensor> gates = chunk(given + from_state(before.h), 4, -1);
      const Tensor c = sigmoid(gates[1]) * before.c + sigmoid(gates[0]) * tanh(gates[2]);
      const Tensor h = (sigmoid(gates[3]) * tanh(c)).to(dtype);
      return {to_output_.defined() ? matmul(h, to_output_) : h, c};
    }
    case RecurrentKind::kGRU: {
      const std::int64_t size = given.size(-1) / 3;
      const std::vector<Tensor> of_input = split(given, {2 * size, size}, -1);
      const Tensor own = weights_.bias_hh.defined() ? widened(linear(before.h, weights_.weight_hh, weights_.bias_hh))
                                                    : from_state(before.h);
      const std::vector<Tensor> of_state = split(own, {2 * size, size}, -1);
      const std::vector<Tensor> gates = chunk(sigmoid(of_input[0] + of_state[0]), 2, -1);
      const Tensor candidate = tanh(of_input[1] + gates[0] * of_state[1]);
      return {lerp(candidate, widened(before.h), gates[1]).to(dtype)};
    }
  }
  return {};
}

LSTMState first_state(RecurrentKind kind, const Tensor& h, const Tensor& c) {
  return {h, kind == RecurrentKind::kLSTM ? widened(c) : Tensor()};
}

}  // namespace adjoint::nn::detail
