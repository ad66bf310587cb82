// Losses of pairs of elements.
#include <adjoint/ops/loss/loss.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

// Three rows: one for each reduction.
template <Tensor (*kLoss)(const Tensor&, const Tensor&, Named<Reduction>)>
void add(std::vector<OperatorCase>& cases, const std::string& name) {
  cases.push_back(
      {.name = name + "/mean", .call = [](In in) -> Out { return {kLoss(in[0], in[1], Reduction::kMean)}; }});
  cases.push_back({.name = name + "/sum", .call = [](In in) -> Out { return {kLoss(in[0], in[1], Reduction::kSum)}; }});
  cases.push_back(
      {.name = name + "/none", .call = [](In in) -> Out { return {kLoss(in[0], in[1], Reduction::kNone)}; }});
}

Tensor smooth_l1(const Tensor& x, const Tensor& y, Named<Reduction> r) { return smooth_l1_loss(x, y, r, 0.8); }
Tensor huber(const Tensor& x, const Tensor& y, Named<Reduction> r) { return huber_loss(x, y, r, 0.8); }
Tensor charbonnier(const Tensor& x, const Tensor& y, Named<Reduction> r) { return charbonnier_loss(x, y, 0.5, r); }
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
  add<mse_loss>(all, "mse_loss");
  add<l1_loss>(all, "l1_loss");
  add<smooth_l1>(all, "smooth_l1_loss");
  add<huber>(all, "huber_loss");
  add<charbonnier>(all, "charbonnier_loss");
  add<bce>(all, "binary_cross_entropy");
  add<logits>(all, "binary_cross_entropy_with_logits");
  add<kl>(all, "kl_div");
  add<kl_log>(all, "kl_div/log_target");
  return all;
}

Tensor ones(const Shape& shape) { return Tensor::ones(shape); }

}  // namespace

OperatorFamily loss_operators() {
  return {.name = "loss",
          .cases = cases(),
          .bad_calls = {
              {"mse_loss",
               [] {
                 mse_loss(ones({2, 3}), ones({3}));
               },
               {"one shape", "(2, 3)", "(3,)"}},
              {"mse_loss",
               [] { mse_loss(ones({2}), ones({2}), Reduction::kBatchMean); },
               {"kMean, kSum or kNone; got kBatchMean, which kl_div"}},
              {"l1_loss",
               [] {
                 l1_loss(ones({2, 3}), ones({2, 1}));
               },
               {"one shape", "(2, 3)", "(2, 1)"}},
              {"smooth_l1_loss", [] { smooth_l1_loss(ones({2}), ones({1})); }, {"one shape", "(2,)", "(1,)"}},
              {"smooth_l1_loss", [] { smooth_l1_loss(ones({2}), ones({2}), Reduction::kMean, -1.0); }, {"beta", "-1"}},
              {"smooth_l1_loss", [] { smooth_l1_loss(ones({2}), ones({1}), Reduction::kSum, 0.0); }, {"one shape"}},
              {"huber_loss", [] { huber_loss(ones({2}), ones({2}), Reduction::kMean, 0.0); }, {"delta", "0"}},
              {"huber_loss", [] { huber_loss(ones({2}), ones({1})); }, {"one shape", "(2,)", "(1,)"}},
              {"charbonnier_loss", [] { charbonnier_loss(ones({2}), ones({2}), 0.0); }, {"eps", "0"}},
              {"charbonnier_loss", [] { charbonnier_loss(ones({2}), ones({1})); }, {"one shape", "(2,)", "(1,)"}},
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
          }};
}

}  // namespace adjoint::testing
