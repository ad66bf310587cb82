// Losses: values, gradients of first and second order, accuracy of long sums, errors, CPU against CUDA.
#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/classification.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/loss_cases.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_values;

using Loss = Tensor (*)(const Tensor&, const Tensor&, Named<Reduction>);
Tensor bce(const Tensor& x, const Tensor& y, Named<Reduction> r) {
  return binary_cross_entropy_with_logits(x, y, {.reduction = r});
}
Tensor kl(const Tensor& x, const Tensor& y, Named<Reduction> r) { return kl_div(x, y, {.reduction = r}); }
const std::vector<Loss>& losses() {
  static const std::vector<Loss> all = [] {
    std::vector<Loss> found{bce, kl};
    for (const testing::LossCase& c : testing::loss_cases()) found.push_back(c.call);
    return found;
  }();
  return all;
}
constexpr Reduction kReductions[] = {Reduction::kMean, Reduction::kSum, Reduction::kNone};

Tensor vector(const std::vector<double>& values, DType dtype = kFloat32) {
  return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())}, {.dtype = dtype});
}

TEST(Loss, ValuesOfEveryReductionAndDtype) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor a = vector({1, -2, 0.5, 4}, dtype), b = vector({3, -2, 0, 1}, dtype);
    EXPECT_EQ(mse_loss(a, b, Reduction::kNone).to_vector<double>(), (std::vector<double>{4, 0, 0.25, 9}));
    EXPECT_EQ(l1_loss(a, b, Reduction::kNone).to_vector<double>(), (std::vector<double>{2, 0, 0.5, 3}));
    EXPECT_EQ(mse_loss(a, b, Reduction::kSum).item<double>(), 13.25);
    EXPECT_EQ(l1_loss(a, b, Reduction::kSum).item<double>(), 5.5);
    EXPECT_EQ(mse_loss(a, b).item<double>(), 3.3125);
    EXPECT_EQ(l1_loss(a, b).item<double>(), 1.375);
    EXPECT_EQ(mse_loss(a, b).dtype(), dtype);
    EXPECT_EQ(mse_loss(a, b).shape(), Shape{});
  }
}

TEST(Loss, GradientsOfBothOperands) {
  const Tensor a = vector({1, -2, 0.5, 4}).requires_grad_(), b = vector({3, -2, 0, 1}).requires_grad_();
  const auto gradients = [&](Loss loss, Reduction reduction) {
    Tape tape;
    const std::vector<Tensor> both = tape.gradient(loss(a, b, reduction), {a, b});
    std::vector<float> values = both[0].to_vector<float>(), second = both[1].to_vector<float>();
    values.insert(values.end(), second.begin(), second.end());
    return values;
  };
  EXPECT_EQ(gradients(mse_loss, Reduction::kSum), (std::vector<float>{-4, 0, 1, 6, 4, 0, -1, -6}));
  EXPECT_EQ(gradients(mse_loss, Reduction::kMean), (std::vector<float>{-1, 0, 0.25, 1.5, 1, 0, -0.25, -1.5}));
  EXPECT_EQ(gradients(l1_loss, Reduction::kSum), (std::vector<float>{-1, 0, 1, 1, 1, 0, -1, -1}));
  EXPECT_EQ(gradients(l1_loss, Reduction::kMean), (std::vector<float>{-.25, 0, .25, .25, .25, 0, -.25, -.25}));
}

TEST(Loss, FirstAndSecondOrderAgreeWithDifferences) {
  manual_seed(5);
  const Tensor a = Tensor::rand({2, 3}, {.dtype = kFloat64});
  const Tensor b = Tensor::rand({2, 3}, {.dtype = kFloat64}) + 1.5;  // away from the kink
  for (const Loss loss : losses()) {
    for (const Reduction reduction : kReductions) {
      const auto f = [&](const std::vector<Tensor>& in) { return loss(in[0], in[1], reduction); };
      EXPECT_TRUE(gradcheck(f, {a, b}));
      EXPECT_TRUE(gradgradcheck(f, {a, b}));
    }
  }
}

TEST(Loss, ThirdOrder) {
  const Tensor x = vector({3}, kFloat64).requires_grad_();
  const Tensor zero = vector({0}, kFloat64);
  Tape tape;
  const Tensor y = mse_loss(x * x, zero);  // x^4
  const Tensor first = tape.gradient(y, {x}, {.record = true})[0];
  const Tensor second = tape.gradient(first, {x}, {.record = true, .grad_output = vector({1}, kFloat64)})[0];
  const Tensor third = tape.gradient(second, {x}, {.record = true, .grad_output = vector({1}, kFloat64)})[0];
  EXPECT_DOUBLE_EQ(first.item<double>(), 4 * 27);
  EXPECT_DOUBLE_EQ(second.item<double>(), 12 * 9);
  EXPECT_DOUBLE_EQ(third.item<double>(), 24 * 3);
}

TEST(Loss, OperandsOfAnyStrides) {
  const Tensor a = Tensor::from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor b = Tensor::from_vector<float>({1, 4, 2, 5, 3, 6}, {3, 2});
  EXPECT_EQ(mse_loss(a.transpose(0, 1), b).item<float>(), 0.0F);
  EXPECT_EQ(l1_loss(a, b.transpose(0, 1), Reduction::kSum).item<float>(), 0.0F);
}

TEST(Loss, LongSumsKeepFloat32sAccuracyWhateverTheThreads) {
  manual_seed(6);
  const std::int64_t n = 5 * 32768 + 77;
  const Tensor a = Tensor::rand({n}), b = Tensor::rand({n});
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  double squares = 0, absolutes = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    squares += d * d;
    absolutes += std::abs(d);
  }
  EXPECT_NEAR(mse_loss(a, b, Reduction::kSum).item<float>() / squares, 1.0, 2e-7);
  EXPECT_NEAR(l1_loss(a, b, Reduction::kSum).item<float>() / absolutes, 1.0, 2e-7);
  const int threads = num_threads();
  const float many = mse_loss(a, b).item<float>();
  set_num_threads(1);
  EXPECT_EQ(mse_loss(a, b).item<float>(), many);
  set_num_threads(threads);
}

TEST(Loss, SecondOrderOfHalvesIsRoundedOnce) {
  // With n = 70000 and a - b = 1 the derivative in a is g * 2 / n. Its own is u * g * 2 / n in a, and the sum of n
  // terms u * 2 / n in g, each of which float16 rounds by a thousandth.
  const std::int64_t n = 70000;
  const Tensor a = Tensor::ones({n}, {.dtype = kFloat16, .requires_grad = true});
  const Tensor b = Tensor::zeros({n}, {.dtype = kFloat16, .requires_grad = true});
  const Tensor g = Tensor::full({}, 300, {.dtype = kFloat16, .requires_grad = true});
  const Tensor u = Tensor::full({n}, 1000, {.dtype = kFloat16});
  Tape tape;
  const Tensor first = tape.gradient(mse_loss(a, b), {a}, {.record = true, .grad_output = g})[0];
  const std::vector<Tensor> second = tape.gradient(first, {a, b, g}, {.grad_output = u});
  const auto every = [&](double value) { return std::vector<double>(static_cast<std::size_t>(n), value); };
  expect_values("a", second[0], every(2.0 * 300 * 1000 / 70000));
  expect_values("b", second[1], every(-2.0 * 300 * 1000 / 70000));
  expect_values("g", second[2], {2000});
  const Tensor absolute = tape.gradient(l1_loss(a, b), {a}, {.record = true, .grad_output = g})[0];
  expect_values("l1 in g", tape.gradient(absolute, {g}, {.grad_output = u})[0], {1000});
}

TEST(Loss, AnInfiniteGradientStopsWhereAbsoluteOperandsAreEqual) {
  for (const DType dtype : {kFloat16, kFloat32, kFloat64}) {
    const double infinity = std::numeric_limits<double>::infinity();
    const Tensor a = vector({1, 2, 3}, dtype).requires_grad_(), b = vector({1, 1, 5}, dtype);
    for (const Reduction reduction : kReductions) {
      Tape tape;
      const Tensor loss = l1_loss(a, b, reduction);
      const Tensor seed = Tensor::full(loss.shape(), infinity, {.dtype = dtype, .requires_grad = true});
      const Tensor first = tape.gradient(loss, {a}, {.record = true, .grad_output = seed})[0];
      expect_values("first", first, {0, infinity, -infinity});
      const std::vector<Tensor> second =
          tape.gradient(first, {a, seed}, {.grad_output = vector({infinity, 1, 1}, dtype)});
      expect_values("second", second[0], {0, 0, 0});
      if (reduction == Reduction::kNone) expect_values("second in seed", second[1], {0, 1, -1});
      if (reduction == Reduction::kSum) expect_values("second in seed", second[1], {0});
    }
  }
}

// cross_entropy reads halves as they are and writes their gradient so: the bits of casts before and behind float32,
// first and second order, along neighbours and columns.
TEST(Loss, CrossEntropyOfHalvesHasFloat32sBits) {
  std::vector<Device> devices = {kCPU};
  if (cuda_is_available()) devices.push_back(kCUDA);
  for (const Device& device : devices) {
    for (const DType dtype : {kBFloat16, kFloat16}) {
      for (const Shape& shape : {Shape{9, 1000}, Shape{2, 19, 37}}) {
        const Shape places = shape.size() == 2 ? Shape{9} : Shape{2, 37};
        const Tensor x = Tensor::from_vector(testing::reals(shape.numel(), 3), shape).to(device).to(dtype);
        const Tensor target = Tensor::full(places, 7.0, {.dtype = kInt64, .device = device});
        const auto results = [&](bool cast) {
          const Tensor leaf = x.clone().requires_grad_();
          Tape tape;
          const Tensor scores = cast ? leaf.to(kFloat32) : leaf;
          const Tensor each = cross_entropy(scores, target, {.reduction = Reduction::kNone}).to(dtype);
          const Tensor swept = tape.gradient(each.sum(), {leaf}, {.retain = true})[0];
          const Tensor first = tape.gradient(each.sum(), {leaf}, {.record = true})[0];
          return std::vector{each.detach(), swept, first.detach(), tape.gradient((first * first).sum(), {leaf})[0]};
        };
        const std::vector<Tensor> expected = results(true), actual = results(false);
        for (std::size_t i = 0; i < actual.size(); ++i) {
          EXPECT_EQ(actual[i].dtype(), dtype);
          testing::expect_same_bits(to_string(shape) + " " + std::to_string(i), actual[i].to(kCPU),
                                    expected[i].to(kCPU));
        }
      }
    }
  }
}

TEST(Loss, NothingToCompare) {
  const Tensor none = Tensor::zeros({0, 3}, {.requires_grad = true});
  EXPECT_TRUE(std::isnan(mse_loss(none, none).item<float>()));
  EXPECT_EQ(l1_loss(none, none, Reduction::kSum).item<float>(), 0.0F);
  EXPECT_EQ(mse_loss(none, none, Reduction::kNone).shape(), (Shape{0, 3}));
  Tape tape;
  EXPECT_EQ(tape.gradient(mse_loss(none, Tensor::zeros({0, 3})), {none})[0].shape(), (Shape{0, 3}));
}

TEST(Loss, NaNStays) {
  const Tensor a = vector({1, std::nan("")}).requires_grad_(), b = vector({0, 0});
  for (const Loss loss : losses()) {
    EXPECT_TRUE(std::isnan(loss(a, b, Reduction::kMean).item<float>()));
    if (loss == kl) continue;  // linear in the input
    Tape tape;
    EXPECT_TRUE(std::isnan(tape.gradient(loss(a, b, Reduction::kSum), {a})[0].to_vector<float>()[1]));
  }
}

TEST(Loss, EndsOfProbabilitiesHaveFiniteGradients) {
  const Tensor x = vector({0, 0, 1, 1}, kFloat64).requires_grad_(), y = vector({0, 1, 0, 1}, kFloat64).requires_grad_();
  Tape tape;
  const std::vector<Tensor> ends = tape.gradient(binary_cross_entropy(x, y, {.reduction = Reduction::kSum}), {x, y});
  expect_values("input", ends[0], {0, -1e12, 1e12, 0});
  expect_values("target", ends[1], {100, 100, -100, -100});
  const Tensor logarithm = vector({-1, -2}, kFloat64), zero = vector({0, 1}, kFloat64).requires_grad_();
  const Tensor divergence = kl_div(logarithm, zero, {.reduction = Reduction::kSum});
  expect_values("kl_div's target", tape.gradient(divergence, {zero})[0], {0, 3});
}

// 0 (log 0 - x) is 0 for an impossible class too, and so are its gradients, in both orders.
void expect_needless_classes_cost_nothing(Device device) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    const auto made = [&](const std::vector<double>& values) { return vector(values, dtype).to(device); };
    const Tensor x = made({-kInfinity, -1, -kInfinity}).requires_grad_();
    const Tensor y = made({0, 1, 0}).requires_grad_();
    {
      Tape tape;
      const Tensor each = kl_div(x, y, {.reduction = Reduction::kNone});
      expect_values("kl_div", each.detach().to(kCPU), {0, 1, 0});
      const std::vector<Tensor> first = tape.gradient(each.sum(), {x, y}, {.record = true});
      expect_values("input", first[0].detach().to(kCPU), {0, -1, 0});
      expect_values("target", first[1].detach().to(kCPU), {0, 2, 0});
      const std::vector<Tensor> second = tape.gradient(first[0].sum() + first[1].sum(), {x, y});
      expect_values("second order, input", second[0].to(kCPU), {0, -1, 0});
      for (const double value : second[1].to(kCPU).to_vector<double>()) EXPECT_TRUE(std::isfinite(value));
    }
    const Tensor logarithms = made({-kInfinity, 0, -kInfinity}).requires_grad_();
    Tape tape;
    const Tensor each = kl_div(x, logarithms, {.reduction = Reduction::kNone, .log_target = true});
    expect_values("log_target", each.detach().to(kCPU), {0, 1, 0});
    const std::vector<Tensor> first = tape.gradient(each.sum(), {x, logarithms}, {.record = true});
    expect_values("input", first[0].detach().to(kCPU), {0, -1, 0});
    expect_values("target", first[1].detach().to(kCPU), {0, 2, 0});
    const std::vector<Tensor> second = tape.gradient(first[1].sum(), {x, logarithms});
    expect_values("second order", second[1].to(kCPU), {0, 3, 0});
    const Tensor logits = made({-kInfinity, kInfinity, kInfinity, -kInfinity}).requires_grad_();
    const Tensor wanted = made({0, 1, 0, 1});
    const Tensor bce = binary_cross_entropy_with_logits(logits, wanted, {.reduction = Reduction::kNone});
    expect_values("logits", bce.detach().to(kCPU), {0, 0, kInfinity, kInfinity});
    expect_values("logits' gradient", tape.gradient(bce.sum(), {logits})[0].to(kCPU), {0, 0, 1, -1});
    const Tensor scores = made({0, -kInfinity, 0}).requires_grad_();
    const Tensor soft = cross_entropy(scores, made({0.5, 0, 0.5}));
    EXPECT_NEAR(soft.item<double>(), std::log(2.0), 4e-3);
    expect_values("scores", tape.gradient(soft, {scores})[0].to(kCPU), {0, 0, 0});
  }
  const Tensor nan = vector({std::nan("")}).to(device), zero = vector({0}).to(device);
  EXPECT_TRUE(std::isnan(kl_div(nan, zero, {}).item<double>()));
  EXPECT_TRUE(
      std::isnan(kl_div(nan, zero - std::numeric_limits<double>::infinity(), {.log_target = true}).item<double>()));
}

TEST(Loss, NeedlessClassesCostNothing) { expect_needless_classes_cost_nothing(kCPU); }

TEST(LossCuda, NeedlessClassesCostNothing) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_needless_classes_cost_nothing(kCUDA);
}

// sqrt(d^2 + eps^2) of every size of either; smooth_l1's parabola as narrow.
void expect_any_parameter(Device device) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const double size : {1e30, 1e-30, 1.0, 1e-44, 1e-200}) {
      SCOPED_TRACE(size);
      const Tensor x = vector({0, 1e30, -1e30, 1, -1e-30, 3e37}, dtype).to(device).requires_grad_();
      const Tensor zero = zeros_like(x.detach());
      Tape tape;
      const Tensor each = charbonnier_loss(x, zero, size, Reduction::kNone);
      const std::vector<double> values = each.detach().to(kCPU).to_vector<double>();
      const Tensor slopes = tape.gradient(each.sum(), {x}, {.record = true})[0];
      const std::vector<double> first = slopes.detach().to(kCPU).to_vector<double>();
      const std::vector<double> second = tape.gradient(slopes.sum(), {x})[0].to(kCPU).to_vector<double>();
      const std::vector<double> at = x.detach().to(kCPU).to_vector<double>();
      const double least = dtype == kFloat32 ? 1.2e-38 : 0.0;
      const double eps = std::max(size, least);
      for (std::size_t i = 0; i < at.size(); ++i) {
        const double root = std::hypot(at[i], eps);
        EXPECT_NEAR(values[i] / root, 1.0, size < 1e-38 && i == 0 ? 1.0 : 1e-6) << at[i];
        EXPECT_NEAR(first[i], at[i] / root, 1e-6) << at[i];
        const double curve = eps / root * (eps / root) / root;
        // Its own factors are at float32's end otherwise.
        if (curve < 1e37 && i != 0 && eps > 1e-37) {
          EXPECT_NEAR(second[i], curve, 1e-5 * curve + 1e-37) << at[i];
        }
        EXPECT_FALSE(std::isnan(second[i])) << at[i];
      }
      const Tensor l1 = smooth_l1_loss(x, zero, Reduction::kNone, size),
                   huber = huber_loss(x, zero, Reduction::kNone, size);
      for (const Tensor& other : {l1, huber}) {
        const std::vector<double> slope =
            tape.gradient(other.sum(), {x}, {.retain = true})[0].to(kCPU).to_vector<double>();
        EXPECT_FALSE(std::isnan(other.sum().item<double>()));
        EXPECT_EQ(slope[0], 0.0);
        for (const double value : slope) EXPECT_FALSE(std::isnan(value));
      }
    }
  }
}

TEST(Loss, ParametersOfAnySize) { expect_any_parameter(kCPU); }

TEST(LossCuda, ParametersOfAnySize) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_any_parameter(kCUDA);
}

TEST(Loss, IgnoresAnIndexThatFloat64DoesNotHold) {
  constexpr std::int64_t kIgnored = (std::int64_t{1} << 53) + 1;
  const Tensor scores = Tensor::from_vector<double>({0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor target = Tensor::from_vector<std::int64_t>({kIgnored, 1}, {2}, {.dtype = kInt64});
  const Tensor kept = Tensor::from_vector<std::int64_t>({-100, 1}, {2}, {.dtype = kInt64});
  for (const std::int64_t ignored :
       {kIgnored, -kIgnored, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    const Tensor both = Tensor::from_vector<std::int64_t>({ignored, 1}, {2}, {.dtype = kInt64});
    EXPECT_EQ(cross_entropy(scores, both, {.ignore_index = ignored}).item<double>(),
              cross_entropy(scores, kept).item<double>());
    EXPECT_EQ(nll_loss(scores, both, {.ignore_index = ignored}).item<double>(), nll_loss(scores, kept).item<double>());
  }
  EXPECT_ERROR(cross_entropy(scores, target, {.ignore_index = kIgnored - 1}), "the ignored index", "9007199254740993");
}

TEST(Loss, OperandsThatDifferAreErrors) {
  const Tensor a = Tensor::zeros({2, 3});
  EXPECT_ERROR(mse_loss(a, Tensor::zeros({3})),
               "mse_loss: input and target must have one shape; got input (2, 3), target (3,)");
  EXPECT_ERROR(l1_loss(a, Tensor::zeros({2, 1})), "l1_loss: input and target must have one shape");
  EXPECT_ERROR(mse_loss(a, Tensor::zeros({2, 3}, {.dtype = kFloat64})),
               "must have one dtype; got input float32, target float64");
  EXPECT_ERROR(l1_loss(Tensor::zeros({2}, {.dtype = kInt64}), Tensor::zeros({2}, {.dtype = kInt64})),
               "l1_loss: input must be floating point; got int64");
  EXPECT_ERROR(mse_loss(Tensor{}, a), "mse_loss: input must be defined");
  EXPECT_ERROR(mse_loss(a, Tensor{}), "mse_loss: target must be defined");
}

TEST(LossCuda, AgreesWithTheCpu) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  manual_seed(7);
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    for (const std::int64_t n : {1, 255, 8193, 100003}) {
      const Tensor a = Tensor::rand({n}).to(dtype).requires_grad_(), b = Tensor::rand({n}).to(dtype);
      const Tensor ca = a.detach().to(kCUDA).requires_grad_(), cb = b.to(kCUDA);
      const double tolerance = dtype == kFloat64 ? 1e-14 : dtype == kFloat32 ? 1e-6 : 1e-2;
      for (const Loss loss : losses()) {
        for (const Reduction reduction : kReductions) {
          Tape tape;
          const Tensor host = loss(a, b, reduction), device = loss(ca, cb, reduction);
          const auto expected = host.to_vector<double>(), actual = device.to_vector<double>();
          const Tensor seed = Tensor::rand(host.shape()).to(dtype);
          const auto slope = tape.gradient(host, {a}, {.grad_output = seed})[0].to_vector<double>();
          const auto device_slope = tape.gradient(device, {ca}, {.grad_output = seed.to(kCUDA)})[0].to_vector<double>();
          for (std::size_t i = 0; i < expected.size(); ++i) {
            if (actual[i] == expected[i]) continue;  // infinite: a sum that float16 does not hold
            ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i])))
                << to_string(dtype) << " " << n;
          }
          for (std::size_t i = 0; i < slope.size(); ++i) {
            ASSERT_NEAR(device_slope[i], slope[i], tolerance * (1 + std::abs(slope[i])))
                << to_string(dtype) << " " << n;
          }
        }
      }
    }
  }
}

TEST(Loss, AMeanOverTheBatchNeedsAnAxis) {
  const Tensor one = Tensor::ones({});
  EXPECT_ERROR(kl_div(one, one, Reduction::kBatchMean), "kl_div: a mean over the batch needs an axis; got shape ()");
}

}  // namespace
}  // namespace adjoint
