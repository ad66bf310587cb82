// The losses of pairs as operators: for each functor of the table one operator for the value and one or two for the
// gradients.
#include <adjoint/ops/loss/loss.h>

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/onnx.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/loss/kernels.h>
#include <adjoint/ops/loss/reduction.h>
#include <adjoint/ops/view/memory_order.h>

#include <algorithm>
#include <array>
#include <limits>

namespace adjoint {
namespace loss {

void check_floating(const char* op, const char* what, const Tensor& x) {
  check_defined(op, what, x);
  ADJOINT_CHECK(is_floating_point(x.dtype()), "{}: {} must be floating point; got {}; convert with to()", op, what,
                x.dtype());
}

void check_pair(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b) {
  check_floating(op, first, a);
  check_defined(op, second, b);
  ADJOINT_CHECK(a.dtype() == b.dtype(), "{}: {} and {} must have one dtype; got {} {}, {} {}; convert one with to()",
                op, first, second, first, a.dtype(), second, b.dtype());
  ADJOINT_CHECK(a.shape() == b.shape(), "{}: {} and {} must have one shape; got {} {}, {} {}; reshape or expand one",
                op, first, second, first, a.shape(), second, b.shape());
}

Tensor expanded(const char* op, const char* what, const Tensor& weight, const Tensor& x) {
  check_floating(op, what, weight);
  ADJOINT_CHECK(weight.dtype() == x.dtype(), "{}: {} and input must have one dtype; got {} {}, input {}", op, what,
                what, weight.dtype(), x.dtype());
  const Shape &from = weight.shape(), &to = x.shape();
  bool fits = from.size() <= to.size();
  for (std::size_t i = 0; fits && i < from.size(); ++i) {
    fits = from[from.size() - 1 - i] == 1 || from[from.size() - 1 - i] == to[to.size() - 1 - i];
  }
  ADJOINT_CHECK(fits, "{}: {} must expand to input's shape; got {} {}, input {}", op, what, what, from, to);
  return from == to ? weight : weight.expand(to);
}

Tensor reduced(const Tensor& each, Reduction reduction) {
  return reduction == Reduction::kNone ? each : reduction == Reduction::kSum ? each.sum() : each.mean();
}

namespace {

using Context = Ctx<LossAttr>;

template <template <class> class F>
TensorSpec value_spec(Operands in, const LossAttr& attr) {
  check_pair(F<float>::kName, "input", in[0], "target", in[1]);
  return {attr.reduced ? Shape{} : in[0].shape(), in[0].dtype()};
}
TensorSpec gradient_spec(Operands in, const LossAttr&) { return {in[1].shape(), in[1].dtype()}; }

template <template <class> class F, bool kOfY>
Tensor gradient(const Tensor& g, const Tensor& x, const Tensor& y, const LossAttr& attr);

// The operator of a gradient that is linear in g and constant in x and y.
template <template <class> class F, bool kOfY>
Tensor linear_gradient(const Context& c) {
  const LossAttr each{c.attr.parameter, c.attr.divisor, false};
  if (!c.attr.reduced) return gradient<F, kOfY>(c.grad, c.in[1], c.in[2], each);
  const Tensor product = gradient<F, kOfY>(widened(c.grad), widened(c.in[1]), widened(c.in[2]), each);
  return product.sum().to(c.grad.dtype());
}
Tensor zero(const Context& c) { return Tensor::zeros(c.grad.shape(), c.grad.options()); }

template <template <class> class F, bool kOfY>
constinit const OpDef<LossAttr> gradient_op{
    .name = F<float>::kName,
    .infer = gradient_spec,
    .cpu = cpu::loss_gradient<F, kOfY>,
    .cuda = ADJOINT_IF_CUDA((cuda::loss_gradient<F, kOfY>)),
    .vjp = F<float>::kLinear ? std::array<Vjp<LossAttr>, kMaxRules>{{{kSaveIn1 | kSaveIn2, linear_gradient<F, kOfY>},
                                                                     {kSaveNone, zero},
                                                                     {kSaveNone, zero}}}
                             : std::array<Vjp<LossAttr>, kMaxRules>{}};

// The gradient in x, or in y. Recorded if a tape is live, and differentiable to any order.
template <template <class> class F, bool kOfY>
Tensor gradient(const Tensor& g, const Tensor& x, const Tensor& y, const LossAttr& attr) {
  if constexpr (!F<float>::kLinear) {
    if (Tape::current() != nullptr) {
      // The scale comes first, because it keeps a mean's gradient in range.
      const Gradient<F, double, kOfY> formula{F<double>(attr.parameter)};
      return formula(widened(g) * attr.scale(), widened(x), widened(y)).to(x.dtype());
    }
  }
  return apply(gradient_op<F, kOfY>, {g, x, y}, attr);
}

template <template <class> class F>
Tensor gradient_of_input(const Context& c) {
  return gradient<F, false>(c.grad, c.in[0], c.in[1], c.attr);
}
template <template <class> class F>
Tensor gradient_of_target(const Context& c) {
  if constexpr (F<float>::kOdd) {
    return gradient<F, false>(c.grad, c.in[1], c.in[0], c.attr);
  } else {
    return gradient<F, true>(c.grad, c.in[0], c.in[1], c.attr);
  }
}

using Term = elementwise::OnnxTerm;

// F's value of each pair, with d = x - y for the differences.
template <template <class> class F>
Term formula(const Term& x, const Term& y, double parameter);
template <>
Term formula<Mse>(const Term& x, const Term& y, double) {
  const Term d = x - y;
  return d * d;
}
template <>
Term formula<L1>(const Term& x, const Term& y, double) {
  return abs(x - y);
}
template <>
Term formula<SmoothL1>(const Term& x, const Term& y, double beta) {
  const Term size = abs(x - y);
  return where(size < beta, size * (size * (0.5 / beta)), size - 0.5 * beta);
}
template <>
Term formula<Huber>(const Term& x, const Term& y, double delta) {
  const Term size = abs(x - y);
  return where(size > delta, (size - 0.5 * delta) * delta, size * size * 0.5);
}
template <>
Term formula<Charbonnier>(const Term& x, const Term& y, double eps) {
  const Term d = x - y;
  return (d * d + eps * eps).node("Sqrt");
}
template <>
Term formula<Bce>(const Term& x, const Term& y, double) {
  const auto log = [](const Term& p) { return clip(p.node("Log"), -100.0, std::numeric_limits<double>::infinity()); };
  return (y - 1.0) * log(1.0 - x) - y * log(x);
}
template <>
Term formula<BceWithLogits>(const Term& x, const Term& y, double) {
  const Term share = where(x < 0.0, -y, 1.0 - y);
  return where(share == 0.0, x.number(0.0), share * x) + (-abs(x)).node("Softplus");
}
template <>
Term formula<KlDiv>(const Term& x, const Term& y, double) {
  return where(y == 0.0, x.number(0.0), y * y.node("Log") - y * x);
}
template <>
Term formula<KlDivLog>(const Term& x, const Term& y, double) {
  const Term p = y.node("Exp");
  return where(p == 0.0, x.number(0.0), p * (y - x));
}

template <template <class> class F>
OnnxValue value_onnx(OnnxCall& call, const LossAttr& attr) {
  const std::vector<OnnxValue> operands = call.broadcast_operands();
  const Term x{&call, operands[0], call.in[0].dtype()}, y{&call, operands[1], call.in[1].dtype()};
  const Term each = formula<F>(x, y, attr.parameter);
  if (!attr.reduced) return each.value;
  // ONNX Runtime's mean over nothing is 0.
  if (attr.divisor == 0.0) return x.number(std::numeric_limits<double>::quiet_NaN()).value;
  return each.node(attr.divisor == 1.0 ? "ReduceSum" : "ReduceMean", {}, {{"keepdims", false}}).value;
}

template <template <class> class F>
constinit const OpDef<LossAttr> value_op{.name = F<float>::kName,
                                         .infer = value_spec<F>,
                                         .cpu = cpu::loss_value<F>,
                                         .cuda = ADJOINT_IF_CUDA(cuda::loss_value<F>),
                                         .mixed_precision = MixedPrecision::kFull,
                                         .onnx = value_onnx<F>,
                                         .vjp = {{{kSaveIn0 | kSaveIn1, gradient_of_input<F>},
                                                  {kSaveIn0 | kSaveIn1, gradient_of_target<F>}}}};

template <template <class> class F>
Tensor run(const Tensor& input, const Tensor& target, Reduction reduction, double parameter = 0.0) {
  constexpr const char* kOp = F<float>::kName;
  check_defined(kOp, "input", input);
  check_defined(kOp, "target", target);
  check_reduction(kOp, reduction);
  const double divisor = reduction == Reduction::kMean ? static_cast<double>(input.numel()) : 1.0;
  // A positive parameter stays positive in the type of the computation, and so does half its reciprocal.
  const double least = input.dtype() == kFloat64 ? std::numeric_limits<double>::min()
                                                 : static_cast<double>(std::numeric_limits<float>::min());
  if (parameter > 0.0) parameter = std::max(parameter, least);
  const LossAttr attr{parameter, divisor, reduction != Reduction::kNone};
  if (!is_channels_last(input) || input.shape() != target.shape()) return apply(value_op<F>, {input, target}, attr);
  const Tensor value = apply(value_op<F>, {to_memory_order(input), to_memory_order(target)}, attr);
  return attr.reduced ? value : from_memory_order(value);
}

// With a parameter of this name.
template <template <class> class F>
Tensor run_with(const char* name, double parameter, const Tensor& input, const Tensor& target, Reduction reduction) {
  constexpr const char* kOp = F<float>::kName;
  ADJOINT_CHECK(parameter > 0.0 || (F<float>::kL1AtZero && parameter == 0.0), "{}: {} must {}; got {}", kOp, name,
                F<float>::kL1AtZero ? "not be negative" : "be positive", parameter);
  const OpScope scope(kOp);
  return parameter == 0.0 ? run<L1>(input, target, reduction) : run<F>(input, target, reduction, parameter);
}

// `each` of widened operands, times the weight, reduced, in the input's dtype.
Tensor weighted(const char* op, const Tensor& each, const Tensor& weight, const Tensor& input, Reduction reduction) {
  const Tensor all = weight.defined() ? each * widened(expanded(op, "weight", weight, input)) : each;
  return reduced(all, reduction).to(input.dtype());
}

}  // namespace
}  // namespace loss

Reduction enumerator(std::string_view name, Reduction) {
  constexpr std::array<const char*, 4> kNames{"mean", "sum", "none", "batchmean"};
  return static_cast<Reduction>(place_of("reduction", name, kNames));
}

#define ADJOINT_LOSS(Kind, F, function, ...)                                               \
  Tensor function(const Tensor& input, const Tensor& target, Named<Reduction> reduction) { \
    return loss::run<loss::F>(input, target, reduction);                                   \
  }
#define ADJOINT_LOSS_XP(Kind, F, function, Module, parameter, ...)                                           \
  Tensor function(const Tensor& input, const Tensor& target, Named<Reduction> reduction, double parameter) { \
    return loss::run_with<loss::F>(#parameter, parameter, input, target, reduction);                         \
  }
#define ADJOINT_LOSS_PX(Kind, F, function, Module, parameter, ...)                                           \
  Tensor function(const Tensor& input, const Tensor& target, double parameter, Named<Reduction> reduction) { \
    return loss::run_with<loss::F>(#parameter, parameter, input, target, reduction);                         \
  }
ADJOINT_LOSSES(ADJOINT_LOSS, ADJOINT_LOSS_XP, ADJOINT_LOSS_PX)
#undef ADJOINT_LOSS
#undef ADJOINT_LOSS_XP
#undef ADJOINT_LOSS_PX

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BinaryCrossEntropyOptions& options) {
  constexpr const char* kOp = "binary_cross_entropy";
  if (!options.weight.defined()) return loss::run<loss::Bce>(input, target, options.reduction);
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {input, target, options.weight}); full) {
    return binary_cross_entropy(full[0], full[1], {.weight = full[2], .reduction = options.reduction});
  }
  loss::check_pair(kOp, "input", input, "target", target);
  loss::check_reduction(kOp, options.reduction);
  const Tensor each = loss::run<loss::Bce>(widened(input), widened(target), Reduction::kNone);
  return loss::weighted(kOp, each, options.weight, input, options.reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BinaryCrossEntropyWithLogitsOptions& options) {
  constexpr const char* kOp = "binary_cross_entropy_with_logits";
  const auto& [weight, reduction, pos_weight] = options;
  if (!weight.defined() && !pos_weight.defined()) return loss::run<loss::BceWithLogits>(input, target, reduction);
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {input, target, weight, pos_weight}); full) {
    return binary_cross_entropy_with_logits(full[0], full[1],
                                            {.weight = full[2], .reduction = reduction, .pos_weight = full[3]});
  }
  loss::check_pair(kOp, "input", input, "target", target);
  loss::check_reduction(kOp, reduction);
  const Tensor x = widened(input), y = widened(target);
  Tensor each;
  if (pos_weight.defined()) {
    const Tensor more = widened(loss::expanded(kOp, "pos_weight", pos_weight, input)) - 1.0;
    each = (1.0 - y) * x - (more * y + 1.0) * logsigmoid(x);
  } else {
    each = loss::run<loss::BceWithLogits>(x, y, Reduction::kNone);
  }
  return loss::weighted(kOp, each, weight, input, reduction);
}

Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options) {
  const auto run = options.log_target ? loss::run<loss::KlDivLog> : loss::run<loss::KlDiv>;
  if (options.reduction != Reduction::kBatchMean) return run(input, target, options.reduction, 0.0);
  const OpScope scope("kl_div");
  if (const detail::AutocastCall full(MixedPrecision::kFull, {input, target}); full) {
    return kl_div(full[0], full[1], options);
  }
  loss::check_pair("kl_div", "input", input, "target", target);
  ADJOINT_CHECK(input.dim() > 0, "kl_div: a mean over the batch needs an axis; got shape {}", input.shape());
  const Tensor sum = run(widened(input), widened(target), Reduction::kSum, 0.0);
  return (sum / static_cast<double>(input.size(0))).to(input.dtype());
}

}  // namespace adjoint
