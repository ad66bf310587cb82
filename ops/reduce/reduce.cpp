// sum, mean, max, var and argmax.
#include <adjoint/ops/reduce/reduce.h>

#include <adjoint/core/check.h>
#include <adjoint/core/op.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/reduce/kernels.h>

#include <algorithm>
#include <cmath>

namespace adjoint {
namespace {

using Context = Ctx<ReduceAttr>;

bool reduces(const ReduceAttr& attr, std::size_t axis) { return (attr.axes >> axis & 1U) != 0; }

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

Tensor scalar(double value, const Tensor& like) { return Tensor::full(Shape{}, value, like.options()); }

std::int64_t reduced_numel(const ReduceAttr& attr) {
  Shape extents;
  for (std::size_t i = 0; i < attr.from.size(); ++i) {
    if (reduces(attr, i)) extents.push_back(attr.from[i]);
  }
  return extents.numel();
}

// What stands at a reduced axis for its whole length: the result, or its gradient, in the operand's shape.
Tensor spread(const Tensor& reduced, const ReduceAttr& attr) {
  return reduced.reshape(kept_shape(attr, true)).expand(attr.from);
}

TensorSpec sum_spec(Operands in, const ReduceAttr& attr) {
  const DType dtype = in[0].dtype();
  return {kept_shape(attr, attr.keepdim), is_floating_point(dtype) ? dtype : kInt64};
}
TensorSpec max_spec(Operands in, const ReduceAttr& attr) { return {kept_shape(attr, attr.keepdim), in[0].dtype()}; }

Dims axes_of(const ReduceAttr& attr) {
  Dims axes;
  for (std::size_t i = 0; i < attr.from.size(); ++i) {
    if (reduces(attr, i)) axes.push_back(static_cast<std::int64_t>(i));
  }
  return axes;
}

// Every rule computes in float32 where the operand has 16 bits, and rounds its result once. What spreads does so before
// it is rounded, so that the next order's sum is in float32 too.

Tensor mean_gradient(const Context& c) { return spread(widened(c.grad) / c.attr.divisor, c.attr).to(c.grad.dtype()); }

// Equal maxima share the gradient. Where the maximum is NaN nothing equals it, and every element's gradient is NaN.
Tensor max_gradient(const Context& c) {
  const Tensor grad = widened(c.grad);
  const Tensor is_max = c.in[0] == spread(c.out, c.attr);
  const Tensor count = is_max.sum(axes_of(c.attr), c.attr.keepdim).to(grad.dtype());
  const Tensor others = where(c.out == c.out, scalar(0.0, grad), scalar(std::nan(""), grad));
  return where(is_max, spread(grad / count, c.attr), spread(others, c.attr)).to(c.grad.dtype());
}

// The derivative of var, 2 / divisor * g * (x - mean): linear in g, and its own adjoint in x.
Tensor centre(const Tensor& x, const Tensor& g, const ReduceAttr& attr);

Tensor centre_in_gradient(const Context& c) {
  const Tensor x = widened(c.in[0]);
  const Tensor distance = centre(x, Tensor::ones(kept_shape(c.attr, c.attr.keepdim), x.options()), c.attr);
  return (widened(c.grad) * distance).sum(axes_of(c.attr), c.attr.keepdim).to(c.grad.dtype());
}

constinit const OpDef<ReduceAttr> centre_op{
    .name = "var",
    .infer =
        [](Operands in, const ReduceAttr&) {
          return TensorSpec{in[0].shape(), in[0].dtype()};
        },
    .cpu = cpu::centre,
    .cuda = ADJOINT_IF_CUDA(cuda::centre),
    .vjp = {{{.saves = kSaveIn1, .rule = [](const Context& c) { return centre(c.grad, c.in[1], c.attr); }},
             {.saves = kSaveIn0, .rule = centre_in_gradient}}}};

Tensor centre(const Tensor& x, const Tensor& g, const ReduceAttr& attr) { return apply(centre_op, {x, g}, attr); }

constinit const OpDef<ReduceAttr> var_op{.name = "var",
                                         .infer = sum_spec,
                                         .cpu = cpu::var,
                                         .cuda = ADJOINT_IF_CUDA(cuda::var),
                                         .vjp = {{{.saves = kSaveIn0, .rule = [](const Context& c) {
                                                     return centre(c.in[0], c.grad, c.attr);
                                                   }}}}};

constinit const OpDef<ReduceAttr> sum_op{.name = "sum",
                                         .infer = sum_spec,
                                         .cpu = cpu::reduce_sum,
                                         .cuda = ADJOINT_IF_CUDA(cuda::reduce_sum),
                                         .vjp = {{{.rule = [](const Context& c) { return spread(c.grad, c.attr); }}}}};

constinit const OpDef<ReduceAttr> mean_op{.name = "mean",
                                          .infer = sum_spec,
                                          .cpu = cpu::reduce_sum,
                                          .cuda = ADJOINT_IF_CUDA(cuda::reduce_sum),
                                          .vjp = {{{.rule = mean_gradient}}}};

constinit const OpDef<ReduceAttr> max_op{.name = "max",
                                         .infer = max_spec,
                                         .cpu = cpu::reduce_max,
                                         .cuda = ADJOINT_IF_CUDA(cuda::reduce_max),
                                         .vjp = {{{.saves = kSaveIn0 | kSaveOut, .rule = max_gradient}}}};

constinit const OpDef<ArgmaxAttr> argmax_op{.name = "argmax",
                                            .infer =
                                                [](Operands, const ArgmaxAttr& attr) {
                                                  return TensorSpec{attr.result, kInt64};
                                                },
                                            .cpu = cpu::argmax,
                                            .cuda = ADJOINT_IF_CUDA(cuda::argmax)};

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

}  // namespace

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

Tensor Tensor::sum() const { return sum({}); }
Tensor Tensor::mean() const { return mean({}); }
Tensor Tensor::max() const { return max({}); }

Tensor Tensor::sum(const Dims& axes, bool keepdim) const {
  return apply(sum_op, Operands(this, 1), attributes("sum", *this, axes, keepdim));
}

Tensor Tensor::mean(const Dims& axes, bool keepdim) const {
  const OpScope scope("mean");
  ReduceAttr attr = attributes("mean", *this, axes, keepdim);
  check_floating("mean", *this);
  attr.divisor = static_cast<double>(reduced_numel(attr));
  return apply(mean_op, Operands(this, 1), attr);
}

Tensor Tensor::max(const Dims& axes, bool keepdim) const {
  const OpScope scope("max");
  const ReduceAttr attr = attributes("max", *this, axes, keepdim);
  ADJOINT_CHECK(reduced_numel(attr) > 0, "max: there must be elements to compare; got input {}, axes {}", shape(),
                axes);
  return apply(max_op, Operands(this, 1), attr);
}

Tensor var(const Tensor& input, const Dims& axes, std::int64_t correction, bool keepdim) {
  const OpScope scope("var");
  ReduceAttr attr = attributes("var", input, axes, keepdim);
  check_floating("var", input);
  attr.divisor = std::max(0.0, static_cast<double>(reduced_numel(attr)) - static_cast<double>(correction));
  return apply(var_op, Operands(&input, 1), attr);
}

Tensor argmax(const Tensor& input, std::int64_t axis, bool keepdim) {
  const OpScope scope("argmax");
  const ReduceAttr one = attributes("argmax", input, {axis}, keepdim);
  ADJOINT_CHECK(reduced_numel(one) > 0, "argmax: there must be elements to compare; got input {}, axis {}",
                input.shape(), axis);
  const std::size_t at = resolve_axis("argmax", axis, one.from.size());
  const Shape outer(one.from.begin(), one.from.begin() + at), inner(one.from.begin() + at + 1, one.from.end());
  return apply(argmax_op, Operands(&input, 1),
               ArgmaxAttr{outer.numel(), one.from[at], inner.numel(), kept_shape(one, keepdim)});
}

}  // namespace adjoint
