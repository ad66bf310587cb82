// Losses of pairs of elements: those of the table, and those with options.
#include <adjoint/ops/loss/loss.h>
#include <adjoint/tests/support/loss_cases.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

// Three rows: one for each reduction.
void add(std::vector<OperatorCase>& cases, const std::string& name, decltype(LossCase::call) loss) {
  for (const std::string reduction : {"mean", "sum", "none"}) {
    cases.push_back({.name = name + "/" + reduction,
                     .call = [loss, reduction](In in) -> Out { return {loss(in[0], in[1], reduction)}; }});
  }
}

Tensor bce(const Tensor& x, const Tensor& y, Named<Reduction> r) {
  return binary_cross_entropy(x, y, {.reduction = r});
}
Tensor logits(const Tensor& x, const Tensor& y, Named<Reduction> r) {
  return binary_cross_entropy_with_logits(x, y, {.reduction = r});
}
Tensor kl(const Tensor& x, const Tensor& y, Named<Reduction> r) { return kl_div(x, y, {.reduction = r}); }
Tensor kl_log(const Tensor& x, const Tensor& y, Named<Reduction> r) {
  return kl_div(x, y, {.reduction = r, .log_target = true});
}
template <Reduction kReduction>
Out weighted_logits(In in) {
  return {
      binary_cross_entropy_with_logits(in[0], in[1], {.weight = in[2], .reduction = kReduction, .pos_weight = in[3]})};
}

std::vector<OperatorCase> cases() {
  std::vector<OperatorCase> all = {
      {.name = "smooth_l1_loss/default",
       .call = [](In in) -> Out { return {smooth_l1_loss(in[0], in[1], Reduction::kNone)}; }},
      {.name = "smooth_l1_loss/zero_beta",
       .call = [](In in) -> Out { return {smooth_l1_loss(in[0], in[1], Reduction::kMean, 0.0)}; }},
      {.name = "huber_loss/default", .call = [](In in) -> Out { return {huber_loss(in[0], in[1], Reduction::kNone)}; }},
      {.name = "binary_cross_entropy/weight",
       .call = [](In in) -> Out { return {binary_cross_entropy(in[0], in[1], {.weight = in[2]})}; }},
      {.name = "binary_cross_entropy_with_logits/weight",
       .call = [](In in) -> Out { return {binary_cross_entropy_with_logits(in[0], in[1], {.weight = in[2]})}; }},
      {.name = "binary_cross_entropy_with_logits/weights_mean", .call = weighted_logits<Reduction::kMean>},
      {.name = "binary_cross_entropy_with_logits/weights_sum", .call = weighted_logits<Reduction::kSum>},
      {.name = "binary_cross_entropy_with_logits/weights_none", .call = weighted_logits<Reduction::kNone>},
      {.name = "binary_cross_entropy/ends", .call = [](In in) -> Out { return {bce(in[0], in[1], Reduction::kNone)}; }},
      {.name = "kl_div/ends", .call = [](In in) -> Out { return {kl(in[0], in[1], Reduction::kNone)}; }},
      {.name = "kl_div/batchmean",
       .call = [](In in) -> Out { return {kl_div(in[0], in[1], {.reduction = Reduction::kBatchMean})}; }},
  };
  for (const LossCase& c : loss_cases()) add(all, c.name, c.call);
  add(all, "binary_cross_entropy", bce);
  add(all, "binary_cross_entropy_with_logits", logits);
  add(all, "kl_div", kl);
  add(all, "kl_div/log_target", kl_log);
  return all;
}

Tensor ones(const Shape& shape) { return Tensor::ones(shape); }

std::vector<BadCall> bad_calls() {
  std::vector<BadCall> all = {
      {"mse_loss",
       [] {
         mse_loss(ones({2, 3}), ones({3}));
       },
       {"one shape", "(2, 3)", "(3,)"}},
      {"l1_loss",
       [] {
         l1_loss(ones({2, 3}), ones({2, 1}));
       },
       {"one shape", "(2, 3)", "(2, 1)"}},
      {"smooth_l1_loss", [] { smooth_l1_loss(ones({2}), ones({1}), Reduction::kSum, 0.0); }, {"one shape"}},
      {"huber_loss", [] { huber_loss(ones({2}), ones({2}), Reduction::kMean, 0.0); }, {"delta", "0"}},
      {"charbonnier_loss", [] { charbonnier_loss(ones({2}), ones({2}), 0.0); }, {"eps", "0"}},
      {"binary_cross_entropy", [] { binary_cross_entropy(ones({2}), ones({1})); }, {"one shape"}},
      {"binary_cross_entropy",
       [] { binary_cross_entropy(ones({2}), ones({2}), {.weight = ones({3})}); },
       {"weight", "(3,)", "(2,)"}},
      {"binary_cross_entropy_with_logits",
       [] {
         binary_cross_entropy_with_logits(ones({2}), ones({2, 1}));
       },
       {"one shape", "(2,)", "(2, 1)"}},
      {"binary_cross_entropy_with_logits",
       [] {
         binary_cross_entropy_with_logits(ones({2}), ones({2}), {.pos_weight = ones({2, 2})});
       },
       {"pos_weight", "(2, 2)"}},
      {"kl_div", [] { kl_div(ones({2}), Tensor::ones({2}, {.dtype = kFloat64})); }, {"one dtype", "float64"}},
      {"kl_div", [] { kl_div(ones({}), ones({}), {.reduction = Reduction::kBatchMean}); }, {"axis"}},
      {"kl_div", [] { kl_div(ones({2}), ones({1})); }, {"one shape", "(2,)", "(1,)"}},
  };
  for (const LossCase& c : loss_cases()) {
    all.push_back({c.name, [&c] { c.call(ones({2}), ones({1}), Reduction::kMean); }, {"one shape", "(2,)", "(1,)"}});
    all.push_back({c.name,
                   [&c] { c.call(ones({2}), ones({2}), Reduction::kBatchMean); },
                   {"kMean, kSum or kNone; got kBatchMean, which kl_div"}});
    if (c.with) all.push_back({c.name, [&c] { c.with(ones({2}), ones({2}), -1.0); }, {c.parameter.c_str(), "-1"}});
  }
  return all;
}

}  // namespace

OperatorFamily loss_operators() { return {.name = "loss", .cases = cases(), .bad_calls = bad_calls()}; }

}  // namespace adjoint::testing
