// expand, and its adjoint sum_to.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/view/view.h>

namespace adjoint {
namespace {

struct ExpandAttr {
  Shape from;
  Shape to;
};

Tensor expanded(const Tensor& in, const ExpandAttr& attr) {
  const std::size_t added = attr.to.size() - attr.from.size();
  Strides strides = Strides::filled(attr.to.size(), 0);
  for (std::size_t i = added; i < attr.to.size(); ++i) {
    if (attr.to[i] == attr.from[i - added]) strides[i] = in.strides()[i - added];
  }
  return in.view_as(attr.to, strides, in.storage_offset());
}

// ONNX broadcasts in both directions: 1 keeps an extent.
OnnxValue expand_onnx(OnnxCall& call, const ExpandAttr& attr) {
  std::vector<std::int64_t> shape(attr.to.begin(), attr.to.end());
  const std::size_t added = attr.to.size() - attr.from.size();
  for (std::size_t i = added; i < shape.size(); ++i) {
    if (shape[i] == attr.from[i - added]) shape[i] = 1;
  }
  return call.add("Expand", {call.operand(0), call.integers(shape)});
}

constinit const OpDef<ExpandAttr> expand_op{.name = "expand",
                                            .view = expanded,
                                            .onnx = expand_onnx,
                                            .vjp = {{{.rule = [](const Ctx<ExpandAttr>& c) {
                                              return sum_to(c.grad, c.attr.from);
                                            }}}}};

}  // namespace

Tensor Tensor::expand(const Shape& shape) const {
  const OpScope scope("expand");
  check_defined("expand", "input", *this);
  const Shape& from = this->shape();
  ADJOINT_CHECK(shape.size() >= from.size(),
                "expand: the shape must have at least the input's axes; got input {}, shape {}", from, shape);
  const std::size_t added = shape.size() - from.size();
  Shape to = shape;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (i >= added && to[i] == -1) to[i] = from[i - added];
    ADJOINT_CHECK(to[i] >= 0,
                  "expand: extents must be at least 0, or -1 to keep one of the input's; got input {}, shape {}", from,
                  shape);
    ADJOINT_CHECK(i < added || to[i] == from[i - added] || from[i - added] == 1,
                  "expand: only axes of extent 1 can be repeated; got input {}, shape {}", from, shape);
  }
  if (to == from) return *this;
  return apply(expand_op, Operands(this, 1), {from, to});
}

Tensor sum_to(const Tensor& input, const Shape& shape) {
  const OpScope scope("sum_to");
  check_defined("sum_to", "input", input);
  const Shape& from = input.shape();
  if (shape == from) return input;
  bool fits = shape.size() <= from.size();
  const std::size_t added = fits ? from.size() - shape.size() : 0;
  Dims axes;
  for (std::size_t i = 0; fits && i < from.size(); ++i) {
    if (i < added || (shape[i - added] == 1 && from[i] != 1)) {
      axes.push_back(static_cast<std::int64_t>(i));
    } else {
      fits = shape[i - added] == from[i];
    }
  }
  ADJOINT_CHECK(fits, "sum_to: the shape must broadcast to the input's; got input {}, shape {}", from, shape);
  // If all added leading axes have extent 1, nothing is summed and they are only dropped.
  const Tensor sums = axes.empty() ? input : input.sum(axes, /*keepdim=*/true);
  return sums.reshape(shape);
}

}  // namespace adjoint
