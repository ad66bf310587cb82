// The functions that a network calls on a signal, with the attributes that ONNX has for them (Streaming). Internal.
#pragma once

#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/graph/planned_call.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/tensor_function.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace adjoint::nn::detail {

/// A recurrence along an axis of operand 0.
struct SignalLoop {
  std::size_t axis = 0;
  std::vector<Tensor> first;  // the states before the first step
  /// The results of a block of steps, and behind them the states after it.
  std::function<std::vector<Tensor>(const Tensor& block, const std::vector<Tensor>& states)> run;
};

/// A call of a function, with the operands and results for a signal of some length.
struct SignalCall {
  /// A node of the call's translation. Inputs are the call's operands, then `made`.
  struct Node {
    std::string type;
    std::vector<std::int32_t> inputs;
    OnnxAttributes attributes;
  };

  std::string name;
  std::string module;  // "'0' (Conv1d)", or empty
  std::vector<Tensor> in, out;
  /// Indices of `in` and `out` among the network's values; -1: a constant.
  std::vector<std::int32_t> operands, results;
  std::vector<Node> nodes;
  std::vector<Tensor> made;  // constants of nodes; undefined: results of nodes
  std::unique_ptr<adjoint::detail::PlannedCall> planned;
  std::optional<SignalLoop> loop;

  /// Throws Error, naming the call: "Streaming: ...; got conv in '0' (Conv1d), <which>".
  [[noreturn]] void refuse(std::string_view which) const;
  const Node* find(std::string_view type) const;
  /// The constant that is input i of a node, as int64; empty if the node has no such input.
  std::vector<std::int64_t> integers(const Node& node, std::size_t i) const;
  /// The constant that is input i of a node, of one element.
  double number(const Node& node, std::size_t i, double otherwise) const;
};

/// Attributes of a node; `otherwise` if it has no such attribute.
std::vector<std::int64_t> integers_of(const SignalCall::Node& node, std::string_view name);
std::int64_t integer_of(const SignalCall::Node& node, std::string_view name, std::int64_t otherwise);
double number_of(const SignalCall::Node& node, std::string_view name, double otherwise);

struct SignalCalls {
  std::vector<SignalCall> calls;
  std::int32_t values = 0;  // value 0 is the input
  std::int32_t output = -1;
};

/// Runs f, of one input and one output, on `input` and records the calls whose results depend on it. Throws Error as
/// Plan does.
SignalCalls record_signal(const TensorFunction& f, const Tensor& input);

/// Returns true if record_signal is calling the network on this thread; recurrent layers then compute without a trace
/// and call record_loop. A layer without `loop` cannot be streamed.
bool records_signal();
void record_loop(const char* name, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
                 std::optional<SignalLoop> loop);

}  // namespace adjoint::nn::detail
