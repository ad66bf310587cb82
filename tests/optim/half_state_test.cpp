// Optimisers of half-precision parameters: state in float32, one rounding of the parameter a step.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace adjoint::optim {
namespace {

/// The first element of a weight that starts at `start`, after `steps` of the same gradient.
template <class Optimiser, class Options>
double after(int steps, double start, double gradient, DType dtype, const Options& options, Device device = kCPU) {
  Tensor weight = Tensor::full({3}, start, {.dtype = dtype, .device = device, .requires_grad = true});
  weight.set_grad(Tensor::full({3}, gradient, {.dtype = dtype, .device = device}));
  Optimiser optimiser({weight}, options);
  for (int t = 0; t < steps; ++t) optimiser.step();
  return weight.to_vector<double>()[0];
}

// Adam moves a weight by lr a step, for every size of a constant gradient. The weight's own rounding, in steps of at
// most 2^-12 (float16) near 0.3, is all that may be lost.
void expect_adam_moves_by_lr(Device device) {
  for (const double gradient : {2e-3, -2e-3, 1e-4, 1e-6}) {
    const double expected = gradient > 0 ? -0.3 : 0.3;
    for (const bool amsgrad : {false, true}) {
      const AdamOptions adam{.lr = 1e-3, .amsgrad = amsgrad};
      const AdamWOptions adamw{.lr = 1e-3, .weight_decay = 0.0, .amsgrad = amsgrad};
      EXPECT_NEAR(after<Adam>(300, 0.0, gradient, kFloat16, adam, device), expected, 0.02) << gradient;
      EXPECT_NEAR(after<AdamW>(300, 0.0, gradient, kFloat16, adamw, device), expected, 0.02) << gradient;
    }
  }
}

TEST(HalfState, AdamMovesAFloat16WeightByItsRateHoweverSmallTheGradient) { expect_adam_moves_by_lr(kCPU); }
TEST(HalfStateCuda, AdamMovesAFloat16WeightByItsRateHoweverSmallTheGradient) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_adam_moves_by_lr(kCUDA);
}

TEST(HalfState, AdamFollowsFloat32UntilTheWeightRounds) {
  // Squares of 300 overflow float16, those of 1e-4 underflow.
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const double gradient : {1e-4, 300.0}) {
      const double rounded = Tensor::full({}, gradient, {.dtype = dtype}).item<double>();
      const double expected = after<Adam>(40, 0.0, rounded, kFloat32, AdamOptions{.lr = 0x1p-10});
      EXPECT_NEAR(after<Adam>(40, 0.0, gradient, dtype, AdamOptions{.lr = 0x1p-10}), expected, 1e-2 * 40 * 0x1p-10);
    }
  }
}

// 1,000 gradients of 2^-10 with momentum 0.999 add up to a buffer near 632 * 2^-10, which bfloat16 would stop adding to
// at 256 * 2^-10: then an addend is half of its last place.
TEST(HalfState, MomentumKeepsSmallAddends) {
  Tensor weight = Tensor::zeros({2}, {.dtype = kBFloat16, .requires_grad = true});
  weight.set_grad(Tensor::full({2}, 0x1p-10, {.dtype = kBFloat16}));
  SGD sgd({weight}, {.lr = 1e-6, .momentum = 0.999});
  for (int t = 0; t < 1000; ++t) sgd.step();
  const NamedTensors state = sgd.state_dict();
  ASSERT_EQ(state[2].first, "0.momentum_buffer");
  EXPECT_EQ(state[2].second.dtype(), kFloat32);
  const double sum = (1.0 - std::pow(0.999, 1000)) / (1.0 - 0.999);
  EXPECT_NEAR(state[2].second.to_vector<double>()[1], sum * 0x1p-10, 1e-4);
}

// momentum * buffer + gradient, and the weight, as float32 has them; nesterov's look ahead too. With a master weight
// the parameter is its rounding, without one it is rounded itself.
TEST(HalfState, TheParameterIsRoundedOnceAStep) {
  const auto half = [](float value) { return static_cast<float>(bfloat16(value)); };
  for (const bool master_weights : {false, true}) {
    for (const bool nesterov : {false, true}) {
      const float gradient = half(0.3F);
      float weight = 1.0F, buffer = 0.0F;
      Tensor p = Tensor::ones({1}, {.dtype = kBFloat16, .requires_grad = true});
      p.set_grad(Tensor::full({1}, 0.3, {.dtype = kBFloat16}));
      SGD sgd({p}, {.lr = 0.5, .momentum = 0.75, .nesterov = nesterov, .master_weights = master_weights});
      for (int t = 0; t < 3; ++t) {
        buffer = t == 0 ? gradient : 0.75F * buffer + gradient;
        weight = weight - 0.5F * (nesterov ? gradient + 0.75F * buffer : buffer);
        if (!master_weights) weight = half(weight);
        sgd.step();
        EXPECT_EQ(p.item<float>(), half(weight)) << t;
      }
    }
  }
}

// Steps of 2^-12 from 1 are lost in bfloat16, whose numbers are 2^-8 apart there.
void expect_small_steps_to_add_up(Device device) {
  for (const DType dtype : {kBFloat16, kFloat16}) {
    for (const bool master_weights : {false, true}) {
      const SGDOptions options{.lr = 0x1p-14, .master_weights = master_weights};
      EXPECT_EQ(after<SGD>(512, 1.0, 1.0, dtype, options, device), master_weights ? 1.0 - 0x1p-5 : 1.0);
    }
  }
}

TEST(MasterWeights, SmallStepsAddUp) { expect_small_steps_to_add_up(kCPU); }
TEST(MasterWeightsCuda, SmallStepsAddUp) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_small_steps_to_add_up(kCUDA);
}

// An element that the program wrote between steps is the start of the next one; the others keep their masters.
void expect_writes_to_be_heeded(Device device) {
  Tensor p = Tensor::ones({5000}, {.dtype = kBFloat16, .device = device, .requires_grad = true});
  p.set_grad(Tensor::ones({5000}, {.dtype = kBFloat16, .device = device}));
  SGD sgd({p}, {.lr = 0x1p-12});
  sgd.step();
  p.detach().narrow(0, 4999, 1).fill_(4.0);
  sgd.step();
  const NamedTensors state = sgd.state_dict();
  ASSERT_EQ(state[2].first, "0.master");
  const auto master = state[2].second.to_vector<double>();
  EXPECT_EQ(master[4998], 1.0 - 0x1p-11);
  EXPECT_EQ(master[4999], 4.0 - 0x1p-12);
  EXPECT_EQ(p.to_vector<double>()[4999], 4.0);
}

TEST(MasterWeights, HeedWhatTheProgramWrites) { expect_writes_to_be_heeded(kCPU); }
TEST(MasterWeightsCuda, HeedWhatTheProgramWrites) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_writes_to_be_heeded(kCUDA);
}

TEST(MasterWeights, AreSavedAndMadeWhereAStateHasNone) {
  const auto make = [] { return Tensor::ones({2}, {.dtype = kBFloat16, .requires_grad = true}); };
  const auto step = [](SGD& sgd, Tensor& p) {
    p.set_grad(Tensor::ones({2}, {.dtype = p.dtype()}));
    sgd.step();
  };
  Tensor p = make(), q = make(), r = make(), s = make().to(kFloat32).detach().requires_grad_();
  SGD first({p}, {.lr = 0x1p-12}), second({q}, {.lr = 1.0}), old({r}, {.lr = 1.0}), wide({s}, {.lr = 1.0});
  step(first, p);
  NamedTensors state = first.state_dict();
  ASSERT_EQ(state.size(), 4U);
  second.load_state_dict(state);
  step(second, q);
  EXPECT_EQ(second.state_dict()[2].second.to_vector<double>()[1], 1.0 - 0x1p-11);
  wide.load_state_dict(state);  // a float32 parameter has no master
  EXPECT_EQ(wide.state_dict().size(), 3U);
  state.erase(state.begin() + 2);  // "0.master"
  old.load_state_dict(state);
  step(old, r);
  EXPECT_EQ(old.state_dict()[2].second.to_vector<double>()[1], 1.0 - 0x1p-12);
}

// A least-squares fit whose steps are soon too small for bfloat16.
double fitted_loss(DType dtype, bool master_weights) {
  manual_seed(3);
  const Tensor x = Tensor::randn({64, 8}), y = matmul(x, Tensor::randn({8, 1}));
  const Tensor inputs = x.to(dtype), targets = y.to(dtype);
  Tensor w = Tensor::zeros({8, 1}, {.dtype = dtype, .requires_grad = true});
  Adam adam({w}, {.lr = 2e-3, .master_weights = master_weights});
  for (int t = 0; t < 3000; ++t) {
    Tape tape;
    tape.backward(mse_loss(matmul(inputs, w), targets));
    adam.step();
    adam.zero_grad();
  }
  return mse_loss(matmul(x, w.detach().to(kFloat32)), y).item<double>();
}

TEST(MasterWeights, ATrainingInBFloat16EndsWhereFloat32sDoes) {
  EXPECT_LT(fitted_loss(kFloat32, true), 1e-4);
  EXPECT_LT(fitted_loss(kBFloat16, true), 1e-4);
  EXPECT_GT(fitted_loss(kBFloat16, false), 1.0);
}

DType state_dtype_after_a_step(const Tensor& weight) {
  Tensor p = weight;
  p.set_grad(Tensor::ones(p.shape(), p.options()));
  Adam adam({p});
  adam.step();
  return adam.state_dict()[2].second.dtype();
}

TEST(HalfState, StateHasADtypeOfItsOwn) {
  const std::vector<std::pair<DType, DType>> expected{{kFloat16, kFloat32},
                                                      {kBFloat16, kFloat32},
                                                      {kFloat32, kFloat32},
                                                      {kFloat64, kFloat64}};
  for (const auto& [parameter, state] : expected) {
    EXPECT_EQ(state_dtype_after_a_step(Tensor::ones({2}, {.dtype = parameter, .requires_grad = true})), state)
        << to_string(parameter);
  }
}

TEST(HalfState, FollowsAModuleThatIsConverted) {
  nn::Linear layer(3, 2);
  Adam adam(layer.parameters());
  const auto step = [&](double gradient) {
    for (Tensor& p : layer.parameters()) p.set_grad(Tensor::full(p.shape(), gradient, p.options()));
    adam.step();
  };
  double average = 0.0;
  int steps = 0;
  for (const DType dtype : {kFloat32, kFloat16, kFloat64, kBFloat16, kFloat32}) {
    layer.to(dtype);
    step(1e-3);
    average = 0.9 * average + 0.1 * layer.bias.grad().to_vector<double>()[0];
    const NamedTensors state = adam.state_dict();
    const std::size_t at = dtype == kFloat16 || dtype == kBFloat16 ? 6 : 5;  // a parameter has a master, or has not
    const Tensor& exp_avg = state[at].second;
    ASSERT_EQ(state[at].first, "1.exp_avg");
    EXPECT_EQ(exp_avg.dtype(), dtype == kFloat64 ? kFloat64 : kFloat32);
    EXPECT_NEAR(exp_avg.to_vector<double>()[1], average, 1e-9);
    EXPECT_EQ(state[at - 1].second.item<std::int64_t>(), ++steps);
  }
}

TEST(HalfState, SavedAsFloat32AndLoadedExactly) {
  const std::string path = ::testing::TempDir() + "adjoint_half_state.safetensors";
  const auto weight = [] { return Tensor::full({4}, 0.5, {.dtype = kFloat16, .requires_grad = true}); };
  Tensor p = weight(), q = weight();
  const Tensor gradient = Tensor::from_vector<float>({1e-4F, 2e-3F, -0.3F, 7.0F}, {4}, {.dtype = kFloat16});
  p.set_grad(gradient);
  Adam first({p}), second({q});
  for (int t = 0; t < 5; ++t) first.step();
  nn::save_safetensors(path, first.state_dict());
  q.copy_(p);
  second.load_state_dict(nn::load_safetensors(path).tensors);
  std::filesystem::remove(path);
  EXPECT_EQ(second.state_dict()[3].second.to_vector<float>(), first.state_dict()[3].second.to_vector<float>());
  q.set_grad(gradient);
  for (int t = 0; t < 5; ++t) {
    first.step();
    second.step();
  }
  EXPECT_EQ(p.to_vector<float>(), q.to_vector<float>());
}

TEST(HalfState, NarrowerStateIsConvertedAsItIsLoaded) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    for (const DType old : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
      Tensor p = Tensor::ones({2}, {.dtype = dtype, .requires_grad = true});
      SGD sgd({p}, {.lr = 1.0, .momentum = 0.5});
      const NamedTensors state{{"lr", Tensor::scalar(0.25, {.dtype = kFloat64})},
                               {"0.step", Tensor::from_vector<std::int64_t>({3}, {}, {.dtype = kInt64})},
                               {"0.momentum_buffer", Tensor::from_vector<float>({0.375F, -2.0F}, {2}, {.dtype = old})}};
      if (old == kFloat64 && dtype != kFloat64) {
        EXPECT_ERROR(sgd.load_state_dict(state), "load_state_dict (SGD): '0.momentum_buffer' must be float32 (2,)",
                     "got float64 (2,)");
        EXPECT_EQ(sgd.state_dict().size(), 2U);
        EXPECT_EQ(sgd.lr(), 1.0);
        continue;
      }
      sgd.load_state_dict(state);
      const Tensor buffer = sgd.state_dict()[2].second;
      EXPECT_EQ(buffer.dtype(), dtype == kFloat64 ? kFloat64 : kFloat32);
      EXPECT_EQ(buffer.to_vector<float>(), (std::vector<float>{0.375F, -2.0F}));
      p.set_grad(Tensor::zeros({2}, {.dtype = dtype}));
      sgd.step();  // buffer / 2
      EXPECT_EQ(p.to_vector<float>(), (std::vector<float>{1.0F - 0.25F * 0.1875F, 1.25F}));
    }
  }
  Tensor p = Tensor::ones({2}, {.dtype = kFloat16, .requires_grad = true});
  SGD sgd({p}, {.momentum = 0.5});
  EXPECT_ERROR(sgd.load_state_dict({{"lr", Tensor::scalar(0.25)},
                                    {"0.step", Tensor::from_vector<std::int64_t>({3}, {}, {.dtype = kInt64})},
                                    {"0.momentum_buffer", Tensor::ones({2}, {.dtype = kInt32})}}),
               "got int32 (2,)");
}

}  // namespace
}  // namespace adjoint::optim
