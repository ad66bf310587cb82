// Translation of an operator's calls to ONNX's operators (https://onnx.ai, operator set 17). A rule is defined beside
// the operator and names nodes; nn/onnx writes them to a file. Internal.
//
//   OnnxValue softmax_onnx(OnnxCall& call, const SoftmaxAttr& attr) {
//     return call.add("Softmax", {call.operand(0)}, {{"axis", attr.axis}});
//   }
//
//   constinit const OpDef<SoftmaxAttr> softmax_op{.name = "softmax", ..., .onnx = softmax_onnx};
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace adjoint {

/// An attribute of a node. ONNX stores numbers as float32.
struct OnnxAttribute {
  std::string_view name;
  std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, Tensor> value;

  OnnxAttribute(std::string_view n, bool v) : name(n), value(std::int64_t{v}) {}
  OnnxAttribute(std::string_view n, std::int64_t v) : name(n), value(v) {}
  OnnxAttribute(std::string_view n, double v) : name(n), value(v) {}
  OnnxAttribute(std::string_view n, const char* v) : name(n), value(std::string(v)) {}
  OnnxAttribute(std::string_view n, std::vector<std::int64_t> v) : name(n), value(std::move(v)) {}
  OnnxAttribute(std::string_view n, Tensor v) : name(n), value(std::move(v)) {}
};
using OnnxAttributes = std::vector<OnnxAttribute>;

/// A call that is being translated.
class ADJOINT_API OnnxCall {
 public:
  const std::string_view name;  // the operator's
  /// The call's operands and results, for their shapes and dtypes. Elements of results must not be read.
  const std::span<const Tensor> in, out;

  OnnxCall(const OnnxCall&) = delete;
  OnnxCall& operator=(const OnnxCall&) = delete;

  /// The value of operand i; a missing one if the operand is undefined.
  virtual OnnxValue operand(std::size_t i) = 0;
  /// The operands of a node that broadcasts them to result 0's shape: without the repetitions that expand() adds.
  virtual std::vector<OnnxValue> broadcast_operands() = 0;
  /// A constant, with the tensor's elements.
  virtual OnnxValue constant(const Tensor& value) = 0;
  /// Adds a node and returns its outputs. Missing values are left out.
  virtual std::vector<OnnxValue> add_node(std::string_view type, std::span<const OnnxValue> inputs,
                                          const OnnxAttributes& attributes, std::size_t outputs) = 0;
  /// Sets result i, of an operator with several. A rule returns result 0.
  virtual void set_result(std::size_t i, OnnxValue value) = 0;
  /// Throws Error: the operator cannot be written, because `reason`.
  [[noreturn]] virtual void refuse(std::string_view reason) const = 0;

  /// Adds a node with one output.
  OnnxValue add(std::string_view type, std::initializer_list<OnnxValue> inputs, const OnnxAttributes& attributes = {});
  /// A constant of int64, (n).
  OnnxValue integers(std::span<const std::int64_t> values);
  OnnxValue integers(std::initializer_list<std::int64_t> values);
  /// A constant of no axes.
  OnnxValue number(const Scalar& value, DType dtype);
  /// `value` in another dtype.
  OnnxValue cast(OnnxValue value, DType dtype);
  /// `value` in another shape, whose extents are numbers.
  OnnxValue reshape(OnnxValue value, std::span<const std::int64_t> shape);

 protected:
  OnnxCall(std::string_view op, std::span<const Tensor> operands, std::span<const Tensor> results)
      : name(op), in(operands), out(results) {}
  ~OnnxCall() = default;
};

/// The axis of `x` with `outer` elements in the axes before it and `inner` in those behind; if several axes of one
/// element fit, the first.
ADJOINT_API std::int64_t axis_between(const Tensor& x, std::int64_t outer, std::int64_t inner);

/// ONNX's number of a dtype (TensorProto.DataType).
ADJOINT_API std::int64_t onnx_type(DType dtype);

}  // namespace adjoint
