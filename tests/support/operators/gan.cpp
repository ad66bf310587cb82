// Losses of generative adversarial networks.
#include <adjoint/ops/loss/gan.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

template <GanLoss kLoss, Reduction kReduction>
void add(std::vector<OperatorCase>& cases, const std::string& name) {
  cases.push_back({.name = "gan_discriminator_loss/" + name,
                   .call = [](In in) -> Out { return {gan_discriminator_loss(kLoss, in[0], in[1], kReduction)}; }});
  cases.push_back({.name = "gan_generator_loss/" + name,
                   .call = [](In in) -> Out { return {gan_generator_loss(kLoss, in[0], kReduction)}; }});
}
template <GanLoss kLoss>
void add(std::vector<OperatorCase>& cases, const std::string& name) {
  add<kLoss, Reduction::kMean>(cases, name + "_mean");
  add<kLoss, Reduction::kSum>(cases, name + "_sum");
  add<kLoss, Reduction::kNone>(cases, name + "_none");
}

Tensor penalty(In in, const GradientPenaltyOptions& options) {
  return gradient_penalty([&](const Tensor& x) { return (x * in[2]).sum(); }, in[0], in[1], options);
}

// The critic is (x^2 * w).sum(), whose gradient is 2 x w, at x = 1 and -2.
Tensor penalty_between(In in) {
  const TensorOptions options{.dtype = in[0].dtype(), .device = in[0].device()};
  const Tensor real = Tensor::ones({2, 3}, options), u = Tensor::arange(0, 2, 1, options) * 0.75;
  return gradient_penalty([&](const Tensor& x) { return (x * x * in[0]).sum(); }, real, real * -3.0,
                          {.reduction = Reduction::kSum, .u = u});
}

std::vector<OperatorCase> cases() {
  std::vector<OperatorCase> all = {
      {.name = "gan_discriminator_loss/unequal",
       .call = [](In in) -> Out { return {gan_discriminator_loss(GanLoss::kHinge, in[0], in[1])}; }},
      {.name = "gan_discriminator_loss/empty",
       .call = [](In in) -> Out {
         return {gan_discriminator_loss(GanLoss::kNonSaturating, in[0], in[1], Reduction::kSum)};
       }},
      {.name = "gan_generator_loss/empty",
       .call = [](In in) -> Out { return {gan_generator_loss(GanLoss::kHinge, in[0], Reduction::kSum)}; }},
      {.name = "gradient_penalty/mean", .call = [](In in) -> Out { return {penalty(in, {})}; }},
      {.name = "gradient_penalty/sum",
       .call = [](In in) -> Out { return {penalty(in, {.reduction = Reduction::kSum})}; }},
      {.name = "gradient_penalty/none",
       .call = [](In in) -> Out { return {penalty(in, {.reduction = Reduction::kNone})}; }},
      {.name = "gradient_penalty/target", .call = [](In in) -> Out { return {penalty(in, {.target = 0.0})}; }},
      {.name = "gradient_penalty/u", .call = [](In in) -> Out { return {penalty_between(in)}; }},
      {.name = "gradient_penalty/empty",
       .call = [](In in) -> Out { return {penalty(in, {.reduction = Reduction::kSum})}; }},
  };
  add<GanLoss::kNonSaturating>(all, "non_saturating");
  add<GanLoss::kHinge>(all, "hinge");
  add<GanLoss::kLeastSquares>(all, "least_squares");
  add<GanLoss::kWasserstein>(all, "wasserstein");
  return all;
}

Tensor ones(const Shape& shape) { return Tensor::ones(shape); }
Tensor total(const Tensor& x) { return x.sum(); }

}  // namespace

OperatorFamily gan_operators() {
  return {.name = "gan",
          .cases = cases(),
          .bad_calls = {
              {"gan_discriminator_loss",
               [] {
                 gan_discriminator_loss(GanLoss::kHinge, ones({2, 1}), ones({2}), Reduction::kNone);
               },
               {"one shape", "(2, 1)", "(2,)"}},
              {"gan_discriminator_loss",
               [] { gan_discriminator_loss(static_cast<GanLoss>(4), ones({2}), ones({2})); },
               {"GanLoss", "4"}},
              {"gan_generator_loss",
               [] { gan_generator_loss(GanLoss::kHinge, Tensor::ones({2}, {.dtype = kInt32})); },
               {"floating point", "int32"}},
              {"gradient_penalty",
               [] {
                 gradient_penalty(total, ones({2, 3}), ones({3}));
               },
               {"one shape", "(3,)"}},
              {"gradient_penalty", [] { gradient_penalty({}, ones({2}), ones({2})); }, {"critic"}},
              {"gradient_penalty", [] { gradient_penalty(total, ones({}), ones({})); }, {"batch axis"}},
              {"gradient_penalty",
               [] {
                 gradient_penalty(total, ones({2, 3}), ones({2, 3}), {.u = ones({2, 1})});
               },
               {"one number for each sample", "(2, 1)", "(2, 3)"}},
              {"gradient_penalty",
               [] { gradient_penalty(total, ones({2}), ones({2}), {.u = Tensor::ones({2}, {.dtype = kFloat64})}); },
               {"their dtype", "float64", "float32"}},
              {"gradient_penalty",
               [] { gradient_penalty([](const Tensor&) { return ones({2}); }, ones({2}), ones({2})); },
               {"depend"}},
          }};
}

}  // namespace adjoint::testing
