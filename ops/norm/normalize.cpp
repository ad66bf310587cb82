// normalize: the operator and its gradients.
//
// With n = (x - mean) rstd, z = n w + b + r and dz = g f'(z): r's gradient is dz; the gradients of b and w are the sums
// over a channel of dz and dz n; and x's is rstd (h - mean(h) - n mean(h n)) with h = dz w and means over the elements
// that share statistics, or rstd h if these are given.
#include <adjoint/ops/norm/normalize.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>

#include <array>
#include <optional>

namespace adjoint {
namespace {

using Context = Ctx<NormAttr>;

enum Operand : std::size_t { kX, kWeight, kBias, kResidual, kStatistics };

DType statistics_dtype(const Tensor& x) { return x.dtype() == kFloat64 ? kFloat64 : kFloat32; }

Specs infer(Operands in, const NormAttr& attr) {
  const TensorSpec y{in[kX].shape(), in[kX].dtype()};
  if (attr.given) return {.specs = {y}};
  return {.specs = {y, {{attr.statistics(), kStatisticsFields}, statistics_dtype(in[kX])}}, .results = 2};
}

// The CPU's kernels see each position of a channels_last x as a sample of (N, C), whose channels have one element each.
std::optional<NormAttr> in_memory_order(Operands in, const NormAttr& attr) {
  NormAttr own = attr;
  if (in[0].device().is_cuda()) {
    // Else the channels are the elements of the last axes, as in layer_norm.
    if (attr.samples != in[0].size(0) || attr.channels() != in[0].size(1)) return {};
    own.channels_last = true;
    return own;
  }
  if (!attr.across) return {};
  own.samples *= attr.inner;
  own.inner = 1;
  return own;
}

constexpr auto kSaveStatistics = static_cast<Save>(1U << kStatistics);

Save saves(const NormAttr& attr, Needs) {
  const Save activated = attr.activation.is_none() ? kSaveNone : kSaveIn2 | kSaveIn3;
  return kSaveIn0 | kSaveIn1 | activated | (attr.given ? kSaveStatistics : kSaveOut1);
}

// The number of operands that have gradients.
constexpr std::size_t kDifferentiable = 4;

struct GradientAttr {
  NormAttr norm;
  Needs needs;
};

// in: y's gradient, then normalize's operands.
constinit const OpDef<GradientAttr> gradients_op {
  .name = "normalize",
  .infer = [](Operands in, const GradientAttr& attr) -> Specs {
    Specs specs{.results = kDifferentiable};
    for (std::size_t i = 0; i < kDifferentiable; ++i) {
      const Shape whole = i == kX || i == kResidual ? in[0].shape() : Shape{attr.norm.channels()};
      const bool wide = attr.norm.wide && (i == kWeight || i == kBias);
      specs.specs[i] = {attr.needs[i] ? whole : Shape{0}, wide ? statistics_dtype(in[0]) : in[0].dtype()};
    }
    return specs;
  },
  .cpu = [](Operands in, Results out, const GradientAttr& attr) { cpu::normalize_gradients(in, out, attr.norm); },
#if defined(ADJOINT_WITH_CUDA)
  .cuda = [](Operands in, Results out, const GradientAttr& attr) { cuda::normalize_gradients(in, out, attr.norm); },
#endif
  .formats = Formats::kImages,
  .in_memory_order = [](Operands in, const GradientAttr& attr) -> std::optional<GradientAttr> {
    const std::optional<NormAttr> norm = in_memory_order(in, attr.norm);
    return norm ? std::optional(GradientAttr{*norm, attr.needs}) : std::nullopt;
  },
  .optional = 0b111100
};

void gradients_in_one_pass(const Context& c, Needs needs, Results grads) {
  GradientAttr attr{c.attr, {}};
  for (const std::size_t i : {kX, kWeight, kBias, kResidual}) {
    if (needs[i] && !(i == kResidual && c.attr.activation.is_none())) attr.needs.add(i);
  }
  const std::array<Tensor, 6> in{c.grad,      c.in[kX],        c.in[kWeight],
                                 c.in[kBias], c.in[kResidual], c.attr.given ? c.in[kStatistics] : c.outs[1]};
  const auto found = apply_all(gradients_op, in, attr);
  for (const std::size_t i : {kX, kWeight, kBias, kResidual}) {
    if (needs[i]) grads[i] = attr.needs[i] ? found[i] : c.grad;
  }
}

// The same in operators, from x alone: kept statistics have no place on the tape.
void gradients_in_operators(const Context& c, Needs needs, Results grads) {
  const NormAttr& attr = c.attr;
  const Shape seen{attr.samples, attr.groups, attr.depth, attr.inner}, by_channel{1, attr.groups, attr.depth, 1};
  const Dims shared = attr.across ? Dims{0, 2, 3} : Dims{2, 3};
  const auto see = [&](const Tensor& t, const Shape& shape) { return widened(t).reshape(shape); };

  Tensor centred = see(c.in[kX], seen), variance;
  if (attr.given) {
    const Shape each{1, attr.groups, 1, 1};
    centred = centred - c.in[kStatistics].select(1, 0).reshape(each) - c.in[kStatistics].select(1, 1).reshape(each);
    variance = c.in[kStatistics].select(1, 2).reshape(each);
  } else {
    if (attr.centred) centred = centred - centred.mean(shared, true);
    variance = square(centred).mean(shared, true);
  }
  const Tensor rstd = rsqrt(variance + attr.eps), normal = centred * rstd;
  const bool weighted = c.in[kWeight].defined();
  const Tensor weight = weighted ? see(c.in[kWeight], by_channel) : Tensor{};

  Tensor dz = see(c.grad, seen);
  if (!attr.activation.is_none()) {
    Tensor z = weighted ? normal * weight : normal;
    if (c.in[kBias].defined()) z = z + see(c.in[kBias], by_channel);
    if (c.in[kResidual].defined()) z = z + see(c.in[kResidual], seen);
    dz = activation_gradient(attr.activation, dz,
                             differentiates_from_result(attr.activation) ? activate(z, attr.activation) : z);
  }
  const DType dtype = c.grad.dtype();
  const DType of_parameters = attr.wide ? statistics_dtype(c.grad) : dtype;
  const auto of_channels = [&](const Tensor& t) { return t.sum({0, 3}).reshape({attr.channels()}).to(of_parameters); };
  if (needs[kResidual]) grads[kResidual] = dz.reshape(c.grad.shape()).to(dtype);
  if (needs[kBias]) grads[kBias] = of_channels(dz);
  if (needs[kWeight]) grads[kWeight] = of_channels(dz * normal);
  if (!needs[kX]) return;
  Tensor h = weighted ? dz * weight : dz;
  if (!attr.given) {
    const Tensor along = normal * (h * normal).mean(shared, true);
    h = (attr.centred ? h - h.mean(shared, true) : h) - along;
  }
  grads[kX] = (h * rstd).reshape(c.grad.shape()).to(dtype);
}

void gradients(const Context& c, Needs needs, Results grads) {
  if (Tape::current() == nullptr) return gradients_in_one_pass(c, needs, grads);
  gradients_in_operators(c, needs, grads);
}

constinit const OpDef<NormAttr> normalize_op{.name = "normalize",
                                             .infer = infer,
                                             .cpu = cpu::normalize,
                                             .cuda = ADJOINT_IF_CUDA(cuda::normalize),
                                             .formats = Formats::kImages,
                                             .in_memory_order = in_memory_order,
                                             .optional = 0b11110,
                                             .mixed_precision = MixedPrecision::kAsGiven,
                                             .joint_vjp = {saves, gradients}};

}  // namespace

Normalized normalize(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                     const Tensor& statistics, NormAttr attr) {
  const Activation activation = attr.activation;
  const bool fused = fuses_into_convolution(activation);
  if (!fused) attr.activation = {};
  const auto results = apply_all(normalize_op, {x, weight, bias, residual, statistics}, attr);
  return {fused ? results[0] : activate(results[0], activation), attr.given ? Tensor{} : results[1].detach()};
}

}  // namespace adjoint
