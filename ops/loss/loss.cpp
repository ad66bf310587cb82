// The losses as operators. A loss's gradient is an operator of its own, (a, b, g) -> slope(a - b, scale * g), so that
// forward and gradient are one pass over memory each; that one is linear in g and, for the square, in a and b.
#include <adjoint/ops/loss/loss.h>

#include <adjoint/core/check.h>
#include <adjoint/core/op.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/loss/kernels.h>

namespace adjoint {
namespace {

using Context = Ctx<LossAttr>;

void check_pair(const char* op, Operands in) {
  const Tensor &input = in[0], &target = in[1];
  ADJOINT_CHECK(is_floating_point(input.dtype()), "{}: input must be floating point; got {}; convert with to()", op,
                input.dtype());
  ADJOINT_CHECK(input.dtype() == target.dtype(),
                "{}: input and target must have one dtype; got input {}, target {}; convert one with to()", op,
                input.dtype(), target.dtype());
  ADJOINT_CHECK(input.shape() == target.shape(),
                "{}: input and target must have one shape; got input {}, target {}; reshape or expand one", op,
                input.shape(), target.shape());
}

template <class Term>
constexpr const char* kName = nullptr;
template <>
constexpr const char* kName<loss::Squared> = "mse_loss";
template <>
constexpr const char* kName<loss::Absolute> = "l1_loss";

template <class Term>
TensorSpec value_spec(Operands in, const LossAttr& attr) {
  check_pair(kName<Term>, in);
  return {attr.reduced ? Shape{} : in[0].shape(), in[0].dtype()};
}
TensorSpec slope_spec(Operands in, const LossAttr&) { return {in[0].shape(), in[0].dtype()}; }

// d/da of slope(a - b, scale * g), times the incoming gradient; `sign` is that of a or b inside.
template <class Term>
Tensor bend(const Context& c, double sign);
template <>
Tensor bend<loss::Squared>(const Context& c, double sign) {
  // The scale first: it is what keeps a mean's gradient in range.
  return (widened(c.grad) * (widened(c.in[2]) * (2.0 * sign * c.attr.scale))).to(c.grad.dtype());
}
template <>
Tensor bend<loss::Absolute>(const Context& c, double) {
  return Tensor::zeros(c.grad.shape(), c.grad.options());
}

template <class Term>
Tensor slope(const Tensor& a, const Tensor& b, const Tensor& g, const LossAttr& attr);

template <class Term>
Tensor slope_in_gradient(const Context& c) {
  const LossAttr each{.scale = c.attr.scale, .reduced = false};
  if (!c.attr.reduced) return slope<Term>(c.in[0], c.in[1], c.grad, each);
  const Tensor product = slope<Term>(widened(c.in[0]), widened(c.in[1]), widened(c.grad), each);
  return product.sum().to(c.grad.dtype());
}

template <class Term>
constinit const OpDef<LossAttr> slope_op{.name = kName<Term>,
                                         .infer = slope_spec,
                                         .cpu = cpu::loss_slope<Term>,
                                         .cuda = ADJOINT_IF_CUDA(cuda::loss_slope<Term>),
                                         .vjp = {{{kSaveIn2, [](const Context& c) { return bend<Term>(c, 1.0); }},
                                                  {kSaveIn2, [](const Context& c) { return bend<Term>(c, -1.0); }},
                                                  {kSaveIn0 | kSaveIn1, slope_in_gradient<Term>}}}};

template <class Term>
Tensor slope(const Tensor& a, const Tensor& b, const Tensor& g, const LossAttr& attr) {
  return apply(slope_op<Term>, {a, b, g}, attr);
}

template <class Term>
constinit const OpDef<LossAttr> value_op{
    .name = kName<Term>,
    .infer = value_spec<Term>,
    .cpu = cpu::loss_value<Term>,
    .cuda = ADJOINT_IF_CUDA(cuda::loss_value<Term>),
    // The slope is odd: swapping the operands gives the target's gradient.
    .vjp = {{{kSaveIn0 | kSaveIn1, [](const Context& c) { return slope<Term>(c.in[0], c.in[1], c.grad, c.attr); }},
             {kSaveIn0 | kSaveIn1, [](const Context& c) { return slope<Term>(c.in[1], c.in[0], c.grad, c.attr); }}}}};

template <class Term>
Tensor run_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  check_defined(kName<Term>, "input", input);
  check_defined(kName<Term>, "target", target);
  check_enumerator(kName<Term>, "Reduction", reduction, Reduction::kNone);
  LossAttr attr{.scale = 1.0, .reduced = reduction != Reduction::kNone};
  if (reduction == Reduction::kMean) attr.scale = 1.0 / static_cast<double>(input.numel());
  return apply(value_op<Term>, {input, target}, attr);
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return run_loss<loss::Squared>(input, target, reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return run_loss<loss::Absolute>(input, target, reduction);
}

}  // namespace adjoint
