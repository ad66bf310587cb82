#include <adjoint/ops/matmul/linear.h>

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/one_call.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/matmul/kernels.h>
#include <adjoint/ops/matmul/matmul.h>

namespace adjoint {
namespace {

using Context = Ctx<NoAttr>;

// Counts operands and results as moved once.
Cost linear_cost(Operands in, Operands out, const NoAttr&) {
  return {detail::moved_bytes(in, out), 2.0 * static_cast<double>(in[0].numel()) * static_cast<double>(in[1].size(0))};
}

// x (rows, in_features), weight (out_features, in_features), bias (out_features) -> (rows, out_features), rounded once.
constinit const OpDef<> linear_op{.name = "linear",
                                  .infer =
                                      [](Operands in, const NoAttr&) {
                                        return TensorSpec{{in[0].size(0), in[1].size(0)}, in[0].dtype()};
                                      },
                                  .cpu = cpu::linear,
                                  .cuda = ADJOINT_IF_CUDA(cuda::linear),
                                  .strided = true,
                                  .mixed_precision = MixedPrecision::kLow,
                                  .cost = linear_cost,
                                  .vjp = {{{kSaveIn1, [](const Context& c) { return matmul(c.grad, c.in[1]); }},
                                           {kSaveIn0,
                                            [](const Context& c) { return matmul(c.grad.transpose(0, 1), c.in[0]); }},
                                           {kSaveNone, [](const Context& c) { return c.grad.sum({0}); }}}}};

// x has any number of axes. The weight is transposed unless there are two.
OnnxValue linear_onnx(OnnxCall& call, const NoAttr&) {
  const OnnxValue x = call.operand(0), weight = call.operand(1), bias = call.operand(2);
  if (call.in[0].dim() == 2) return call.add("Gemm", {x, weight, bias}, {{"transB", true}});
  return call.add("Add", {call.add("MatMul", {x, weight}), bias});
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const OpScope scope("linear");
  check_defined("linear", "input", x);
  check_defined("linear", "weight", weight);
  if (const detail::AutocastCall low(MixedPrecision::kLow, {x, weight, bias}); low) {
    return linear(low[0], low[1], low[2]);
  }
  ADJOINT_CHECK(weight.dim() == 2, "linear: weight must have two axes, (out_features, in_features); got {}",
                weight.shape());
  ADJOINT_CHECK(x.dim() >= 1 && x.size(-1) == weight.size(1),
                "linear: input's last axis must have in_features; got input {}, weight {}", x.shape(), weight.shape());
  ADJOINT_CHECK(x.dtype() == weight.dtype(),
                "linear: input and weight must share a dtype; got input {}, weight {}; convert one with to(dtype)",
                x.dtype(), weight.dtype());
  ADJOINT_CHECK(x.device() == weight.device(),
                "linear: input and weight must be on one device; got input {}, weight {}; move one with to(device)",
                x.device(), weight.device());
  if (!bias.defined()) return matmul(x, weight.transpose(0, 1));
  ADJOINT_CHECK(
      bias.shape() == Shape{weight.size(0)} && bias.dtype() == weight.dtype() && bias.device() == weight.device(),
      "linear: bias must have out_features elements, and weight's dtype and device; got {} {} on {}, weight {} {} on "
      "{}",
      bias.dtype(), bias.shape(), bias.device(), weight.dtype(), weight.shape(), weight.device());
  ADJOINT_CHECK(is_floating_point(x.dtype()), "linear: input must be floating point; got {}; convert with to(dtype)",
                x.dtype());
  const auto rounded_once = [&] {
    Shape shape = x.shape();
    shape[shape.size() - 1] = weight.size(0);
    const std::int64_t rows = Shape(x.shape().begin(), x.shape().end() - 1).numel();
    return apply(linear_op, {x.reshape({rows, x.size(-1)}), weight, bias}).reshape(shape);
  };
  if (detail::CallTrace::of_functions() == nullptr) [[likely]]
    return rounded_once();
  const Tensor factor = x.dim() == 2 ? weight : weight.transpose(0, 1);
  return detail::as_one_call("linear", linear_onnx, NoAttr{}, rounded_once, x, factor, bias);
}

}  // namespace adjoint
