// An ONNX graph as it is recorded, before it becomes a file. Internal to this folder.
#pragma once

#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace adjoint::nn::detail {

struct OnnxGraph {
  /// An input, a constant, or an output of a node.
  struct Value {
    std::string name;
    Tensor constant;             // undefined for others
    std::optional<Shape> shape;  // known of operands and results, not of values between a rule's nodes
  };
  struct Node {
    std::string type;                   // ONNX's operator
    std::string made_by;                // our operator, and the module that called it, for errors
    std::vector<std::int32_t> inputs;   // values; -1: a missing one
    std::vector<std::int32_t> outputs;  // values
    std::vector<std::pair<std::string, decltype(OnnxAttribute::value)>> attributes;
  };
  /// An input or output of the graph.
  struct Port {
    std::int32_t value = -1;
    DType dtype = kFloat32;
    Shape shape;
    std::vector<std::string> axes;  // names of extents that may change; empty: fixed
  };

  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Port> inputs, outputs;
};

}  // namespace adjoint::nn::detail
