// The largest and the least elements: amax, amin, any, all, and with their places max, min, argmax and argmin.
#include <adjoint/ops/reduce/reduce.h>

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/reduce/define.h>

#include <limits>

namespace adjoint {
namespace {

using namespace reducing;

// Equal extremes share the gradient. If the extreme is NaN nothing equals it, and every element's gradient is NaN.
Tensor even_gradient(const Ctx<ExtremeAttr>& c) {
  const ReduceAttr& attr = c.attr.reduce;
  const Tensor grad = widened(c.grad);
  const Tensor chosen = c.in[0] == spread(c.out, attr);
  const Tensor count = chosen.sum(axes_of(attr), attr.keepdim).to(grad.dtype());
  const Tensor others =
      where(isnan(c.out), std::numeric_limits<double>::quiet_NaN(), Tensor::zeros({}, grad.options()));
  return where(chosen, spread(grad / count, attr), spread(others, attr)).to(c.grad.dtype());
}

// The operand. A bool operand becomes int32, because ONNX does not order bool.
OnnxValue comparable_onnx(OnnxCall& call) {
  return call.in[0].dtype() == kBool ? call.cast(call.operand(0), kInt32) : call.operand(0);
}

OnnxValue extreme_onnx(OnnxCall& call, const ExtremeAttr& attr) {
  const OnnxValue found = reduced_onnx(call, attr.least ? "Min" : "Max", comparable_onnx(call), attr.reduce);
  return call.in[0].dtype() == kBool ? call.cast(found, kBool) : found;
}

constexpr OpDef<ExtremeAttr> extreme_op(const char* name) {
  return {.name = name,
          .infer =
              [](Operands in, const ExtremeAttr& attr) {
                return TensorSpec{result_shape(attr.reduce), in[0].dtype()};
              },
          .cpu = cpu::extreme,
          .cuda = ADJOINT_IF_CUDA(cuda::extreme),
          .onnx = extreme_onnx,
          .vjp = {{{.saves = kSaveIn0 | kSaveOut, .rule = even_gradient}}}};
}
constinit const OpDef<ExtremeAttr> max_op = extreme_op("max");
constinit const OpDef<ExtremeAttr> min_op = extreme_op("min");
constinit const OpDef<ExtremeAttr> amax_op = extreme_op("amax");
constinit const OpDef<ExtremeAttr> amin_op = extreme_op("amin");

// Sums and products give the right results for no elements, too.
OnnxValue truth_onnx(OnnxCall& call, const ExtremeAttr& attr) {
  const OnnxValue x = call.in[0].dtype() == kBool ? call.operand(0) : call.cast(call.operand(0), kBool);
  return call.cast(reduced_onnx(call, attr.least ? "Prod" : "Sum", call.cast(x, kInt32), attr.reduce), kBool);
}

constexpr OpDef<ExtremeAttr> truth_op(const char* name) {
  return {.name = name,
          .infer =
              [](Operands, const ExtremeAttr& attr) {
                return TensorSpec{result_shape(attr.reduce), kBool};
              },
          .cpu = cpu::extreme,
          .cuda = ADJOINT_IF_CUDA(cuda::extreme),
          .onnx = truth_onnx};
}
constinit const OpDef<ExtremeAttr> any_op = truth_op("any");
constinit const OpDef<ExtremeAttr> all_op = truth_op("all");

Tensor extreme(const OpDef<ExtremeAttr>& op, const Tensor& input, const Dims& axes, bool keepdim, bool least) {
  const OpScope scope(op.name);
  const ReduceAttr attr = attributes(op.name, input, axes, keepdim);
  check_elements(op.name, attr, axes);
  return reduce_one(op, input, ExtremeAttr{attr, least, false});
}

Specs place_specs(Operands in, const PlaceAttr& attr, std::size_t results) {
  Specs specs;
  specs.results = results;
  specs.specs[0] = {attr.result, in[0].dtype()};
  specs.specs[results - 1] = {attr.result, kInt64};
  return specs;
}

// Only the chosen element gets the gradient.
void chosen_gradient(const Ctx<PlaceAttr>& c, Needs, Results grads) {
  const auto& [from, outer, extent, inner, least, result] = c.attr;
  if (!c.grad.defined()) return;
  const Tensor nothing = Tensor::zeros({outer, extent, inner}, c.grad.options());
  const Shape one{outer, 1, inner};
  grads[0] = scatter(nothing, 1, c.outs[1].reshape(one), c.grad.reshape(one)).reshape(from);
}

// ONNX Runtime has no ArgMax of int64, but a TopK.
OnnxValue place_onnx(OnnxCall& call, const PlaceAttr& attr) {
  const Tensor& from = call.in[0];
  const std::int64_t axis = axis_between(from, attr.outer, attr.inner);
  const bool keepdim = call.out[0].dim() == from.dim(), valued = call.out.size() == 2;
  OnnxValue value, place;
  if (from.dtype() == kInt64) {
    const std::vector<OnnxValue> found = call.add_node("TopK", std::vector{call.operand(0), call.integers({1})},
                                                       {{"axis", axis}, {"largest", !attr.least}}, 2);
    const auto dropped = [&](OnnxValue v) { return keepdim ? v : call.add("Squeeze", {v, call.integers({axis})}); };
    place = dropped(found[1]);
    if (valued) value = dropped(found[0]);
  } else {
    const OnnxValue x = comparable_onnx(call);
    place = call.add(attr.least ? "ArgMin" : "ArgMax", {x}, {{"axis", axis}, {"keepdims", keepdim}});
    if (valued) {
      value = call.add(attr.least ? "ReduceMin" : "ReduceMax", {x},
                       {{"axes", std::vector<std::int64_t>{axis}}, {"keepdims", keepdim}});
      if (from.dtype() == kBool) value = call.cast(value, kBool);
    }
  }
  if (!valued) return place;
  call.set_result(1, place);
  return value;
}

constexpr OpDef<PlaceAttr> extreme_place_op(const char* name) {
  return {.name = name,
          .infer = [](Operands in, const PlaceAttr& attr) { return place_specs(in, attr, 2); },
          .cpu = cpu::place,
          .cuda = ADJOINT_IF_CUDA(cuda::place),
          .onnx = place_onnx,
          .joint_vjp = {.saves = [](const PlaceAttr&, Needs) { return kSaveOut1; }, .rule = chosen_gradient}};
}
constinit const OpDef<PlaceAttr> max_place_op = extreme_place_op("max");
constinit const OpDef<PlaceAttr> min_place_op = extreme_place_op("min");

constexpr OpDef<PlaceAttr> place_op(const char* name) {
  return {.name = name,
          .infer = [](Operands in, const PlaceAttr& attr) { return place_specs(in, attr, 1); },
          .cpu = cpu::place,
          .cuda = ADJOINT_IF_CUDA(cuda::place),
          .onnx = place_onnx};
}
constinit const OpDef<PlaceAttr> argmax_op = place_op("argmax");
constinit const OpDef<PlaceAttr> argmin_op = place_op("argmin");

// All results of a search along one axis.
std::array<Tensor, kMaxResults> search(const OpDef<PlaceAttr>& op, const Tensor& input, std::int64_t axis, bool keepdim,
                                       bool least) {
  const OpScope scope(op.name);
  const ReduceAttr one = attributes(op.name, input, axis, keepdim);
  check_elements(op.name, one, axis);
  const std::size_t at = resolve_axis(op.name, axis, one.from.size());
  const Shape outer(one.from.begin(), one.from.begin() + at), inner(one.from.begin() + at + 1, one.from.end());
  const PlaceAttr attr{one.from, outer.numel(), one.from[at], inner.numel(), least, result_shape(one)};
  // A function without a gradient puts nothing on a tape, not even a view.
  const Tensor operand = op.joint_vjp.rule == nullptr ? input.detach() : input;
  return apply_all(op, {operand}, attr);
}

std::pair<Tensor, Tensor> search_both(const OpDef<PlaceAttr>& op, const Tensor& input, std::int64_t axis, bool keepdim,
                                      bool least) {
  auto found = search(op, input, axis, keepdim, least);
  return {std::move(found[0]), std::move(found[1])};
}

Tensor flattened(const char* op, const Tensor& input) {
  check_defined(op, "input", input);
  return input.detach().reshape({input.numel()});
}

}  // namespace

Tensor amax(const Tensor& input, const Dims& axes, bool keepdim) {
  return extreme(amax_op, input, axes, keepdim, false);
}
Tensor amin(const Tensor& input, const Dims& axes, bool keepdim) {
  return extreme(amin_op, input, axes, keepdim, true);
}
Tensor max(const Tensor& input) { return extreme(max_op, input, {}, false, false); }
Tensor min(const Tensor& input) { return extreme(min_op, input, {}, false, true); }

Tensor any(const Tensor& input, const Dims& axes, bool keepdim) {
  return reduce_one(any_op, input, ExtremeAttr{attributes("any", input, axes, keepdim), false, false});
}
Tensor all(const Tensor& input, const Dims& axes, bool keepdim) {
  return reduce_one(all_op, input, ExtremeAttr{attributes("all", input, axes, keepdim), true, false});
}

std::pair<Tensor, Tensor> max(const Tensor& input, std::int64_t axis, bool keepdim) {
  return search_both(max_place_op, input, axis, keepdim, false);
}
std::pair<Tensor, Tensor> min(const Tensor& input, std::int64_t axis, bool keepdim) {
  return search_both(min_place_op, input, axis, keepdim, true);
}

Tensor argmax(const Tensor& input, std::int64_t axis, bool keepdim) {
  return search(argmax_op, input, axis, keepdim, false)[0];
}
Tensor argmin(const Tensor& input, std::int64_t axis, bool keepdim) {
  return search(argmin_op, input, axis, keepdim, true)[0];
}
Tensor argmax(const Tensor& input) { return argmax(flattened("argmax", input), 0); }
Tensor argmin(const Tensor& input) { return argmin(flattened("argmin", input), 0); }

}  // namespace adjoint
