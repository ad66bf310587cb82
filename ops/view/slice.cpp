// narrow and select, and embed, which is their adjoint.
#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/op.h>
#include <adjoint/core/tensor.h>
#include <adjoint/ops/view/view.h>

namespace adjoint {
namespace {

// [start, start + length) of an axis that has `extent` elements.
struct RangeAttr {
  std::size_t axis;
  std::int64_t start;
  std::int64_t length;
  std::int64_t extent;
};

Tensor range_view(const Tensor& in, const RangeAttr& attr) {
  Shape shape = in.shape();
  shape[attr.axis] = attr.length;
  return in.view_as(shape, in.strides(), in.storage_offset() + attr.start * in.strides()[attr.axis]);
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

constinit const OpDef<RangeAttr> narrow_op{.name = "narrow",
                                           .view = range_view,
                                           .vjp = {{{.rule = [](const Ctx<RangeAttr>& c) {
                                             return embed(c.grad, static_cast<std::int64_t>(c.attr.axis), c.attr.start,
                                                          c.attr.extent);
                                           }}}}};

constinit const OpDef<RangeAttr> select_op{.name = "select",
                                           .view = select_view,
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
                                          .vjp = {{{.rule = [](const Ctx<RangeAttr>& c) {
                                            return c.grad.narrow(static_cast<std::int64_t>(c.attr.axis), c.attr.start,
                                                                 c.attr.length);
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

Tensor embed(const Tensor& input, std::int64_t axis, std::int64_t start, std::int64_t extent) {
  check_defined("embed", "input", input);
  const std::size_t at = resolve_axis("embed", axis, input.shape().size());
  const std::int64_t length = input.shape()[at];
  ADJOINT_CHECK(start >= 0 && extent >= length && start <= extent - length,
                "embed: the input must fit inside the extent; got start {}, extent {} for axis {} of input {}", start,
                extent, axis, input.shape());
  return apply(embed_op, Operands(&input, 1), {at, start, length, extent});
}

}  // namespace adjoint
