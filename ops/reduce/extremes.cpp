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

constexpr OpDef<ExtremeAttr> extreme_op(const char* name) {
  return {.name = name,
          .infer =
              [](Operands in, const ExtremeAttr& attr) {
                return TensorSpec{result_shape(attr.reduce), in[0].dtype()};
              },
          .cpu = cpu::extreme,
          .cuda = ADJOINT_IF_CUDA(cuda::extreme),
          .vjp = {{{.saves = kSaveIn0 | kSaveOut, .rule = even_gradient}}}};
}
constinit const OpDef<ExtremeAttr> max_op = extreme_op("max");
constinit const OpDef<ExtremeAttr> min_op = extreme_op("min");
constinit const OpDef<ExtremeAttr> amax_op = extreme_op("amax");
constinit const OpDef<ExtremeAttr> amin_op = extreme_op("amin");

constexpr OpDef<ExtremeAttr> truth_op(const char* name) {
  return {.name = name,
          .infer =
              [](Operands, const ExtremeAttr& attr) {
                return TensorSpec{result_shape(attr.reduce), kBool};
              },
          .cpu = cpu::extreme,
          .cuda = ADJOINT_IF_CUDA(cuda::extreme)};
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
  const auto& [outer, extent, inner, least, result] = c.attr;
  if (!c.grad.defined()) return;
  const Tensor nothing = Tensor::zeros({outer, extent, inner}, c.grad.options());
  const Shape one{outer, 1, inner};
  grads[0] = scatter(nothing, 1, c.outs[1].reshape(one), c.grad.reshape(one));
}

// x is (outer, extent, inner).
constexpr OpDef<PlaceAttr> extreme_place_op(const char* name) {
  return {.name = name,
          .infer = [](Operands in, const PlaceAttr& attr) { return place_specs(in, attr, 2); },
          .cpu = cpu::place,
          .cuda = ADJOINT_IF_CUDA(cuda::place),
          .joint_vjp = {.saves = [](const PlaceAttr&, Needs) { return kSaveOut1; }, .rule = chosen_gradient}};
}
constinit const OpDef<PlaceAttr> max_place_op = extreme_place_op("max");
constinit const OpDef<PlaceAttr> min_place_op = extreme_place_op("min");

constexpr OpDef<PlaceAttr> place_op(const char* name) {
  return {.name = name,
          .infer = [](Operands in, const PlaceAttr& attr) { return place_specs(in, attr, 1); },
          .cpu = cpu::place,
          .cuda = ADJOINT_IF_CUDA(cuda::place)};
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
  const PlaceAttr attr{outer.numel(), one.from[at], inner.numel(), least, result_shape(one)};
  // A function without a gradient puts nothing on a tape, not even a view.
  const Tensor operand = op.joint_vjp.rule == nullptr ? input.detach() : input;
  return apply_all(op, {operand.reshape({attr.outer, attr.extent, attr.inner})}, attr);
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
