// cumsum: the operator and its gradient, which runs from the other end.
#include <adjoint/ops/scan/scan.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/scan/kernels.h>

namespace adjoint {
namespace {

OnnxValue cumsum_onnx(OnnxCall& call, const CumsumAttr& attr) {
  const DType dtype = call.out[0].dtype();
  const OnnxValue x = call.in[0].dtype() == dtype ? call.operand(0) : call.cast(call.operand(0), dtype);
  const OnnxValue axis = call.number(axis_between(call.in[0], attr.outer, attr.inner), kInt64);
  return call.add("CumSum", {x, axis}, {{"reverse", attr.reversed}});
}

constinit const OpDef<CumsumAttr> cumsum_op{
    .name = "cumsum",
    .infer =
        [](Operands in, const CumsumAttr&) {
          const DType dtype = in[0].dtype();
          return TensorSpec{in[0].shape(), is_floating_point(dtype) ? dtype : kInt64};
        },
    .cpu = cpu::cumsum,
    .cuda = ADJOINT_IF_CUDA(cuda::cumsum),
    .mixed_precision = MixedPrecision::kFull,
    .onnx = cumsum_onnx,
    .vjp = {{{.rule = [](const Ctx<CumsumAttr>& c) {
      const auto& [outer, extent, inner, reversed] = c.attr;
      return apply(cumsum_op, {c.grad}, CumsumAttr{outer, extent, inner, !reversed});
    }}}}};

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t axis) {
  const OpScope scope("cumsum");
  check_defined("cumsum", "x", x);
  const Shape& shape = x.shape();
  const std::size_t at = resolve_axis("cumsum", axis, shape.size());
  const Shape outer(shape.begin(), shape.begin() + at), inner(shape.begin() + at + 1, shape.end());
  return apply(cumsum_op, Operands(&x, 1), CumsumAttr{outer.numel(), shape[at], inner.numel(), false});
}

}  // namespace adjoint
