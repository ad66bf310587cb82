// Losses of class scores.
#include <adjoint/ops/loss/classification.h>
#include <adjoint/ops/loss/ctc.h>
#include <adjoint/ops/softmax/softmax.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

Out ctc(In in, const CtcLossOptions& options) {
  return {ctc_loss(log_softmax(in[0], -1), in[1], in[2], in[3], options)};
}

// The rows of one reduction.
template <Reduction kReduction>
void add(std::vector<OperatorCase>& cases, const std::string& r) {
  const auto row = [&](const std::string& name, Out (*call)(In)) { cases.push_back({.name = name + r, .call = call}); };
  row("nll_loss/", [](In in) -> Out { return {nll_loss(in[0], in[1], {.reduction = kReduction})}; });
  row("nll_loss/weight_", [](In in) -> Out {
    return {nll_loss(in[0], in[1], {.weight = in[2], .ignore_index = 2, .reduction = kReduction})};
  });
  row("cross_entropy/", [](In in) -> Out { return {cross_entropy(in[0], in[1], {.reduction = kReduction})}; });
  row("cross_entropy/smooth_", [](In in) -> Out {
    return {cross_entropy(in[0], in[1], {.weight = in[2], .reduction = kReduction, .label_smoothing = 0.25})};
  });
  row("cross_entropy/soft_", [](In in) -> Out {
    return {cross_entropy(in[0], in[1], {.weight = in[2], .reduction = kReduction, .label_smoothing = 0.125})};
  });
  row("ctc_loss/", [](In in) { return ctc(in, {.reduction = kReduction}); });
  row("dice_loss/", [](In in) -> Out { return {dice_loss(in[0], in[1], {.reduction = kReduction, .smooth = 1.0})}; });
  row("dice_loss/squared_", [](In in) -> Out {
    return {dice_loss(in[0], in[1], {.reduction = kReduction, .smooth = 1.0, .squared = true})};
  });
}

Out nll(In in) { return {nll_loss(in[0], in[1])}; }
Out entropy(In in) { return {cross_entropy(in[0], in[1])}; }

std::vector<OperatorCase> cases() {
  std::vector<OperatorCase> all = {
      {.name = "nll_loss/nobody", .call = nll},
      {.name = "nll_loss/ignored", .call = nll},
      {.name = "cross_entropy/one", .call = entropy},
      {.name = "cross_entropy/probabilities", .call = entropy},
      {.name = "cross_entropy/nobody", .call = entropy},
      {.name = "cross_entropy/ignored", .call = entropy},
      {.name = "cross_entropy/ends",
       .call = [](In in) -> Out { return {cross_entropy(in[0], in[1], {.reduction = Reduction::kNone})}; }},
      {.name = "cross_entropy/smoothing",
       .call = [](In in) -> Out { return {cross_entropy(in[0], in[1], {.label_smoothing = 0.5})}; }},
      {.name = "ctc_loss/blank", .call = [](In in) { return ctc(in, {.blank = 3}); }},
      {.name = "ctc_loss/one", .call = [](In in) { return ctc(in, {.reduction = Reduction::kNone}); }},
      {.name = "ctc_loss/zero_infinity", .call = [](In in) { return ctc(in, {.zero_infinity = true}); }},
  };
  add<Reduction::kMean>(all, "mean");
  add<Reduction::kSum>(all, "sum");
  add<Reduction::kNone>(all, "none");
  for (OperatorCase& c : all) {
    if (c.name.starts_with("ctc_loss")) c.roundings = 32;  // a step of the sum for each frame
  }
  return all;
}

Tensor ones(const Shape& shape) { return Tensor::ones(shape); }
Tensor classes(const std::vector<std::int64_t>& values) {
  return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())}, {.dtype = kInt64});
}

}  // namespace

OperatorFamily classification_operators() {
  return {.name = "classification",
          .cases = cases(),
          .bad_calls = {
              {"nll_loss",
               [] {
                 nll_loss(ones({2, 3}), classes({0, 3}));
               },
               {"[0, 3)", "got 3"}},
              {"nll_loss",
               [] {
                 nll_loss(ones({2, 3}), classes({0}));
               },
               {"(1,)", "(2, 3)"}},
              {"nll_loss",
               [] {
                 nll_loss(ones({2, 3}), ones({2}));
               },
               {"int64", "float32"}},
              {"nll_loss",
               [] {
                 nll_loss(ones({2, 3}), classes({0, 1}), {.weight = ones({2})});
               },
               {"weight", "(2,)"}},
              {"nll_loss", [] { nll_loss(ones({}), classes({0})); }, {"axis"}},
              {"cross_entropy",
               [] {
                 cross_entropy(ones({2, 3}), classes({-1, 0}));
               },
               {"[0, 3)", "got -1"}},
              {"cross_entropy",
               [] {
                 cross_entropy(ones({2, 3}), ones({2, 1}));
               },
               {"one shape", "(2, 1)", "(2, 3)"}},
              {"cross_entropy",
               [] {
                 cross_entropy(ones({2, 3}), classes({0, 0}), {.label_smoothing = 1.5});
               },
               {"label_smoothing", "1.5"}},
              {"cross_entropy",
               [] {
                 cross_entropy(ones({2, 3}), Tensor::zeros({2}, {.dtype = kInt32}));
               },
               {"int64", "int32"}},
              {"ctc_loss", [] { ctc_loss(ones({3}), classes({1}), {3}, {1}); }, {"(T, N, C)", "(3,)"}},
              {"ctc_loss",
               [] {
                 ctc_loss(ones({3, 0, 2}), classes({1}), std::vector<std::int64_t>{}, {});
               },
               {"a sample", "(3, 0, 2)"}},
              {"ctc_loss",
               [] {
                 ctc_loss(ones({3, 2}), ones({1}), {3}, {1});
               },
               {"int64", "float32"}},
              {"ctc_loss",
               [] {
                 ctc_loss(ones({3, 2, 4}), classes({1, 2}).reshape({1, 2}), {3, 3}, {1, 1});
               },
               {"(N, S)", "(1, 2)"}},
              {"ctc_loss",
               [] {
                 ctc_loss(ones({3, 2}), classes({1}), {3}, {1}, {.blank = 2});
               },
               {"blank", "[0, 2)", "got 2"}},
              {"ctc_loss",
               [] {
                 ctc_loss(ones({3, 2}), classes({0}), {3}, {1});
               },
               {"label", "got 0 for sample 0"}},
              {"ctc_loss",
               [] {
                 ctc_loss(ones({3, 2}), classes({1}), {4}, {1});
               },
               {"input_lengths", "[1, 3]", "got 4"}},
              {"ctc_loss",
               [] {
                 ctc_loss(ones({3, 2}), classes({1}), {3, 3}, {1});
               },
               {"input_lengths", "1 samples", "got 2"}},
              {"ctc_loss",
               [] {
                 ctc_loss(ones({3, 2}), classes({1}), {3}, {2});
               },
               {"target_lengths", "[0, 1]", "got 2"}},
              {"ctc_loss",
               [] {
                 ctc_loss(ones({3, 2}), classes({1, 1}), {3}, {1});
               },
               {"add up", "got 1"}},
              {"ctc_loss",
               [] {
                 ctc_loss(ones({3, 2}), classes({1}), ones({1}), classes({1}));
               },
               {"input_lengths", "float32"}},
              {"dice_loss",
               [] {
                 dice_loss(ones({2, 3, 4}), ones({2, 1, 4}));
               },
               {"one shape", "(2, 1, 4)"}},
              {"dice_loss",
               [] {
                 dice_loss(ones({2, 3}), ones({2, 3}));
               },
               {"three axes", "(2, 3)"}},
              {"dice_loss",
               [] {
                 dice_loss(ones({1, 1, 1}), ones({1, 1, 1}), {.smooth = -1.0});
               },
               {"smooth", "-1"}},
          }};
}

}  // namespace adjoint::testing
