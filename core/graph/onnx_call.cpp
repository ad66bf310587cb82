#include <adjoint/core/graph/onnx_call.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/factories.h>

#include <algorithm>

namespace adjoint {

OnnxValue OnnxCall::add(std::string_view type, std::initializer_list<OnnxValue> inputs,
                        const OnnxAttributes& attributes) {
  return add_node(type, inputs, attributes, 1).front();
}

OnnxValue OnnxCall::integers(std::span<const std::int64_t> values) {
  return constant(
      Tensor::from_vector(std::vector(values.begin(), values.end()), {static_cast<std::int64_t>(values.size())}));
}
OnnxValue OnnxCall::integers(std::initializer_list<std::int64_t> values) {
  return integers(std::span(values.begin(), values.size()));
}

OnnxValue OnnxCall::number(const Scalar& value, DType dtype) {
  return constant(Tensor::full({}, value, {.dtype = dtype}));
}

OnnxValue OnnxCall::cast(OnnxValue value, DType dtype) { return add("Cast", {value}, {{"to", onnx_type(dtype)}}); }

OnnxValue OnnxCall::reshape(OnnxValue value, std::span<const std::int64_t> shape) {
  // Without allowzero, 0 copies the operand's extent.
  const bool has_zero = std::find(shape.begin(), shape.end(), 0) != shape.end();
  return add("Reshape", {value, integers(shape)}, has_zero ? OnnxAttributes{{"allowzero", true}} : OnnxAttributes{});
}

std::int64_t axis_between(const Tensor& x, std::int64_t outer, std::int64_t inner) {
  const Shape& shape = x.shape();
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const Shape before(shape.begin(), shape.begin() + axis), behind(shape.begin() + axis + 1, shape.end());
    if (before.numel() == outer && behind.numel() == inner) return static_cast<std::int64_t>(axis);
  }
  return 0;
}

std::int64_t onnx_type(DType dtype) {
  switch (dtype) {
    case kFloat32: return 1;
    case kUInt8: return 2;
    case kInt32: return 6;
    case kInt64: return 7;
    case kBool: return 9;
    case kFloat16: return 10;
    case kFloat64: return 11;
    case kBFloat16: return 16;
  }
  fail("onnx_type: the dtype must be an enumerator; got {}", static_cast<int>(dtype));
}

}  // namespace adjoint
