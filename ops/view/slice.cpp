// slice, narrow and select, and their adjoint embed.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>

namespace adjoint {
namespace {

// `length` elements of an axis with `extent`, from `start` on, `step` apart.
struct RangeAttr {
  std::size_t axis;
  std::int64_t start;
  std::int64_t length;
  std::int64_t extent;
  std::int64_t step = 1;
};

Tensor range_view(const Tensor& in, const RangeAttr& attr) {
  Shape shape = in.shape();
  Strides strides = in.strides();
  shape[attr.axis] = attr.length;
  if (attr.step != 1) strides[attr.axis] *= attr.step;
  return in.view_as(shape, strides, in.storage_offset() + attr.start * in.strides()[attr.axis]);
}

Tensor select_view(const Tensor& in, const RangeAttr& attr) {
  Shape shape = in.shape();
  Strides strides = in.strides();
  shape.erase(attr.axis);
  strides.erase(attr.axis);
  return in.view_as(shape, strides, in.storage_offset() + attr.start * in.strides()[attr.axis]);
}

void embed_kernel(Operands in, Tensor& out, const RangeAttr& attr) {
  out.zero_();
  Tensor inside = range_view(out, attr);
  copy_into(in[0], inside);
}

Tensor embed_gradient(const Ctx<RangeAttr>& c) {
  return embed(c.grad, static_cast<std::int64_t>(c.attr.axis), c.attr.start, c.attr.extent, c.attr.step);
}

OnnxValue range_onnx(OnnxCall& call, const RangeAttr& attr) {
  const std::int64_t end = std::min(attr.extent, attr.start + attr.length * attr.step);
  return call.add("Slice", {call.operand(0), call.integers({attr.start}), call.integers({end}),
                            call.integers({static_cast<std::int64_t>(attr.axis)}), call.integers({attr.step})});
}
OnnxValue select_onnx(OnnxCall& call, const RangeAttr& attr) {
  return call.add("Squeeze", {range_onnx(call, {attr.axis, attr.start, 1, attr.extent}),
                              call.integers({static_cast<std::int64_t>(attr.axis)})});
}
// Zeros between elements: (..., n, ...) -> (..., n, 1, ...) -> (..., n, step, ...) -> (..., n step, ...).
OnnxValue embed_onnx(OnnxCall& call, const RangeAttr& attr) {
  const auto axis = static_cast<std::int64_t>(attr.axis);
  const auto pad = [&](OnnxValue x, std::size_t rank, std::size_t at, std::int64_t before, std::int64_t after) {
    std::vector<std::int64_t> pads(2 * rank);
    pads[at] = before;
    pads[rank + at] = after;
    return call.add("Pad", {x, call.integers(pads)});
  };
  const std::size_t rank = call.in[0].shape().size();
  OnnxValue x = call.operand(0);
  std::int64_t length = attr.length;
  if (attr.step != 1 && length > 1) {
    x = pad(call.add("Unsqueeze", {x, call.integers({axis + 1})}), rank + 1, attr.axis + 1, 0, attr.step - 1);
    Shape shape = call.in[0].shape();
    shape[attr.axis] = length * attr.step;
    x = call.reshape(x, shape);
    length = (length - 1) * attr.step + 1;
    x = call.add("Slice", {x, call.integers({0}), call.integers({length}), call.integers({axis})});
  }
  return pad(x, rank, attr.axis, attr.start, attr.extent - attr.start - length);
}

constinit const OpDef<RangeAttr> narrow_op{.name = "narrow",
                                           .view = range_view,
                                           .onnx = range_onnx,
                                           .vjp = {{{.rule = embed_gradient}}}};
constinit const OpDef<RangeAttr> slice_op{.name = "slice",
                                          .view = range_view,
                                          .onnx = range_onnx,
                                          .vjp = {{{.rule = embed_gradient}}}};

constinit const OpDef<RangeAttr> select_op{.name = "select",
                                           .view = select_view,
                                           .onnx = select_onnx,
                                           .vjp = {{{.rule = [](const Ctx<RangeAttr>& c) {
                                             const auto axis = static_cast<std::int64_t>(c.attr.axis);
                                             return embed(c.grad.unsqueeze(axis), axis, c.attr.start, c.attr.extent);
                                           }}}}};

constinit const OpDef<RangeAttr> embed_op{.name = "embed",
                                          .infer =
                                              [](Operands in, const RangeAttr& attr) {
                                                Shape shape = in[0].shape();
                                                shape[attr.axis] = attr.extent;
                                                return TensorSpec{shape, in[0].dtype()};
                                              },
                                          .cpu = embed_kernel,
                                          .cuda = ADJOINT_IF_CUDA(embed_kernel),
                                          .strided = true,
                                          .onnx = embed_onnx,
                                          .vjp = {{{.rule = [](const Ctx<RangeAttr>& c) {
                                            return apply(slice_op, {c.grad}, c.attr);
                                          }}}}};

}  // namespace

Tensor Tensor::narrow(std::int64_t axis, std::int64_t start, std::int64_t length) const {
  check_defined("narrow", "input", *this);
  const std::size_t at = resolve_axis("narrow", axis, shape().size());
  const std::int64_t extent = shape()[at];
  ADJOINT_CHECK(start >= 0 && length >= 0 && start <= extent && length <= extent - start,
                "narrow: the range must lie inside the axis; got start {}, length {} on axis {} of input {}", start,
                length, axis, shape());
  return apply(narrow_op, Operands(this, 1), {at, start, length, extent});
}

Tensor Tensor::select(std::int64_t axis, std::int64_t index) const {
  check_defined("select", "input", *this);
  const std::size_t at = resolve_axis("select", axis, shape().size());
  const std::int64_t extent = shape()[at];
  ADJOINT_CHECK(index >= -extent && index < extent,
                "select: the index must lie in [-{}, {}); got {} on axis {} of input {}", extent, extent, index, axis,
                shape());
  return apply(select_op, Operands(this, 1), {at, index < 0 ? index + extent : index, 1, extent});
}

Tensor slice(const Tensor& x, std::int64_t axis, std::optional<std::int64_t> start, std::optional<std::int64_t> end,
             std::int64_t step) {
  check_defined("slice", "x", x);
  const std::size_t at = resolve_axis("slice", axis, x.shape().size());
  ADJOINT_CHECK(step >= 1, "slice: step must be at least 1; got {} on axis {} of x {}; use flip to go backwards", step,
                axis, x.shape());
  const std::int64_t extent = x.shape()[at];
  const auto place = [extent](std::int64_t i) {
    return i < 0 ? std::max<std::int64_t>(i + extent, 0) : std::min(i, extent);
  };
  const std::int64_t first = place(start.value_or(0));
  const std::int64_t span = std::max<std::int64_t>(place(end.value_or(extent)) - first, 0);
  if (span == extent && step == 1) return x;
  const std::int64_t length = span == 0 ? 0 : (span - 1) / step + 1;
  return apply(slice_op, {x}, {at, first, length, extent, length < 2 ? 1 : step});
}

Tensor embed(const Tensor& input, std::int64_t axis, std::int64_t start, std::int64_t extent, std::int64_t step) {
  check_defined("embed", "input", input);
  const std::size_t at = resolve_axis("embed", axis, input.shape().size());
  const std::int64_t length = input.shape()[at];
  ADJOINT_CHECK(step >= 1, "embed: step must be at least 1; got {} for axis {} of input {}", step, axis, input.shape());
  std::int64_t reach = 0;  // from the first place to the last
  const bool fits = length == 0 || (!__builtin_mul_overflow(length - 1, step, &reach) && reach < extent);
  ADJOINT_CHECK(
      fits && start >= 0 && extent >= 0 && start <= (length == 0 ? extent : extent - 1 - reach),
      "embed: the input must fit inside the extent; got start {}, extent {} for axis {} of input {}, {} apart", start,
      extent, axis, input.shape(), step);
  return apply(embed_op, Operands(&input, 1), {at, start, length, extent, step});
}

}  // namespace adjoint
