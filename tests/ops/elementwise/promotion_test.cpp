// The dtypes of results whose operands have several, by PyTorch's rules, and their values and gradients.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/factories.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_values;

constexpr DType kFloating[] = {kFloat16, kBFloat16, kFloat32, kFloat64};
constexpr DType kIntegers[] = {kInt32, kInt64, kUInt8};

Tensor three(DType dtype) { return Tensor::from_vector({1, 0, 3}, {3}, {.dtype = kInt64}).to(dtype); }

void expect(const std::string& what, const Tensor& actual, DType dtype, const std::vector<double>& values) {
  EXPECT_EQ(actual.dtype(), dtype) << what;
  expect_values(what, actual, values);
}

class Promotion : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam().is_cuda() && !cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Promotion, ::testing::Values(kCPU, kCUDA),
                         [](const auto& test) { return std::string(test.param.is_cuda() ? "Cuda" : "Cpu"); });

TEST_P(Promotion, IntegersTakeTheFloatingPointDType) {
  for (const DType floating : kFloating) {
    const Tensor f = Tensor::from_vector({0.5, 2.0, -1.0}, {3}, {.dtype = floating, .device = GetParam()});
    for (const DType integer : kIntegers) {
      const std::string what = to_string(floating) + " " + to_string(integer);
      const Tensor i = three(integer).to(GetParam());
      expect(what + " add", i + f, floating, {1.5, 2, 2});
      expect(what + " sub", f - i, floating, {-0.5, 2, -4});
      expect(what + " mul", f * i, floating, {0.5, 0, -3});
      expect(what + " div", i / f, floating, {2, 0, -3});
      expect(what + " maximum", maximum(i, f), floating, {1, 2, 3});
      expect(what + " pow", pow(f, i), floating, {0.5, 1, -1});
      expect(what + " fmod", fmod(i, f * 4.0), floating, {1, 0, 3});
      expect(what + " lt", f < i, kBool, {1, 0, 1});
      expect(what + " eq", i == f + 0.5, kBool, {1, 0, 0});
      expect(what + " where", where(i > 0, i, f), floating, {1, 2, 3});
      expect(what + " broadcast", i.unsqueeze(1) * f, floating, {0.5, 2, -1, 0, 0, -0.0, 1.5, 6, -3});
      expect(what + " without axes", i + f[0], floating, {1.5, 0.5, 3.5});
      expect(what + " lerp", lerp(i, f, i * 0 + 1), floating, {0.5, 2, -1});
    }
    const Tensor mask = (f > 0.0);
    expect("mask", mask * f, floating, {0.5, 2, -0.0});
    expect("mask beside integers", mask + three(kInt32).to(GetParam()), kInt32, {2, 1, 3});
    expect("logical", logical_and(mask, f), kBool, {1, 1, 0});
  }
}

TEST_P(Promotion, OfIntegersTheWiderWins) {
  const Tensor wide = three(kInt64).to(GetParam()), narrow = three(kInt32).to(GetParam()),
               byte = three(kUInt8).to(GetParam());
  expect("int32 int64", narrow + wide, kInt64, {2, 0, 6});
  expect("uint8 int32", byte * narrow, kInt32, {1, 0, 9});
  expect("uint8 int64", byte - wide, kInt64, {0, 0, 0});
  expect("one without axes follows", byte + wide[2], kUInt8, {4, 3, 6});
  expect("whichever stands first", wide[2] * narrow, kInt32, {3, 0, 9});
  expect("two without axes", byte[2] + wide[2], kInt64, {6});
  expect("bool without axes", (wide > 0)[0] + byte, kUInt8, {2, 1, 4});
  expect("where", where(wide > 0, byte, wide), kInt64, {1, 0, 3});
}

TEST_P(Promotion, AScalarCountsByItsKind) {
  for (const DType integer : kIntegers) {
    const Tensor i = three(integer).to(GetParam());
    const std::string what = to_string(integer);
    expect(what + " * 0.5", i * 0.5, kFloat32, {0.5, 0, 1.5});
    expect(what + " * 2.0", i * 2.0, kFloat32, {2, 0, 6});
    expect(what + " * 2", i * 2, integer, {2, 0, 6});
    expect(what + " + 0.25F", 0.25F + i, kFloat32, {1.25, 0.25, 3.25});
    expect(what + " + true", i + true, integer, {2, 1, 4});
    expect("1.5 - " + what, 1.5 - i, kFloat32, {0.5, 1.5, -1.5});
    expect("3 / " + what, 3 / (i + 1), kFloat32, {1.5, 3, 0.75});
    expect(what + " / 2", i / 2, kFloat32, {0.5, 0, 1.5});
    expect(what + " / itself", (i + 1) / (i + 1), kFloat32, {1, 1, 1});
    expect(what + " fmod 2", fmod(i, 2), integer, {1, 0, 1});
    expect(what + " remainder 0.75", remainder(i, 0.75), kFloat32, {0.25, 0, 0});
    expect(what + " clamp", clamp(i, 0.5, 2.5), kFloat32, {1, 0.5, 2.5});
    expect(what + " clamp of integers", clamp(i, 1, 2), integer, {1, 1, 2});
    expect(what + " clamp_min", clamp_min(i, 1), integer, {1, 1, 3});
    expect(what + " clamp_max", clamp_max(i, 1.5), kFloat32, {1, 0, 1.5});
    expect(what + " where", where(i > 0, i, 0.5), kFloat32, {1, 0.5, 3});
    expect(what + " where of integers", where(i > 0, 7, i), integer, {7, 0, 7});
    expect(what + " exp2", pow(2, i), integer, {2, 1, 8});
  }
  const Tensor mask = three(kBool).to(GetParam());
  expect("bool + 1", mask + 1, kInt64, {2, 1, 2});
  expect("bool * 0.5", mask * 0.5, kFloat32, {0.5, 0, 0.5});
  expect("where of integers", where(mask, 1, 0), kInt64, {1, 0, 1});
  expect("where of an integer and a real", where(mask, 1, 0.5), kFloat32, {1, 0.5, 1});
  expect("where of truths", where(mask, true, false), kBool, {1, 0, 1});
  expect("float64 stays", three(kFloat64).to(GetParam()) * 0.5F, kFloat64, {0.5, 0, 1.5});
  expect("float16 stays", three(kFloat16).to(GetParam()) * 2, kFloat16, {2, 0, 6});
}

TEST_P(Promotion, ComparisonsWithScalarsAreExact) {
  const std::int64_t large = (std::int64_t{1} << 53) - 1;  // which float32 does not hold
  const Tensor x = Tensor::from_vector(std::vector<std::int64_t>{large, 0, 255}, {3}, {.device = GetParam()});
  expect_values("below", x < static_cast<double>(large), {0, 1, 1});
  expect_values("above", x > static_cast<double>(large) - 1.0, {1, 0, 0});
  expect_values("between", x >= 254.5, {1, 0, 1});
  expect_values("never", x == 0.5, {0, 0, 0});
  expect_values("infinity", x < std::numeric_limits<double>::infinity(), {1, 1, 1});
  expect_values("NaN", x != std::numeric_limits<double>::quiet_NaN(), {1, 1, 1});
  const Tensor byte = Tensor::from_vector({0, 255}, {2}, {.dtype = kUInt8, .device = GetParam()});
  expect_values("beyond the dtype", byte < 256, {1, 1});
  expect_values("below the dtype", byte >= -1, {1, 1});
  expect_values("bool", (byte > 0) == 2, {0, 0});
  expect_values("bool and a real", (byte > 0) == 1.0, {0, 1});
}

TEST_P(Promotion, FloatingPointFunctionsTakeIntegers) {
  for (const DType integer : kIntegers) {
    const Tensor i = three(integer).to(GetParam()), f = i.to(kFloat32);
    testing::expect_same_bits("exp", exp(i), exp(f));
    testing::expect_same_bits("sqrt", sqrt(i), sqrt(f));
    testing::expect_same_bits("sin", i.sin(), f.sin());
    testing::expect_same_bits("sigmoid", sigmoid(i), sigmoid(f));
    testing::expect_same_bits("leaky_relu", leaky_relu(i, 0.5), leaky_relu(f, 0.5));
    testing::expect_same_bits("atan2", atan2(i, i), atan2(f, f));
    testing::expect_same_bits("pow", pow(i, 0.5), pow(f, 0.5));
    testing::expect_same_bits("a base", pow(2.5, i), pow(2.5, f));
    expect("square", square(i), integer, {1, 0, 9});
    expect("pow of integers", pow(i, 3), integer, {1, 0, 27});
    expect("pow of tensors", pow(i, i), integer, {1, 1, 27});
  }
  testing::expect_same_bits("bool", exp(three(kBool).to(GetParam())), exp(three(kBool).to(GetParam()).to(kFloat32)));
  const Tensor signs = Tensor::from_vector({1, -1, -1, 2, 0}, {5}, {.device = GetParam()});
  const Tensor powers = Tensor::from_vector({-3, -3, -2, -1, -1}, {5}, {.device = GetParam()});
  expect("negative powers", pow(signs, powers), kInt64, {1, -1, 1, 0, 0});
}

TEST_P(Promotion, InPlaceTakesLesserKinds) {
  Tensor x = Tensor::ones({3}, {.device = GetParam()});
  const Tensor i = three(kInt64).to(GetParam());
  expect("add_", x.add_(i), kFloat32, {2, 1, 4});
  expect("mul_", x.mul_(i > 0), kFloat32, {2, 0, 4});
  expect("sub_", x.sub_(i[2]), kFloat32, {-1, -3, 1});
  expect("div_", x.div_(i + 1), kFloat32, {-0.5, -3, 0.25});
  Tensor narrow = three(kInt32).to(GetParam());
  expect("int64 into int32", narrow += i, kInt32, {2, 0, 6});
}

TEST_P(Promotion, GradientsReachTheFloatingPointOperand) {
  Tensor w = Tensor::from_vector({0.5, 2.0, -1.0}, {3}, {.dtype = kFloat16, .device = GetParam()}).requires_grad_();
  const Tensor i = three(kInt64).to(GetParam());
  Tape tape;
  const std::vector<Tensor> gradients = tape.gradient((i * w + where(i > 0, w, i) + w / (i + 1)).sum(), {w});
  EXPECT_EQ(gradients[0].dtype(), kFloat16);
  expect_values("gradient", gradients[0], {2.5, 1, 4.25});
}

TEST(PromotionErrors, TwoFloatingPointDTypesAreAnError) {
  for (const DType a : kFloating) {
    for (const DType b : kFloating) {
      if (a == b) continue;
      EXPECT_ERROR(three(a) + three(b), "add: operands must share one dtype", "convert one with to()");
      EXPECT_ERROR(three(a) < three(b), "lt: operands must share one dtype");
      EXPECT_ERROR(where(three(kBool), three(a), three(b)), "where: operands must share one dtype");
      EXPECT_ERROR(three(a) * three(b)[0], "mul: operands must share one dtype");
    }
  }
}

}  // namespace
}  // namespace adjoint
