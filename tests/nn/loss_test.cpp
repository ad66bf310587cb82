// Losses as modules: each is its function, and its weights are buffers.
#include <adjoint/nn/clone.h>
#include <adjoint/nn/loss.h>
#include <adjoint/tests/nn/registry_modules.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;

TEST(LossModules, CallTheFunctions) {
  const Tensor x = Tensor::rand({4, 3}), y = Tensor::rand({4, 3}),
               classes = Tensor::from_vector<std::int64_t>({0, 2, 1, 2}, {4}, {.dtype = kInt64});
  const Reduction sum = Reduction::kSum;
#define ADJOINT_ROW(Kind, Functor, function, Module)         \
  expect_same_bits(#Module, Module()(x, y), function(x, y)); \
  expect_same_bits(#Module ", sum", Module({.reduction = sum})(x, y), function(x, y, sum));
#define ADJOINT_ROW_XP(Kind, Functor, function, Module, parameter, ...) \
  expect_same_bits(#Module, Module()(x, y), function(x, y));            \
  expect_same_bits(#Module ", 0.2", Module({.reduction = sum, .parameter = 0.2})(x, y), function(x, y, sum, 0.2));
#define ADJOINT_ROW_PX(Kind, Functor, function, Module, parameter, ...) \
  expect_same_bits(#Module, Module()(x, y), function(x, y));            \
  expect_same_bits(#Module ", 0.2", Module({.parameter = 0.2, .reduction = sum})(x, y), function(x, y, 0.2, sum));
  ADJOINT_LOSSES(ADJOINT_ROW, ADJOINT_ROW_XP, ADJOINT_ROW_PX)
#undef ADJOINT_ROW
#undef ADJOINT_ROW_XP
#undef ADJOINT_ROW_PX
  const Tensor each = Tensor::rand({3});
  expect_same_bits("bce", BCELoss({.weight = each})(x, y), binary_cross_entropy(x, y, {.weight = each}));
  expect_same_bits("logits", BCEWithLogitsLoss({.weight = each, .pos_weight = y})(x, y),
                   binary_cross_entropy_with_logits(x, y, {.weight = each, .pos_weight = y}));
  expect_same_bits("cross entropy", CrossEntropyLoss({.weight = each, .label_smoothing = 0.1})(x, classes),
                   cross_entropy(x, classes, {.weight = each, .label_smoothing = 0.1}));
  expect_same_bits("nll", NLLLoss({.ignore_index = 1})(x, classes), nll_loss(x, classes, {.ignore_index = 1}));
  expect_same_bits("kl", KLDivLoss({.reduction = Reduction::kBatchMean, .log_target = true})(x, y),
                   kl_div(x, y, {.reduction = Reduction::kBatchMean, .log_target = true}));
}

TEST(LossModules, WeightsAreBuffers) {
  BCEWithLogitsLoss loss({.pos_weight = Tensor::full({2}, 3.0)});
  EXPECT_EQ(names(loss.state_dict()), std::vector<std::string>{"pos_weight"});
  EXPECT_TRUE(loss.parameters().empty());
  const BCEWithLogitsLoss copy = clone(loss);
  loss.to(kFloat64);
  EXPECT_EQ(loss.options().pos_weight.dtype(), kFloat64);
  EXPECT_EQ(copy.options().pos_weight.dtype(), kFloat32);
  const Tensor x = Tensor::zeros({2}, {.dtype = kFloat64}), one = Tensor::ones({2}, {.dtype = kFloat64});
  EXPECT_NEAR(loss(x, one).item<double>(), 3.0 * std::log(2.0), 1e-15);
  EXPECT_TRUE(BCEWithLogitsLoss().state_dict().empty());
  EXPECT_EQ(names(CrossEntropyLoss({.weight = one}).state_dict()), std::vector<std::string>{"weight"});
}

TEST(LossModules, SayWhereTheyStand) {
  Module step("Step");
  const Child<MSELoss> loss = step.register_module("loss", MSELoss());
  EXPECT_ERROR(loss(Tensor::ones({2}), Tensor::ones({3})), "loss: mse_loss: ", "(2,)", "(3,)");
  EXPECT_EQ(to_string(step), "Step(\n  (loss): MSELoss()\n)");
  EXPECT_ERROR(SmoothL1Loss({.beta = -1.0})(Tensor::ones({2}), Tensor::ones({2})), "smooth_l1_loss: ", "-1");
}

}  // namespace
}  // namespace adjoint::nn
