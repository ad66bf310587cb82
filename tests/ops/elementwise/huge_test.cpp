// Functions of huge arguments: results and gradients equal their limits, although squares and exponentials on the way
// leave the range.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/elementwise/activation.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Limits {
  const char* name;
  Tensor (*f)(const Tensor&);
  double below, above;  // results far out; infinite: as x itself
  double slope_below, slope_above;
  double first = 0.0, last = kInfinity;  // the points at which limits are reached, and at which the formula ends
};

const std::vector<Limits>& functions() {
  static const std::vector<Limits> all{
      {"relu", relu, 0, kInfinity, 0, 1},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }, -kInfinity, kInfinity, 0.01, 1},
      {"tanh", tanh, -1, 1, 0, 0},
      {"sigmoid", sigmoid, 0, 1, 0, 0},
      {"silu", silu, 0, kInfinity, 0, 1},
      {"relu6", relu6, 0, 6, 0, 0},
      {"hardtanh", [](const Tensor& x) { return hardtanh(x); }, -1, 1, 0, 0},
      {"elu", [](const Tensor& x) { return elu(x); }, -1, kInfinity, 0, 1},
      {"selu", selu, -1.7580993408473766, kInfinity, 0, 1.0507009873554805},
      {"gelu", gelu, 0, kInfinity, 0, 1},
      {"gelu_tanh", gelu_tanh, 0, kInfinity, 0, 1},
      {"softplus", [](const Tensor& x) { return softplus(x); }, 0, kInfinity, 0, 1},
      {"logsigmoid", logsigmoid, -kInfinity, 0, 1, 0},
      {"softsign", softsign, -1, 1, 0, 0, 1e20, 3e38},
      {"mish", mish, 0, kInfinity, 0, 1},
      {"hardsigmoid", hardsigmoid, 0, 1, 0, 0},
      {"hardswish", hardswish, 0, kInfinity, 0, 1},
      {"erf", erf, -1, 1, 0, 0},
      {"atan", atan, -1.5707963267948966, 1.5707963267948966, 0, 0, 1e20, 1e30},
  };
  return all;
}

void expect_limits(const Limits& of, double at, DType dtype, Device device) {
  SCOPED_TRACE(of.name);
  SCOPED_TRACE(at);
  const Tensor x = Tensor::from_vector<double>({-at, at}, {2}, {.dtype = dtype}).to(device).requires_grad_();
  const double rounded = x.detach().to(kCPU).to_vector<double>()[1];
  Tape tape;
  const Tensor y = of.f(x);
  const std::vector<double> results = y.detach().to(kCPU).to_vector<double>();
  const double below = std::isinf(of.below) ? -rounded : of.below, above = std::isinf(of.above) ? rounded : of.above;
  const double tolerance = dtype == kFloat64 ? 1e-14 : 1e-6;
  const bool leaky = std::string(of.name) == "leaky_relu", scaled = std::string(of.name) == "selu";
  const auto near = [&](double found, double wanted) {
    return found == wanted || std::abs(found - wanted) <= tolerance * std::max(1.0, std::abs(wanted));
  };
  EXPECT_TRUE(near(results[0], below * (leaky ? 0.01 : 1.0))) << results[0];
  const double grown = scaled ? above * 1.0507009873554805 : above;
  EXPECT_TRUE(near(results[1], grown) || (std::isinf(results[1]) && scaled)) << results[1];
  Tensor slopes = tape.gradient(y.sum(), {x}, {.record = true})[0];
  expect_near("gradient", slopes.detach().to(kCPU), {of.slope_below, of.slope_above}, tolerance);
  for (int order = 2; order <= 3 && slopes.requires_grad(); ++order) {
    slopes = tape.gradient(slopes.sum(), {x}, {.record = true})[0];
    for (const double slope : slopes.detach().to(kCPU).to_vector<double>()) {
      EXPECT_LE(std::abs(slope), tolerance) << "order " << order;
    }
  }
}

void expect_all_limits(Device device) {
  for (const Limits& of : functions()) {
    for (const DType dtype : {kFloat32, kFloat64}) {
      for (const double at : {1e6, 1e13, 1e20, 1e30, 3e38, kInfinity}) {
        if (at >= of.first && at <= of.last) expect_limits(of, at, dtype, device);
      }
    }
  }
}

TEST(HugeOperands, ActivationsTendToTheirLimits) { expect_all_limits(kCPU); }

TEST(HugeOperands, ActivationsTendToTheirLimitsCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  expect_all_limits(kCUDA);
}

std::vector<double> gradients(const std::vector<Tensor>& at, const Tensor& g, Tensor (*f)(const std::vector<Tensor>&)) {
  std::vector<Tensor> leaves;
  for (const Tensor& each : at) leaves.push_back(each.clone().requires_grad_());
  Tape tape;
  std::vector<double> all;
  for (const Tensor& each : tape.gradient((f(leaves) * g).sum(), leaves)) {
    for (const double value : each.to_vector<double>()) all.push_back(value);
  }
  return all;
}

Tensor one(double value, DType dtype = kFloat32) { return Tensor::from_vector<double>({value}, {1}, {.dtype = dtype}); }

void expect_relative(const std::string& what, const std::vector<double>& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i] / wanted[i], 1.0, 1e-6) << what << " " << i << ": " << found[i] << ", " << wanted[i];
  }
}

TEST(HugeOperands, GradientsStayInRangeWhereSquaresDoNot) {
  for (const double size : {1e25, 1e-25}) {
    expect_relative("atan2",
                    gradients({one(3 * size), one(4 * size)}, one(1),
                              [](const auto& in) { return atan2(in[0], in[1]); }),
                    {4.0 / 25 / size, -3.0 / 25 / size});
  }
  expect_relative("rsqrt", gradients({one(1e-30)}, one(1e-20), [](const auto& in) { return rsqrt(in[0]); }), {-5e24});
  expect_relative("rsqrt", gradients({one(1e30)}, one(1e20), [](const auto& in) { return rsqrt(in[0]); }), {-5e-26});
  expect_relative("softsign", gradients({one(1e25)}, one(1e20), [](const auto& in) { return softsign(in[0]); }),
                  {1e-30});
}

// The quotient of 16 bits is rounded; the gradient in the divisor is not that of the rounded one.
TEST(HugeOperands, QuotientsGradientsReadTheOperands) {
  const double a = 1.0, b = 1.4140625, g = 1.0;
  const Tensor rounded = one(-g * a / (b * b), kFloat64).to(kBFloat16);
  const std::vector<double> found = gradients({one(a, kBFloat16), one(b, kBFloat16)}, one(g, kBFloat16),
                                              [](const auto& in) { return in[0] / in[1]; });
  EXPECT_EQ(found[1], rounded.item<double>());
  const std::vector<double> of_scalar =
      gradients({one(b, kBFloat16)}, one(g, kBFloat16), [](const auto& in) { return 1.0 / in[0]; });
  EXPECT_EQ(of_scalar[0], rounded.item<double>());
}

}  // namespace
}  // namespace adjoint::testing
