// Axes, shapes and checks that reductions share.
#include <adjoint/ops/reduce/define.h>

#include <adjoint/core/base/check.h>

#include <limits>

namespace adjoint {
namespace reducing {

Shape kept_shape(const ReduceAttr& attr, bool keepdim) {
  Shape shape;
  for (std::size_t i = 0; i < attr.from.size(); ++i) {
    if (!reduces(attr, i)) {
      shape.push_back(attr.from[i]);
    } else if (keepdim) {
      shape.push_back(1);
    }
  }
  return shape;
}

std::int64_t reduced_numel(const ReduceAttr& attr) {
  Shape extents;
  for (std::size_t i = 0; i < attr.from.size(); ++i) {
    if (reduces(attr, i)) extents.push_back(attr.from[i]);
  }
  return extents.numel();
}

ReduceAttr in_memory_order(const ReduceAttr& attr) {
  const std::size_t rank = attr.from.size();
  ReduceAttr own = attr;
  own.axes = 0;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::size_t at = memory_axis(axis, rank);
    own.from[at] = attr.from[axis];
    if (reduces(attr, axis)) own.axes |= 1U << at;
  }
  return own;
}

Tensor in_logical_order(const Tensor& result, const ReduceAttr& attr) {
  if (attr.keepdim) return from_memory_order(result);
  if (reduces(attr, 1)) return result;
  // The channels are the last of the axes that are left; they belong behind the samples.
  Dims order;
  if (!reduces(attr, 0)) order.push_back(0);
  order.push_back(result.dim() - 1);
  while (order.size() < result.shape().size()) order.push_back(static_cast<std::int64_t>(order.size()) - 1);
  return result.permute(order);
}

Tensor spread(const Tensor& reduced, const ReduceAttr& attr) {
  return reduced.reshape(kept_shape(attr, true)).expand(attr.from);
}

Dims axes_of(const ReduceAttr& attr) {
  Dims axes;
  for (std::size_t i = 0; i < attr.from.size(); ++i) {
    if (reduces(attr, i)) axes.push_back(static_cast<std::int64_t>(i));
  }
  return axes;
}

OnnxValue reduced_onnx(OnnxCall& call, std::string_view kind, OnnxValue x, const ReduceAttr& attr) {
  if (kind == "Mean" && reduced_numel(attr) == 0) {  // ONNX Runtime's is 0
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    return call.constant(Tensor::full(result_shape(attr), kNaN, {.dtype = call.in[0].dtype()}));
  }
  const Dims axes = axes_of(attr);
  const std::string type = fmt::format("Reduce{}", kind);
  OnnxAttributes attributes{{"keepdims", attr.keepdim}};
  if (axes.size() == attr.from.size()) return call.add(type, {x}, attributes);  // all of them
  const std::vector<std::int64_t> numbers(axes.begin(), axes.end());
  if (kind == "Sum") return call.add(type, {x, call.integers(numbers)}, attributes);
  attributes.emplace_back("axes", numbers);
  return call.add(type, {x}, attributes);
}

OnnxValue summand_onnx(OnnxCall& call) {
  const DType dtype = call.in[0].dtype();
  return is_floating_point(dtype) || dtype == kInt64 ? call.operand(0) : call.cast(call.operand(0), kInt64);
}

ReduceAttr attributes(const char* op, const Tensor& input, const Dims& axes, bool keepdim) {
  check_defined(op, "input", input);
  ReduceAttr attr{input.shape(), 0, keepdim, 1.0};
  if (axes.empty()) attr.axes = (1U << input.shape().size()) - 1U;
  for (const std::int64_t axis : axes) {
    const std::uint32_t bit = 1U << resolve_axis(op, axis, input.shape().size());
    ADJOINT_CHECK((attr.axes & bit) == 0, "{}: axes must differ; got axes {} of input {}", op, axes, input.shape());
    attr.axes |= bit;
  }
  return attr;
}

void check_floating(const char* op, const Tensor& input) {
  ADJOINT_CHECK(is_floating_point(input.dtype()),
                "{}: the dtype must be floating point; got {} {}; convert with to(kFloat32)", op, input.dtype(),
                input.shape());
}

void check_elements(const char* op, const ReduceAttr& attr, const Dims& axes) {
  ADJOINT_CHECK(reduced_numel(attr) > 0, "{}: there must be elements to compare; got input {}, axes {}", op, attr.from,
                axes);
}

}  // namespace reducing

using reducing::kept_shape, reducing::reduces;

std::int64_t result_numel(const ReduceAttr& attr) { return kept_shape(attr, false).numel(); }

Tensor spread_field(const Tensor& tensor, const ReduceAttr& attr, std::int64_t fields, std::int64_t field) {
  Strides strides = Dims::filled(attr.from.size(), 0);
  std::int64_t stride = fields;
  for (std::size_t i = attr.from.size(); i-- > 0;) {
    if (reduces(attr, i)) continue;
    strides[i] = stride;
    stride *= attr.from[i];
  }
  return tensor.view_as(attr.from, strides, tensor.storage_offset() + field);
}

}  // namespace adjoint
