// softmax and log_softmax: the operators and their gradient.
#include <adjoint/ops/softmax/softmax.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/softmax/kernels.h>
#include <adjoint/ops/view/memory_order.h>

namespace adjoint {
namespace {

using Context = Ctx<SoftmaxAttr>;

TensorSpec infer(Operands in, const SoftmaxAttr& attr) {
  return {in[0].shape(), attr.narrow ? kFloat32 : in[0].dtype()};
}
TensorSpec infer_gradient(Operands in, const SoftmaxAttr& attr) {
  return {in[0].shape(), attr.narrow.value_or(in[0].dtype())};
}

constinit const OpDef<SoftmaxAttr> gradient_op{.name = "softmax",
                                               .infer = infer_gradient,
                                               .cpu = cpu::softmax_gradient,
                                               .cuda = ADJOINT_IF_CUDA(cuda::softmax_gradient)};

// One pass, or operators in a recorded sweep.
Tensor gradient(const Context& c) {
  if (Tape::current() == nullptr) return apply(gradient_op, {c.grad, c.out}, c.attr);
  const auto& [outer, extent, inner, log, narrow] = c.attr;
  const Shape seen{outer, extent, inner};
  const Tensor g = widened(c.grad).reshape(seen), y = widened(c.out).reshape(seen);
  const Tensor x_gradient = log ? g - exp(y) * g.sum(1, true) : y * (g - (g * y).sum(1, true));
  return x_gradient.reshape(c.grad.shape()).to(narrow.value_or(c.grad.dtype()));
}

OnnxValue softmax_onnx(OnnxCall& call, const SoftmaxAttr& attr) {
  const OnnxValue x = attr.narrow ? call.cast(call.operand(0), kFloat32) : call.operand(0);
  return call.add(attr.log ? "LogSoftmax" : "Softmax", {x},
                  {{"axis", axis_between(call.in[0], attr.outer, attr.inner)}});
}

constexpr OpDef<SoftmaxAttr> softmax_op_named(const char* name) {
  return {.name = name,
          .infer = infer,
          .cpu = cpu::softmax,
          .cuda = ADJOINT_IF_CUDA(cuda::softmax),
          .mixed_precision = MixedPrecision::kFull,
          .onnx = softmax_onnx,
          .vjp = {{{.saves = kSaveOut, .rule = gradient}}}};
}
constinit const OpDef<SoftmaxAttr> softmax_op = softmax_op_named("softmax");
constinit const OpDef<SoftmaxAttr> log_softmax_op = softmax_op_named("log_softmax");

Tensor along(const OpDef<SoftmaxAttr>& op, const Tensor& x, std::int64_t axis, bool log, bool widen = false) {
  const OpScope scope(op.name);
  check_defined(op.name, "x", x);
  check_floating(op.name, x.dtype());
  const Shape& shape = x.shape();
  const std::size_t at = resolve_axis(op.name, axis, shape.size());
  if (is_channels_last(x)) {
    const auto own = static_cast<std::int64_t>(memory_axis(at, shape.size()));
    return from_memory_order(along(op, to_memory_order(x), own, log, widen));
  }
  const Shape outer(shape.begin(), shape.begin() + at), inner(shape.begin() + at + 1, shape.end());
  SoftmaxAttr attr{outer.numel(), shape[at], inner.numel(), log};
  if (widen && element_size(x.dtype()) == 2) attr.narrow = x.dtype();
  return apply(op, Operands(&x, 1), attr);
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t axis) { return along(softmax_op, x, axis, false); }
Tensor log_softmax(const Tensor& x, std::int64_t axis) { return along(log_softmax_op, x, axis, true); }
Tensor widened_log_softmax(const Tensor& x, std::int64_t axis) { return along(log_softmax_op, x, axis, true, true); }

}  // namespace adjoint
