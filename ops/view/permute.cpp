// permute and transpose.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/tensor.h>

#include <utility>

namespace adjoint {
namespace {

struct PermuteAttr {
  Dims axes;  // result axis i is input axis axes[i]
};

Tensor permuted(const Tensor& in, const PermuteAttr& attr) {
  Shape shape;
  Strides strides;
  for (const std::int64_t axis : attr.axes) {
    shape.push_back(in.shape()[static_cast<std::size_t>(axis)]);
    strides.push_back(in.strides()[static_cast<std::size_t>(axis)]);
  }
  return in.view_as(shape, strides, in.storage_offset());
}

Tensor permute_gradient(const Ctx<PermuteAttr>& c) {
  Dims inverse = c.attr.axes;
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    inverse[static_cast<std::size_t>(c.attr.axes[i])] = static_cast<std::int64_t>(i);
  }
  return c.grad.permute(inverse);
}

OnnxValue permute_onnx(OnnxCall& call, const PermuteAttr& attr) {
  return call.add("Transpose", {call.operand(0)}, {{"perm", std::vector(attr.axes.begin(), attr.axes.end())}});
}

constinit const OpDef<PermuteAttr> permute_op{.name = "permute",
                                              .view = permuted,
                                              .onnx = permute_onnx,
                                              .vjp = {{{.rule = permute_gradient}}}};

}  // namespace

Tensor Tensor::permute(const Dims& axes) const {
  check_defined("permute", "input", *this);
  ADJOINT_CHECK(axes.size() == shape().size(),
                "permute: axes must name every axis of the input once; got axes {}, input {}", axes, shape());
  Dims resolved;
  unsigned seen = 0;
  for (const std::int64_t axis : axes) {
    const std::size_t at = resolve_axis("permute", axis, shape().size());
    ADJOINT_CHECK((seen >> at & 1U) == 0, "permute: axes must name every axis of the input once; got axes {}, input {}",
                  axes, shape());
    seen |= 1U << at;
    resolved.push_back(static_cast<std::int64_t>(at));
  }
  return apply(permute_op, Operands(this, 1), {resolved});
}

Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const {
  const OpScope scope("transpose");
  check_defined("transpose", "input", *this);
  const std::size_t first = resolve_axis("transpose", a, shape().size());
  const std::size_t second = resolve_axis("transpose", b, shape().size());
  Dims axes;
  for (std::size_t i = 0; i < shape().size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  std::swap(axes[first], axes[second]);
  return apply(permute_op, Operands(this, 1), {axes});
}

}  // namespace adjoint
