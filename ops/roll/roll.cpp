// roll: the operator, its gradient, and the public function.
#include <adjoint/ops/roll/roll.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/roll/kernels.h>

namespace adjoint {
namespace {

TensorSpec infer(Operands in, const RollAttr&) { return {in[0].shape(), in[0].dtype()}; }

// The last `shift` elements of the axis, then the others.
OnnxValue roll_onnx(OnnxCall& call, const RollAttr& attr) {
  const OnnxValue x = call.operand(0);
  if (attr.shift == 0 || call.in[0].numel() == 0) return x;
  const std::int64_t axis = axis_between(call.in[0], call.in[0].numel() / attr.extent / attr.inner, attr.inner);
  const auto part = [&](std::int64_t start, std::int64_t end) {
    return call.add("Slice", {x, call.integers({start}), call.integers({end}), call.integers({axis})});
  };
  const std::int64_t first = attr.extent - attr.shift;
  return call.add("Concat", {part(first, INT64_MAX), part(0, first)}, {{"axis", axis}});
}

// Rolling moves every element to one place, so its adjoint moves the gradient back: the same operator in the other
// direction.
constinit const OpDef<RollAttr> roll_op = {
    .name = "roll",
    .infer = infer,
    .cpu = cpu::roll,
    .cuda = ADJOINT_IF_CUDA(cuda::roll),
    .onnx = roll_onnx,
    .vjp = {Vjp<RollAttr>{kSaveNone, [](const Ctx<RollAttr>& c) {
                            const auto& [extent, inner, shift] = c.attr;
                            return apply(roll_op, {c.grad}, RollAttr{extent, inner, shift == 0 ? 0 : extent - shift});
                          }}}};

}  // namespace

Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis) {
  const OpScope scope("roll");
  check_defined("roll", "x", x);
  const std::size_t along = resolve_axis("roll", axis, x.shape().size());
  const std::int64_t extent = x.shape()[along];
  if (extent == 0) return x.clone();
  const std::int64_t remainder = shift % extent;  // has the sign of `shift`
  const std::int64_t forward = remainder < 0 ? remainder + extent : remainder;
  return apply(roll_op, {x}, RollAttr{extent, contiguous_strides(x.shape())[along], forward});
}

}  // namespace adjoint
