#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/fill.h>
#include <adjoint/core/op.h>
#include <adjoint/core/scalar.h>
#include <adjoint/ops/join/join.h>

#include <algorithm>

namespace adjoint {
namespace {

// One amount an axis, none negative.
struct PadAttr {
  Dims before, after;
  double value;
};

Tensor part_of(const Tensor& whole, std::size_t axis, std::int64_t begin, std::int64_t length) {
  Shape shape = whole.shape();
  shape[axis] = length;
  return whole.view_as(shape, whole.strides(), whole.storage_offset() + begin * whole.strides()[axis]);
}

TensorSpec pad_spec(Operands in, const PadAttr& attr) {
  Shape shape = in[0].shape();
  for (std::size_t axis = 0; axis < shape.size(); ++axis) shape[axis] += attr.before[axis] + attr.after[axis];
  return {shape, in[0].dtype()};
}

// For either device. Each axis's slabs lie inside those of the axes before it: every element is written once.
void pad_kernel(Operands in, Tensor& out, const PadAttr& attr) {
  Tensor inside = out;
  for (std::size_t axis = 0; axis < out.shape().size(); ++axis) {
    const std::int64_t before = attr.before[axis], after = attr.after[axis], length = in[0].shape()[axis];
    Tensor first = part_of(inside, axis, 0, before), last = part_of(inside, axis, before + length, after);
    fill(first, attr.value);
    fill(last, attr.value);
    inside = part_of(inside, axis, before, length);
  }
  copy_into(in[0], inside);
}

Tensor unpad(const Tensor& grad, const PadAttr& attr) {
  Tensor result = grad;
  for (std::size_t axis = 0; axis < attr.before.size(); ++axis) {
    const std::int64_t before = attr.before[axis], after = attr.after[axis];
    if (before + after == 0) continue;
    const auto signed_axis = static_cast<std::int64_t>(axis);
    result = result.narrow(signed_axis, before, result.size(signed_axis) - before - after);
  }
  return result;
}

constinit const OpDef<PadAttr> pad_op{.name = "pad",
                                      .infer = pad_spec,
                                      .cpu = pad_kernel,
                                      .cuda = ADJOINT_IF_CUDA(pad_kernel),
                                      .strided = true,
                                      .vjp = {Vjp<PadAttr>{kSaveNone, [](const Ctx<PadAttr>& c) {
                                                             return unpad(c.grad, c.attr);
                                                           }}}};

void check_padding(const Tensor& x, const std::vector<std::int64_t>& padding) {
  check_defined("pad", "x", x);
  ADJOINT_CHECK(
      padding.size() % 2 == 0 && padding.size() / 2 <= x.shape().size(),
      "pad: padding must hold a (before, after) pair for each of x's axes at most, the last axis first; got {} "
      "numbers for x {}; write {{left, right, top, bottom}}",
      padding.size(), x.shape());
  for (std::size_t pair = 0; pair < padding.size() / 2; ++pair) {
    const std::int64_t before = padding[2 * pair], after = padding[2 * pair + 1];
    const std::int64_t extent = x.shape()[x.shape().size() - 1 - pair];
    const bool cuts_fit = before >= -extent && after >= -extent &&
                          extent + std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0) >= 0;
    ADJOINT_CHECK(cuts_fit, "pad: cuts must leave an extent of 0 at least; got ({}, {}) for axis {} of x {}; cut less",
                  before, after, x.shape().size() - 1 - pair, x.shape());
    std::int64_t padded = 0;
    const bool overflows =
        __builtin_add_overflow(extent, before, &padded) || __builtin_add_overflow(padded, after, &padded);
    ADJOINT_CHECK(!overflows,
                  "pad: the result's extents must fit in 63 bits; got ({}, {}) for axis {} of x {}; pad less", before,
                  after, x.shape().size() - 1 - pair, x.shape());
  }
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, double value) {
  const OpScope scope("pad");
  check_padding(x, padding);
  const double fitting = fit_scalar("pad", value, x.dtype(), x.shape());
  PadAttr attr{Dims::filled(x.shape().size(), 0), Dims::filled(x.shape().size(), 0), fitting};
  Tensor result = x;
  bool grows = padding.empty();
  for (std::size_t pair = 0; pair < padding.size() / 2; ++pair) {
    const std::size_t axis = x.shape().size() - 1 - pair;
    const std::int64_t before = padding[2 * pair], after = padding[2 * pair + 1];
    const std::int64_t cut_before = std::max<std::int64_t>(-before, 0), cut_after = std::max<std::int64_t>(-after, 0);
    if (cut_before + cut_after > 0) {
      result = result.narrow(static_cast<std::int64_t>(axis), cut_before, x.shape()[axis] - cut_before - cut_after);
    }
    attr.before[axis] = std::max<std::int64_t>(before, 0);
    attr.after[axis] = std::max<std::int64_t>(after, 0);
    grows |= attr.before[axis] + attr.after[axis] > 0;
  }
  // Cuts alone are a view already; the result of pad is a tensor of its own, as PyTorch's is.
  return grows ? apply(pad_op, {result}, attr) : result.clone();
}

}  // namespace adjoint
