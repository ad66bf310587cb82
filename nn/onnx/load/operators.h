// ONNX's operators in operators of this library. Internal to this folder.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/onnx/load/file.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace adjoint::nn::detail {

/// A node's call: its operands and attributes.
class OnnxArgs {
 public:
  const OnnxFile::Node& node;
  const std::span<const Tensor> in;  // undefined: not given
  const std::int64_t operator_set;
  const bool training;

  OnnxArgs(const OnnxFile::Node& n, std::span<const Tensor> operands, std::int64_t set, bool trains)
      : node(n), in(operands), operator_set(set), training(trains) {}

  bool has(std::size_t i) const { return i < in.size() && in[i].defined(); }
  /// Operand i. Throws Error if it is not given.
  const Tensor& operator[](std::size_t i) const;
  /// Operand i, or an undefined Tensor.
  Tensor optional(std::size_t i) const { return has(i) ? in[i] : Tensor(); }

  // Attributes. Throw Error if they have another type.

  bool has_attribute(const char* name) const { return node.attributes.contains(name); }
  std::int64_t integer(const char* name, std::int64_t otherwise) const;
  double number(const char* name, double otherwise) const;
  std::string text(const char* name, std::string_view otherwise) const;
  std::vector<std::int64_t> integers(const char* name, const std::vector<std::int64_t>& otherwise = {}) const;
  std::vector<double> numbers(const char* name, const std::vector<double>& otherwise = {}) const;
  std::vector<std::string> texts(const char* name, const std::vector<std::string>& otherwise = {}) const;
  /// Undefined if it is not given.
  Tensor tensor(const char* name) const;

  // Operands that are settings: read on the host.

  std::vector<std::int64_t> host_integers(std::size_t i) const;
  std::vector<double> host_numbers(std::size_t i) const;
  /// One integer.
  std::int64_t host_integer(std::size_t i) const;
  /// Axes: an attribute of this name in old operator sets, operand i in newer ones; empty if neither is given.
  std::vector<std::int64_t> axes(const char* name, std::size_t i) const;
  /// The axis in [0, rank) that `given`, in [-rank, rank), names.
  std::int64_t axis_of(std::int64_t given, std::int64_t rank) const;

  /// Throws Error: "load_onnx: Conv node 'conv_1': <reason>".
  [[noreturn]] void refuse(const std::string& reason) const;
};

using OnnxResults = std::vector<Tensor>;

struct OnnxOperator {
  std::string_view type;
  OnnxResults (*run)(const OnnxArgs& args);
  /// The attributes that `run` reads, separated by spaces. A node with another one is refused.
  std::string_view attributes = {};
  /// Operands that `run` reads on the host, bit i: operand i. A constant there is not a parameter.
  std::uint32_t settings = 0;
  /// Operands whose constants are buffers, and to which `run` may write in training.
  std::uint32_t buffers = 0;
};

/// A table a file of operators/.
std::span<const OnnxOperator> onnx_activation_operators();
std::span<const OnnxOperator> onnx_index_operators();
std::span<const OnnxOperator> onnx_layer_operators();
std::span<const OnnxOperator> onnx_math_operators();
std::span<const OnnxOperator> onnx_norm_operators();
std::span<const OnnxOperator> onnx_product_operators();
std::span<const OnnxOperator> onnx_random_operators();
std::span<const OnnxOperator> onnx_recurrent_operators();
std::span<const OnnxOperator> onnx_reduce_operators();
std::span<const OnnxOperator> onnx_resize_operators();
std::span<const OnnxOperator> onnx_shape_operators();
std::span<const OnnxOperator> onnx_signal_operators();

/// Null for an operator that no table has.
const OnnxOperator* find_onnx_operator(std::string_view type);

/// The dtype of ONNX's number for it. Throws Error, naming `what`, for dtypes that this library lacks.
DType dtype_of_onnx(std::int64_t type, std::string_view what);

}  // namespace adjoint::nn::detail
