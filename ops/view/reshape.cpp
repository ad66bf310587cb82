// reshape, flatten, squeeze, unsqueeze: one view operator between two shapes with the same number of elements.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/tensor.h>

#include <optional>

namespace adjoint {
namespace {

struct ReshapeAttr {
  Shape from;
  Shape to;
  Strides strides;  // the result's
};

constinit const OpDef<ReshapeAttr> reshape_op{
    .name = "reshape",
    .view = [](const Tensor& in,
               const ReshapeAttr& attr) { return in.view_as(attr.to, attr.strides, in.storage_offset()); },
    .onnx = [](OnnxCall& call, const ReshapeAttr& attr) { return call.reshape(call.operand(0), attr.to); },
    .vjp = {{{.rule = [](const Ctx<ReshapeAttr>& c) { return c.grad.reshape(c.attr.from); }}}}};

// Fills in the extent given as -1 and checks the number of elements.
Shape resolve_shape(const Tensor& input, const Shape& requested) {
  Shape shape = requested;
  std::int64_t known = 1;
  std::optional<std::size_t> inferred;
  bool overflow = false, zero = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    ADJOINT_CHECK(shape[i] >= -1, "reshape: extents must be at least 0, or -1 for the one to infer; got {}", requested);
    if (shape[i] == -1) {
      ADJOINT_CHECK(!inferred, "reshape: at most one extent may be -1; got {}; give all but one of them", requested);
      inferred = i;
    } else {
      zero |= shape[i] == 0;
      overflow |= __builtin_mul_overflow(known, shape[i], &known);
    }
  }
  if (zero) {
    known = 0;
    overflow = false;
  }
  const std::int64_t numel = input.numel();
  if (inferred) {
    ADJOINT_CHECK(
        overflow || known != 0,
        "reshape: -1 is ambiguous if the other extents have no elements; got input {}, shape {}; give every extent",
        input.shape(), requested);
    ADJOINT_CHECK(
        !overflow && numel % known == 0,
        "reshape: the number of elements must stay the same; got input {} of {} elements, shape {}, whose known "
        "extents do not divide that",
        input.shape(), numel, requested);
    shape[*inferred] = numel / known;
  } else {
    ADJOINT_CHECK(!overflow && known == numel,
                  "reshape: the number of elements must stay the same; got input {} of {} elements, shape {}",
                  input.shape(), numel, requested);
  }
  return shape;
}

// The strides that show `from` (with `strides`, and at least one element) as `to`, with the same number of elements, or
// nothing if there are no such strides. Both shapes are split into the shortest groups of axes with equal products;
// each group of `from` must be evenly spaced.
std::optional<Strides> view_strides(const Shape& from, const Strides& strides, const Shape& to) {
  Strides result = Strides::filled(to.size(), 1);
  std::size_t i = 0;
  std::size_t j = 0;
  while (j < to.size()) {
    if (to[j] == 1) {
      ++j;
      continue;
    }
    while (from[i] == 1) ++i;
    const std::size_t first_to = j;
    std::int64_t spacing = strides[i];  // of the group's last axis so far
    std::int64_t from_product = from[i++];
    std::int64_t to_product = to[j++];
    while (from_product != to_product) {
      if (to_product < from_product) {
        to_product *= to[j++];
        continue;
      }
      if (from[i] != 1) {
        if (spacing != strides[i] * from[i]) return std::nullopt;
        spacing = strides[i];
      }
      from_product *= from[i++];
    }
    for (std::size_t k = j; k-- > first_to;) {
      result[k] = spacing;
      spacing *= to[k];
    }
  }
  return result;
}

// Undefined if no strides show the input in that shape.
Tensor viewed(const Tensor& input, const Shape& shape) {
  if (shape == input.shape()) return input;
  const std::optional<Strides> strides = input.is_contiguous() || input.numel() == 0
                                             ? contiguous_strides(shape)
                                             : view_strides(input.shape(), input.strides(), shape);
  return strides ? apply(reshape_op, Operands(&input, 1), {input.shape(), shape, *strides}) : Tensor();
}
Tensor reshaped(const Tensor& input, const Shape& shape) {
  const Tensor result = viewed(input, shape);
  return result.defined() ? result : viewed(input.contiguous(), shape);
}

}  // namespace

Tensor Tensor::reshape(const Shape& shape) const {
  const OpScope scope("reshape");
  check_defined("reshape", "input", *this);
  return reshaped(*this, resolve_shape(*this, shape));
}

Tensor Tensor::view(const Shape& shape) const {
  const OpScope scope("view");
  check_defined("view", "input", *this);
  const Tensor result = viewed(*this, resolve_shape(*this, shape));
  ADJOINT_CHECK(result.defined(), "view: strides must allow a view; got input {} of strides {}, shape {}; call reshape",
                this->shape(), strides(), shape);
  return result;
}

Tensor Tensor::t() const {
  const OpScope scope("t");
  check_defined("t", "input", *this);
  ADJOINT_CHECK(dim() <= 2, "t: a tensor of at most two axes is needed; got {}; name the axes to transpose()",
                this->shape());
  return dim() < 2 ? *this : transpose(0, 1);
}

Tensor Tensor::flatten(std::int64_t first_axis, std::int64_t last_axis) const {
  const OpScope scope("flatten");
  check_defined("flatten", "input", *this);
  if (dim() == 0) {
    resolve_axis("flatten", first_axis, 1);
    resolve_axis("flatten", last_axis, 1);
    return reshaped(*this, Shape{1});
  }
  const std::size_t first = resolve_axis("flatten", first_axis, shape().size());
  const std::size_t last = resolve_axis("flatten", last_axis, shape().size());
  ADJOINT_CHECK(first <= last, "flatten: the first axis must not come after the last; got {} and {} of input {}",
                first_axis, last_axis, this->shape());
  const std::int64_t* extents = shape().begin();
  Shape flat(extents, extents + first);
  flat.push_back(Shape(extents + first, extents + last + 1).numel());
  for (std::size_t i = last + 1; i < shape().size(); ++i) flat.push_back(extents[i]);
  return reshaped(*this, flat);
}

Tensor Tensor::squeeze() const {
  const OpScope scope("squeeze");
  check_defined("squeeze", "input", *this);
  Shape kept;
  for (const std::int64_t extent : shape()) {
    if (extent != 1) kept.push_back(extent);
  }
  return reshaped(*this, kept);
}

Tensor Tensor::squeeze(std::int64_t axis) const {
  const OpScope scope("squeeze");
  check_defined("squeeze", "input", *this);
  const std::size_t at = resolve_axis("squeeze", axis, shape().size());
  if (shape()[at] != 1) return *this;
  Shape kept = shape();
  kept.erase(at);
  return reshaped(*this, kept);
}

Tensor Tensor::unsqueeze(std::int64_t axis) const {
  const OpScope scope("unsqueeze");
  check_defined("unsqueeze", "input", *this);
  ADJOINT_CHECK(shape().size() < kMaxRank, "unsqueeze: a tensor has at most {} axes; got input {}", kMaxRank, shape());
  Shape longer = shape();
  longer.insert(resolve_axis("unsqueeze", axis, shape().size() + 1), 1);
  return reshaped(*this, longer);
}

}  // namespace adjoint
