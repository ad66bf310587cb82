// Gradient clipping against PyTorch's numbers (tests/fixtures/optim.json).
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/optim/clip.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/fixtures.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <limits>
#include <vector>

namespace adjoint::optim {
namespace {

using Json = nlohmann::json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor with_gradient(const std::vector<double>& gradient, DType dtype = kFloat64, Device device = kCPU) {
  const Shape shape{static_cast<std::int64_t>(gradient.size())};
  Tensor parameter = Tensor::zeros(shape, {.dtype = dtype, .device = device, .requires_grad = true});
  parameter.set_grad(Tensor::from_vector(gradient, shape, {.dtype = dtype, .device = device}));
  return parameter;
}

TEST(ClipGradNorm, NormsAndGradientsArePyTorchs) {
  std::ifstream file(testing::fixture("optim.json"));
  const Json cases = Json::parse(file)["clip"];
  ASSERT_EQ(cases.size(), 8U);
  for (const Json& c : cases) {
    SCOPED_TRACE(c.dump());
    std::vector<Tensor> parameters;
    for (const Json& gradient : c["gradients"]) parameters.push_back(with_gradient(gradient));
    const double p = c["norm_type"].is_string() ? kInfinity : c["norm_type"].get<double>();
    const Tensor norm = clip_grad_norm_(parameters, c["max_norm"], {.norm_type = p});
    EXPECT_NEAR(norm.item<double>(), c["norm"].get<double>(), 1e-14 * c["norm"].get<double>());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto expected = c["clipped"][i].get<std::vector<double>>();
      const auto actual = parameters[i].grad().to_vector<double>();
      for (std::size_t j = 0; j < expected.size(); ++j) EXPECT_NEAR(actual[j], expected[j], 1e-14);
    }
  }
}

TEST(ClipGradNorm, SumsLongGradientsOfMixedDtypesTheSameWhateverTheThreads) {
  const std::size_t n = 3 * 32768 + 11;
  const std::vector<Tensor> parameters{with_gradient(std::vector<double>(n, 0.5), kFloat32),
                                       with_gradient(std::vector<double>(n, 2.0), kBFloat16), with_gradient({})};
  const double expected = std::sqrt(4.25 * static_cast<double>(n));
  const double norm = clip_grad_norm_(parameters, 1e9).item<double>();
  EXPECT_DOUBLE_EQ(norm, expected);
  const int threads = num_threads();
  set_num_threads(1);
  EXPECT_EQ(clip_grad_norm_(parameters, expected / 4).item<double>(), norm);
  set_num_threads(threads);
  EXPECT_NEAR(parameters[0].grad().to_vector<float>().back(), 0.125F, 1e-7F);
  EXPECT_EQ(parameters[1].grad().to_vector<float>().back(), 0.5F);
}

TEST(ClipGradNorm, ParametersWithoutGradientsAndOtherStrides) {
  Tensor parameter = Tensor::zeros({2, 2}, {.requires_grad = true});
  const Tensor held = Tensor::from_vector<float>({3, 0, 0, 4}, {2, 2}).view_as({2, 2}, {1, 2}, 0);
  parameter.set_grad(held);
  const Tensor none = Tensor::zeros({3}, {.requires_grad = true});
  const Tape tape;
  EXPECT_EQ(clip_grad_norm_({none, parameter}, 2.5).item<double>(), 5.0);
  EXPECT_NEAR(held.to_vector<float>()[3], 2.0F, 1e-6F);
  EXPECT_FALSE(none.grad().defined());
  EXPECT_EQ(tape.size(), 0U);
  EXPECT_EQ(clip_grad_norm_({none}, 1.0).item<double>(), 0.0);
}

TEST(ClipGradNorm, ANormThatIsNotFinite) {
  for (const double p : {1.0, 2.0, kInfinity}) {
    const Tensor bad = with_gradient({1.0, std::nan(""), 2.0});
    EXPECT_ERROR(clip_grad_norm_({bad}, 1.0, {.norm_type = p, .error_if_nonfinite = true}),
                 "clip_grad_norm_: the norm of the gradients must be finite; got nan");
    EXPECT_EQ(bad.grad().to_vector<double>()[2], 2.0);
    EXPECT_TRUE(std::isnan(clip_grad_norm_({bad}, 1.0, {.norm_type = p}).item<double>()));
    EXPECT_TRUE(std::isnan(bad.grad().to_vector<double>()[2]));
  }
}

TEST(ClipGradNorm, BadArgumentsAreErrors) {
  const Tensor p = with_gradient({1.0});
  EXPECT_ERROR(clip_grad_norm_({p}, -1.0), "clip_grad_norm_: max_norm must not be negative; got -1");
  EXPECT_ERROR(clip_grad_norm_({p}, std::nan("")), "max_norm must not be negative; got nan");
  EXPECT_ERROR(clip_grad_norm_({p}, 1.0, {.norm_type = 0.0}), "clip_grad_norm_: norm_type must be above 0; got 0");
  EXPECT_ERROR(clip_grad_norm_({p, Tensor{}}, 1.0), "clip_grad_norm_: parameter must be defined");
  EXPECT_ERROR(clip_grad_value_({p}, -0.5), "clip_grad_value_: clip_value must not be negative; got -0.5");
}

// x^3's gradient, recorded: 3 x^2. If the tape ends first, the recording is gone when the gradient is clipped.
Tensor cube_with_recorded_gradient(const std::vector<double>& values) {
  Tensor x = Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())},
                                 {.dtype = kFloat64, .requires_grad = true});
  Tape tape;
  tape.backward((x * x * x).sum(), {.record = true});
  return x;
}

TEST(ClipGradNorm, TakesGradientsThatWereMadeWithRecord) {
  for (const bool by_norm : {true, false}) {
    Tensor x = cube_with_recorded_gradient({1, 0, -2});  // 3, 0, 12
    const Tensor held = x.grad();
    ASSERT_TRUE(held.requires_grad());
    if (by_norm) {
      EXPECT_DOUBLE_EQ(clip_grad_norm_({x}, std::sqrt(153.0) / 3).item<double>(), std::sqrt(153.0));
      EXPECT_NEAR(x.grad().to_vector<double>()[2], 4.0, 1e-6);
    } else {
      clip_grad_value_({x}, 5.0);
      EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{3, 0, 5}));
    }
    EXPECT_FALSE(x.grad().requires_grad());
    EXPECT_EQ(held.to_vector<double>(), (std::vector<double>{3, 0, 12}));
    Tape tape;  // the next sweep adds to it
    tape.backward(x.sum());
    EXPECT_NEAR(x.grad().to_vector<double>()[0], by_norm ? 2.0 : 4.0, 1e-6);
  }
}

TEST(ClipGradNorm, LeavesALiveTapesGradientsForTheTape) {
  Tensor x = Tensor::from_vector<double>({2, -1}, {2}, {.dtype = kFloat64, .requires_grad = true});
  Tape tape;
  tape.backward((x * x * x).sum(), {.record = true});  // 12, 3
  const Tensor gradient = x.grad();
  clip_grad_value_({x}, 4.0);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{4, 3}));
  EXPECT_EQ(tape.gradient(gradient.sum(), {x})[0].to_vector<double>(), (std::vector<double>{12, -6}));
}

// A recorded sweep gives both addends one gradient, and an expanded one if the gradients are all equal.
TEST(ClipGradNorm, SharedAndExpandedGradientsAreClippedOnce) {
  Tensor a = Tensor::from_vector<double>({1, 2}, {2}, {.dtype = kFloat64, .requires_grad = true});
  Tensor b = Tensor::from_vector<double>({3, 4}, {2}, {.dtype = kFloat64, .requires_grad = true});
  {
    Tape tape;
    const Tensor total = (a + b).sum();
    tape.backward(total * total, {.record = true});  // 20 everywhere
  }
  EXPECT_EQ(clip_grad_norm_({a, b}, 20.0).item<double>(), 40.0);
  for (const Tensor& p : {a, b}) {
    for (const double g : p.grad().to_vector<double>()) EXPECT_NEAR(g, 10.0, 1e-5);
  }
  const Tensor shared = Tensor::full({2}, 8.0, {.dtype = kFloat64});
  a.set_grad(shared);
  b.set_grad(shared);
  clip_grad_norm_({a, b}, 8.0);
  for (const Tensor& p : {a, b}) {
    for (const double g : p.grad().to_vector<double>()) EXPECT_NEAR(g, 4.0, 1e-5);
  }
}

TEST(ClipGradNorm, SquaresOfHalvesDoNotOverflow) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const std::vector<Tensor> parameters{with_gradient(std::vector<double>(100, 32768.0), dtype),
                                         with_gradient({32768.0 * 8}, kFloat32)};
    EXPECT_EQ(clip_grad_norm_(parameters, 1e30).item<double>(), 32768.0 * std::sqrt(164.0));
    EXPECT_DOUBLE_EQ(clip_grad_norm_(parameters, 1e30, {.norm_type = 3.0}).item<double>(), 32768.0 * std::cbrt(612.0));
    clip_grad_norm_(parameters, 32768.0 * std::sqrt(164.0) / 1024);
    EXPECT_EQ(parameters[0].grad().to_vector<float>()[99], 32.0F);
  }
}

TEST(ClipGradValue, ClampsEveryElement) {
  const std::vector<Tensor> parameters{with_gradient({-3, 0.25, 7}), with_gradient({std::nan(""), 2}, kFloat16)};
  clip_grad_value_(parameters, 1.5);
  EXPECT_EQ(parameters[0].grad().to_vector<double>(), (std::vector<double>{-1.5, 0.25, 1.5}));
  EXPECT_TRUE(std::isnan(parameters[1].grad().to_vector<float>()[0]));
  EXPECT_EQ(parameters[1].grad().to_vector<float>()[1], 1.5F);
}

TEST(ClipCuda, AgreesWithTheCpu) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const double p : {1.0, 2.0, 3.0, kInfinity}) {
    std::vector<Tensor> host, device;
    for (int i = 0; i < 70; ++i) {  // more than one table holds
      std::vector<double> gradient(static_cast<std::size_t>(1 + i * 211));
      for (std::size_t j = 0; j < gradient.size(); ++j)
        gradient[j] = std::sin(static_cast<double>(i) + 0.1 * static_cast<double>(j));
      const DType dtype = i % 3 == 0 ? kFloat64 : kFloat32;
      host.push_back(with_gradient(gradient, dtype));
      device.push_back(with_gradient(gradient, dtype, kCUDA));
    }
    const double norm = clip_grad_norm_(host, 0.75, {.norm_type = p}).item<double>();
    EXPECT_NEAR(clip_grad_norm_(device, 0.75, {.norm_type = p}).item<double>(), norm, 1e-12 * norm);
    clip_grad_value_(host, 1e-3);
    clip_grad_value_(device, 1e-3);
    for (std::size_t i = 0; i < host.size(); ++i) {
      const auto expected = host[i].grad().to_vector<double>(), actual = device[i].grad().to_vector<double>();
      for (std::size_t j = 0; j < expected.size(); ++j) ASSERT_NEAR(actual[j], expected[j], 1e-9);
    }
  }
}

}  // namespace
}  // namespace adjoint::optim
