// Scalar operands: each is rounded to the tensor's dtype once, so that an operator with a scalar is the operator with
// a tensor of it, bit for bit, forward and backward, on both devices.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

constexpr DType kFloatingDTypes[] = {kFloat16, kBFloat16, kFloat32, kFloat64};
constexpr double kInf = std::numeric_limits<double>::infinity();

class ScalarOperands : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam().is_cuda() && !cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  }
  TensorOptions on(DType dtype) const { return {.dtype = dtype, .device = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Devices, ScalarOperands, ::testing::Values(kCPU, kCUDA),
                         [](const auto& test) { return std::string(test.param.is_cuda() ? "Cuda" : "Cpu"); });

struct Case {
  std::string name;
  std::function<Tensor(const Tensor&, double)> scalar;
  std::function<Tensor(const Tensor&, const Tensor&)> tensor;
  bool gradient = true;
};

const std::vector<Case>& cases() {
  using T = const Tensor&;
  static const std::vector<Case> all = {
      {"add", [](T x, double s) { return x + s; }, [](T x, T s) { return x + s; }},
      {"scalar add", [](T x, double s) { return s + x; }, [](T x, T s) { return s + x; }},
      {"sub", [](T x, double s) { return x - s; }, [](T x, T s) { return x - s; }},
      {"scalar sub", [](T x, double s) { return s - x; }, [](T x, T s) { return s - x; }},
      {"mul", [](T x, double s) { return x * s; }, [](T x, T s) { return x * s; }},
      {"scalar mul", [](T x, double s) { return s * x; }, [](T x, T s) { return s * x; }},
      {"div", [](T x, double s) { return x / s; }, [](T x, T s) { return x / s; }},
      {"scalar div", [](T x, double s) { return s / x; }, [](T x, T s) { return s / x; }},
      // The tensor's exponent has its gradient's exponent rounded to the dtype: compared forward only.
      {"pow", [](T x, double s) { return pow(abs(x), s); }, [](T x, T s) { return pow(abs(x), s); }, false},
      // Where both are equal, clamp passes the whole gradient and minimum half of it.
      {"clamp_min", [](T x, double s) { return clamp_min(x, s); }, [](T x, T s) { return maximum(x, s); }, false},
      {"clamp_max", [](T x, double s) { return clamp_max(x, s); }, [](T x, T s) { return minimum(x, s); }, false},
      {"eq", [](T x, double s) { return x == s; }, [](T x, T s) { return x == s; }, false},
      {"ne", [](T x, double s) { return x != s; }, [](T x, T s) { return x != s; }, false},
      {"lt", [](T x, double s) { return x < s; }, [](T x, T s) { return x < s; }, false},
      {"le", [](T x, double s) { return x <= s; }, [](T x, T s) { return x <= s; }, false},
      {"gt", [](T x, double s) { return x > s; }, [](T x, T s) { return x > s; }, false},
      {"ge", [](T x, double s) { return x >= s; }, [](T x, T s) { return x >= s; }, false},
      {"mul_", [](T x, double s) { return x.detach().clone().mul_(s); }, [](T x, T s) { return x * s; }, false}};
  return all;
}

// Many numbers, and around the scalar its own rounding and both neighbours.
Tensor around(double scalar, const TensorOptions& options) {
  std::vector<double> values = reals(61, 7);
  for (const double step : {0.0, 0x1p-7, -0x1p-7, 0x1p-10, -0x1p-10, 0x1p-23, -0x1p-23, 0x1p-52}) {
    values.push_back(scalar * (1.0 + step));
  }
  return Tensor::from_vector<double>(values, {static_cast<std::int64_t>(values.size())}, options);
}

TEST_P(ScalarOperands, AreTheTensorOfThem) {
  for (const DType dtype : kFloatingDTypes) {
    for (const double scalar :
         {0.3, 0.1, 1.0 / 3.0, -0.7, 2.7, 1e-3, 1e-7, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-11 + 0x1p-40}) {
      Tensor x = around(scalar, on(dtype));
      const Tensor same = Tensor::full({}, scalar, on(dtype));
      for (const Case& c : cases()) {
        const std::string what = c.name + " " + to_string(dtype) + " " + std::to_string(scalar);
        expect_same_bits(what, c.scalar(x, scalar), c.tensor(x, same));
        if (!c.gradient) continue;
        x.requires_grad_();
        Tape tape;
        const Tensor a = c.scalar(x, scalar), b = c.tensor(x, same);
        expect_same_bits(what + ", gradient", tape.gradient(a.sum(), {x})[0], tape.gradient(b.sum(), {x})[0]);
        x.requires_grad_(false);
      }
    }
  }
}

TEST_P(ScalarOperands, CompareEqualToWhatIsFilledWithThem) {
  for (const DType dtype : kFloatingDTypes) {
    for (const double s : {0.3, 0.1, -0.7, 1e-3, 3.14159, 1.0 / 3.0}) {
      const Tensor x = Tensor::full({3}, s, on(dtype));
      const std::string what = to_string(dtype) + " " + std::to_string(s);
      expect_values(what + " eq", x == s, {1, 1, 1});
      expect_values(what + " ne", x != s, {0, 0, 0});
      expect_values(what + " lt", x < s, {0, 0, 0});
      expect_values(what + " le", x <= s, {1, 1, 1});
      expect_values(what + " gt", x > s, {0, 0, 0});
      expect_values(what + " ge", x >= s, {1, 1, 1});
      expect_values(what + " sub", x - s, {0, 0, 0});
      expect_values(what + " div", x / s, {1, 1, 1});
    }
  }
}

TEST_P(ScalarOperands, TheGradientPassesOnTheBoundsOfClamp) {
  for (const DType dtype : kFloatingDTypes) {
    for (const double s : {0.3, 0.1, -0.7, 1e-3, 1.0 / 3.0}) {
      Tensor x = Tensor::full({2}, s, on(dtype));
      x.requires_grad_();
      Tape tape;
      const std::string what = to_string(dtype) + " " + std::to_string(s);
      expect_values(what + " max", tape.gradient(clamp_max(x, s).sum(), {x})[0], {1, 1});
      expect_values(what + " min", tape.gradient(clamp_min(x, s).sum(), {x})[0], {1, 1});
      expect_values(what + " both", tape.gradient(clamp(x, s, s).sum(), {x})[0], {1, 1});
      expect_values(what + " above", tape.gradient(clamp_max(x * 1.125 + 0.5, s).sum(), {x})[0], {0, 0});
    }
  }
}

TEST_P(ScalarOperands, NanToNumReplacesEachOfTheThree) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : kFloatingDTypes) {
    Tensor x = Tensor::from_vector<double>({1.5, nan, kInf, -kInf, -2.0}, {5}, {.device = GetParam()}).to(dtype);
    x.requires_grad_();
    Tape tape;
    const std::string what = to_string(dtype);
    const Tensor y = nan_to_num(x, 3.0, kInf, -4.0);
    expect_values(what, y, {1.5, 3, kInf, -4, -2});
    expect_values(what + " gradient", tape.gradient(y.sum(), {x})[0], {1, 0, 0, 0, 1});
    expect_values(what + " defaults are finite", isfinite(nan_to_num(x)).to(kFloat32), {1, 1, 1, 1, 1});
  }
  EXPECT_ERROR(nan_to_num(Tensor::ones({2}, on(kFloat16)), 1e6),
               "nan_to_num: a scalar takes the tensor's dtype and must fit it; got 1000000 for float16 (2,)");
  EXPECT_ERROR(nan_to_num(Tensor::ones({2}, on(kFloat16)), 0.0, {}, -1e6), "got -1000000 for float16 (2,)");
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64}) {  // nothing is replaced, so no number must fit
    const Tensor x = Tensor::from_vector<double>({0, 1}, {2}, {.device = GetParam()}).to(dtype);
    for (const double number : {-1e30, 0.5, nan, kInf}) {
      const Tensor y = nan_to_num(x, number, number, number);
      EXPECT_EQ(y.dtype(), dtype);
      expect_values(to_string(dtype), y, {0, 1});
    }
  }
}

TEST_P(ScalarOperands, ThatTheDTypeCannotHoldAreRefused) {
  const Tensor h = Tensor::ones({2}, on(kFloat16)), f = Tensor::ones({2}, on(kFloat32));
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    EXPECT_ERROR(c.scalar(h, 1e6), ": a scalar takes the tensor's dtype and must fit it; got 1000000 for float16 (2,)");
    EXPECT_ERROR(c.scalar(f, -1e300),
                 ": a scalar takes the tensor's dtype and must fit it; got -1e+300 for float32 (2,)");
  }
  EXPECT_ERROR(pow(h, 65520.0), "pow: a scalar takes the tensor's dtype");
  expect_values("infinite bounds", clamp(Tensor::full({1}, 7, on(kInt32)), -kInf, kInf), {7});
  expect_values("an infinite scalar", f * kInf, {kInf, kInf});
}

TEST_P(ScalarOperands, AScaleIsNoOperand) {
  // 2^-30 is 0 in float16, and 2^-30 of 2^14 is not.
  Tensor x = Tensor::zeros({1}, on(kFloat16));
  x.add_(Tensor::full({1}, 0x1p14, on(kFloat16)), 0x1p-30);
  expect_values("add_", x, {0x1p-16});
  EXPECT_ERROR(Tensor::ones({1}, on(kInt32)).add_(Tensor::ones({1}, on(kInt32)), 0.5), "add_: a scalar takes");
}

// Numbers that an operator works out do not have to fit: 70,000 is beyond float16.
TEST_P(ScalarOperands, DivisorsBeyondTheRangeStayInFloat32) {
  Tensor x = Tensor::ones({70000}, on(kFloat16));
  x.requires_grad_();
  const Tensor zeros = Tensor::zeros({70000}, on(kFloat16));
  Tape tape;
  const double each = convert<float16>(1.0F / 70000.0F);
  EXPECT_EQ(tape.gradient(x.mean(), {x})[0].select(0, 69999).item<double>(), each);
  EXPECT_EQ(var(x, {0}).item<double>(), 0.0);
  const Tensor first = tape.gradient(mse_loss(x, zeros), {x}, {.record = true})[0];
  const Tensor second = tape.gradient(first.narrow(0, 0, 1).sum(), {x})[0];
  EXPECT_EQ(second.select(0, 0).item<double>(), static_cast<double>(convert<float16>(2.0F / 70000.0F)));
}

// d/dx x^e = e x^(e-1): the exponent e - 1 of the gradient is not rounded to bfloat16, which cannot hold 0.0078125 - 1.
TEST_P(ScalarOperands, AGradientsExponentKeepsItsBits) {
  const double e = 0x1.02p-7;  // exact in bfloat16
  Tensor x = Tensor::full({1}, 0x1p100, on(kBFloat16));
  x.requires_grad_();
  Tape tape;
  const double expected = convert<bfloat16>(std::pow(0x1p100, e - 1.0) * e);
  EXPECT_EQ(tape.gradient(pow(x, e).sum(), {x})[0].item<double>(), expected);
}

}  // namespace
}  // namespace adjoint::testing
