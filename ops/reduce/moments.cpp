// var and std, alone and with the mean.
#include <adjoint/ops/reduce/reduce.h>

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/reduce/define.h>

#include <algorithm>

namespace adjoint {
namespace {

using namespace reducing;
using Context = Ctx<ReduceAttr>;

// The derivative of var, 2 / divisor * g * (x - mean): linear in g, and its own adjoint in x.
Tensor centre(const Tensor& x, const Tensor& g, const ReduceAttr& attr);

Tensor centre_in_gradient(const Context& c) {
  const Tensor x = widened(c.in[0]);
  const Tensor distance = centre(x, Tensor::ones(result_shape(c.attr), x.options()), c.attr);
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

// For widened operands: the variance's gradient from its root's, or 0 where the root is 0.
Tensor variance_gradient(const Tensor& g, const Tensor& deviation) {
  const Tensor nothing = deviation == 0.0;
  return masked_fill(g / 2.0 / masked_fill(deviation, nothing, 1.0), nothing, 0.0);
}

// The variance, or its root, and the mean. The graph computes the divisor, because extents may change.
OnnxValue variance_onnx(OnnxCall& call, const VarianceAttr& attr) {
  const ReduceAttr& reduce = attr.reduce;
  const OnnxValue x = call.operand(0);
  ReduceAttr kept = reduce;
  kept.keepdim = true;
  const OnnxValue mean = reduced_onnx(call, "Mean", x, kept);
  const OnnxValue distance = call.add("Sub", {x, mean}), square = call.add("Mul", {distance, distance});
  const std::int64_t correction = reduced_numel(reduce) - static_cast<std::int64_t>(reduce.divisor);
  OnnxValue variance;
  if (correction == 0) {
    variance = reduced_onnx(call, "Mean", square, reduce);
  } else {
    std::vector<std::int64_t> extents;
    for (const std::int64_t axis : axes_of(reduce)) extents.push_back(reduce.from[static_cast<std::size_t>(axis)]);
    const OnnxValue count = call.add("ReduceProd", {call.integers(extents)}, {{"keepdims", false}});
    const OnnxValue divisor = call.add("Sub", {count, call.number(correction, kInt64)});
    const OnnxValue sum = reduced_onnx(call, "Sum", square, reduce);
    variance = call.add("Div", {sum, call.cast(divisor, call.in[0].dtype())});
  }
  if (call.out.size() == 2) {
    const Dims axes = axes_of(reduce);
    call.set_result(1, reduce.keepdim || axes.empty() ? mean : call.add("Squeeze", {mean, call.integers(axes)}));
  }
  return attr.root ? call.add("Sqrt", {variance}) : variance;
}

constexpr OpDef<VarianceAttr> variance_op(const char* name, Vjp<VarianceAttr> rule) {
  return {.name = name,
          .infer =
              [](Operands in, const VarianceAttr& attr) {
                return TensorSpec{result_shape(attr.reduce), in[0].dtype()};
              },
          .cpu = cpu::variance,
          .cuda = ADJOINT_IF_CUDA(cuda::variance),
          .onnx = variance_onnx,
          .vjp = {{rule}}};
}

extern constinit const OpDef<VarianceAttr> std_op;

Tensor gradient(const Ctx<VarianceAttr>& c) {
  if (!c.attr.root) return centre(c.in[0], c.grad, c.attr.reduce);
  const Tensor of_variance = variance_gradient(widened(c.grad), unrounded(std_op, c));
  return centre(widened(c.in[0]), of_variance, c.attr.reduce).to(c.in[0].dtype());
}

constinit const OpDef<VarianceAttr> var_op = variance_op("var", {.saves = kSaveIn0, .rule = gradient});
constinit const OpDef<VarianceAttr> std_op = variance_op("std", {.saves = kSaveIn0 | kSaveOut, .rule = gradient});

Specs two_specs(Operands in, const VarianceAttr& attr) {
  Specs specs;
  specs.results = 2;
  specs.specs[0] = specs.specs[1] = {result_shape(attr.reduce), in[0].dtype()};
  return specs;
}

void two_gradients(const Ctx<VarianceAttr>& c, Needs, Results grads) {
  const ReduceAttr& attr = c.attr.reduce;
  const Tensor x = widened(c.in[0]);
  Tensor sum;
  if (c.grads[0].defined()) {
    const Tensor g = widened(c.grads[0]);
    sum = centre(x, c.attr.root ? variance_gradient(g, unrounded(std_op, c)) : g, attr);
  }
  if (c.grads[1].defined()) {
    const Tensor of_mean = spread(widened(c.grads[1]) / static_cast<double>(reduced_numel(attr)), attr);
    sum = sum.defined() ? sum + of_mean : of_mean;
  }
  if (sum.defined()) grads[0] = sum.to(c.in[0].dtype());
}

constexpr OpDef<VarianceAttr> two_op(const char* name) {
  return {.name = name,
          .infer = two_specs,
          .cpu = cpu::mean_and_variance,
          .cuda = ADJOINT_IF_CUDA(cuda::mean_and_variance),
          .onnx = variance_onnx,
          .joint_vjp = {.saves = [](const VarianceAttr& attr,
                                    Needs) { return attr.root ? kSaveIn0 | kSaveOut : kSaveIn0; },
                        .rule = two_gradients}};
}
constinit const OpDef<VarianceAttr> var_mean_op = two_op("var_mean"), std_mean_op = two_op("std_mean");

VarianceAttr variance_attributes(const char* op, const Tensor& input, const Dims& axes, std::int64_t correction,
                                 bool keepdim, bool root) {
  VarianceAttr attr{attributes(op, input, axes, keepdim), root};
  check_floating(op, input);
  attr.reduce.divisor =
      std::max(0.0, static_cast<double>(reduced_numel(attr.reduce)) - static_cast<double>(correction));
  return attr;
}

Tensor variance(const OpDef<VarianceAttr>& op, const Tensor& input, const Dims& axes, std::int64_t correction,
                bool keepdim, bool root) {
  const OpScope scope(op.name);
  return reduce_one(op, input, variance_attributes(op.name, input, axes, correction, keepdim, root));
}

std::pair<Tensor, Tensor> both(const OpDef<VarianceAttr>& op, const Tensor& input, const Dims& axes,
                               std::int64_t correction, bool keepdim, bool root) {
  const OpScope scope(op.name);
  auto found = reduce_all(op, input, variance_attributes(op.name, input, axes, correction, keepdim, root));
  return {std::move(found[0]), std::move(found[1])};
}

}  // namespace

Tensor var(const Tensor& input, const Dims& axes, std::int64_t correction, bool keepdim) {
  return variance(var_op, input, axes, correction, keepdim, false);
}
Tensor std(const Tensor& input, const Dims& axes, std::int64_t correction, bool keepdim) {
  return variance(std_op, input, axes, correction, keepdim, true);
}
std::pair<Tensor, Tensor> var_mean(const Tensor& input, const Dims& axes, std::int64_t correction, bool keepdim) {
  return both(var_mean_op, input, axes, correction, keepdim, false);
}
std::pair<Tensor, Tensor> std_mean(const Tensor& input, const Dims& axes, std::int64_t correction, bool keepdim) {
  return both(std_mean_op, input, axes, correction, keepdim, true);
}

}  // namespace adjoint
