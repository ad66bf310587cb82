// Fused attention: the operator and its gradients.
//
// With W = softmax(Q K^T scale + mask), D its dropout factors and O = (W D) V: dV = (W D)^T dO, and dQ = scale dS K and
// dK = scale dS^T Q with dS = W (D (dO V^T) - delta), where delta is each row's sum of dO O.
#include <adjoint/ops/attention/fused.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/attention/composed.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/matmul/matmul.h>

#include <array>
#include <optional>

namespace adjoint {
namespace {

using AttentionContext = Ctx<AttentionAttr>;

enum Operand : std::size_t { kQuery, kKey, kValue, kMask };

Shape result_shape(Operands in) {
  return {in[kQuery].size(0), in[kQuery].size(1), in[kQuery].size(2), in[kValue].size(3)};
}

Specs attention_specs(Operands in, const AttentionAttr&) {
  return {.specs = {TensorSpec{result_shape(in), in[kQuery].dtype()},
                    TensorSpec{AttentionAttr::statistics(in[kQuery]), kFloat32}},
          .results = 1,
          .kept = 1};
}

// The weights of the composed form, with the same numbers of dropout, and its operands in float32 or wider.
struct Composed {
  Tensor query, key, value, factors;  // factors: of dropout, undefined without it
  detail::SoftmaxedScores scores;
  std::int64_t group;

  Composed(Operands in, const AttentionAttr& attr)
      : query(widened(in[kQuery]).contiguous()),
        key(widened(in[kKey]).contiguous()),
        value(widened(in[kValue]).contiguous()),
        group(in[kQuery].size(1) / in[kKey].size(1)) {
    Generator generator(attr.at.seed);
    generator.seek(attr.at.offset);
    generator.set_device_base(attr.at.base);
    const GeneratorGuard guard(generator);
    scores = detail::softmaxed_scores(query, key, in[kMask], attr.is_causal, attr.scale, attr.dropout_p, group);
    if (!scores.stays.defined()) return;
    const auto scalar = [&](double number) { return Tensor::full({1}, number, scores.weights.detach().options()); };
    factors = where(scores.stays, scalar(detail::dropout_factor(attr.dropout_p)), scalar(0.0));
  }
  Tensor dropped(const Tensor& x) const { return factors.defined() ? x * factors : x; }
  Tensor without_blind(const Tensor& x) const { return scores.blind.defined() ? masked_fill(x, scores.blind, 0.0) : x; }
};

void attention_on_cpu(Operands in, Results out, const AttentionAttr& attr) {
  const Composed c(in, attr);
  const Tensor product = matmul(detail::grouped(c.dropped(c.scores.weights), c.group), c.value);
  copy_into(c.without_blind(detail::ungrouped(product, c.group)), out[0]);
  if (out[1].defined()) out[1].fill_(0.0);  // the gradient in operators does not read them
}

Save saved(const AttentionAttr&, Needs) {
  return static_cast<Save>(1U << kQuery | 1U << kKey | 1U << kValue | 1U << kMask) | kSaveOut;
}

constexpr std::size_t kDifferentiableOperands = 3;

struct AttentionGradientAttr {
  AttentionAttr attention;
  Needs needs;
};

// in: the result's gradient, the operands, the result and the statistics.
constinit const OpDef<AttentionGradientAttr> attention_gradients_op {
  .name = "scaled_dot_product_attention",
  .infer = [](Operands in, const AttentionGradientAttr& attr) -> Specs {
    Specs specs{.specs = {}, .results = kDifferentiableOperands};
    for (std::size_t i = 0; i < kDifferentiableOperands; ++i) {
      specs.specs[i] = {attr.needs[i] ? in[1 + i].shape() : Shape{0}, in[0].dtype()};
    }
    return specs;
  },
#if defined(ADJOINT_WITH_CUDA)
  .cuda = [](Operands in, Results out,
             const AttentionGradientAttr& attr) { cuda::attention_backward(in, out, attr.attention); },
#endif
  .strided = true, .optional = 1U << (1 + kMask), .mixed_precision = MixedPrecision::kAsGiven
};

void attention_gradients_in_operators(const AttentionContext& ctx, Needs needs, Results grads) {
  const Composed c(ctx.in, ctx.attr);
  const Tensor &w = c.scores.weights, g = c.without_blind(widened(ctx.grad));
  const Tensor grad = detail::grouped(g, c.group);
  const DType dtype = ctx.grad.dtype();
  if (needs[kValue]) {
    grads[kValue] = matmul(detail::grouped(c.dropped(w), c.group).transpose(-2, -1), grad).to(dtype);
  }
  if (!needs[kQuery] && !needs[kKey]) return;
  const Tensor of_weights = c.dropped(detail::ungrouped(matmul(grad, c.value.transpose(-2, -1)), c.group));
  const Tensor slopes = detail::grouped(w * (of_weights - (of_weights * w).sum({-1}, true)) * ctx.attr.scale, c.group);
  if (needs[kQuery]) grads[kQuery] = detail::ungrouped(matmul(slopes, c.key), c.group).to(dtype);
  if (needs[kKey]) grads[kKey] = matmul(slopes.transpose(-2, -1), detail::grouped(c.query, c.group)).to(dtype);
}

void attention_gradients(const AttentionContext& c, Needs needs, Results grads) {
  // The kernels compute float32 in TF32 alone, which the sweep's thread may not have.
  const bool rounds = c.grad.dtype() != kFloat32 || float32_precision() == Precision::kTF32;
  if (Tape::current() != nullptr || c.grad.device().is_cpu() || !rounds) {
    return attention_gradients_in_operators(c, needs, grads);
  }
  const std::array<Tensor, 7> in{c.grad, c.in[kQuery], c.in[kKey], c.in[kValue], c.in[kMask], c.outs[0], c.outs[1]};
  const auto found = apply_all(attention_gradients_op, in, AttentionGradientAttr{c.attr, needs});
  for (std::size_t i = 0; i < kDifferentiableOperands; ++i) {
    if (needs[i]) grads[i] = found[i];
  }
}

Cost attention_cost(Operands in, Operands out, const AttentionAttr& attr) {
  const double scores = static_cast<double>(out[0].numel() / in[kValue].size(3)) *
                        static_cast<double>(in[kKey].size(2)) * (attr.is_causal ? 0.5 : 1.0);
  return {detail::moved_bytes(in, out), 2.0 * scores * static_cast<double>(in[kQuery].size(3) + in[kValue].size(3))};
}

constinit const OpDef<AttentionAttr> attention_op{.name = "scaled_dot_product_attention",
                                                  .infer = attention_specs,
                                                  .cpu = attention_on_cpu,
                                                  .cuda = ADJOINT_IF_CUDA(cuda::attention_forward),
                                                  .strided = true,
                                                  .optional = 1U << kMask,
                                                  .mixed_precision = MixedPrecision::kAsGiven,
                                                  .cost = attention_cost,
                                                  .joint_vjp = {saved, attention_gradients}};

}  // namespace

Tensor detail::fused_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                               const AttentionAttr& attr) {
  return apply(attention_op, {query, key, value, mask}, attr);
}

}  // namespace adjoint
