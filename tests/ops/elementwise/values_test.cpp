// Every elementwise function on every dtype it accepts, against plain loops: contiguous, strided, broadcast, long,
// empty.
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/elementwise_cases.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

using testing::ElementwiseCase;
using testing::expect_near;
using testing::expect_same_bits;
using testing::expect_values;
using testing::non_contiguous;
using testing::operand_values;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

std::string test_name(const ::testing::TestParamInfo<ElementwiseCase>& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

class Elementwise : public ::testing::TestWithParam<ElementwiseCase> {};

std::vector<double> reference(const ElementwiseCase& c, const std::vector<std::vector<double>>& in, DType dtype) {
  std::vector<double> results;
  for (std::size_t i = 0; i < in[0].size(); ++i) {
    double x[3] = {};
    for (std::size_t n = 0; n < in.size(); ++n) x[n] = in[n][i];
    const double value = c.reference(x);
    results.push_back(dtype == kUInt8 && value < 0.0 ? value + 256.0 : value);  // wraps around
  }
  return results;
}

void expect_case(const ElementwiseCase& c, DType dtype, const Tensor& actual, const std::vector<double>& expected) {
  const std::string what = c.name + " " + to_string(dtype);
  EXPECT_EQ(actual.dtype(), c.differentiable ? dtype : kBool) << what;
  if (c.exact) {
    expect_values(what, actual, expected);
  } else {
    expect_near(what, actual, expected, testing::tolerance(dtype));
  }
}

TEST_P(Elementwise, MatchesPlainLoops) {
  const ElementwiseCase& c = GetParam();
  const Shape shape{3, 5, 7};
  for (const DType dtype : testing::dtypes(c.takes)) {
    std::vector<std::vector<double>> values;
    std::vector<Tensor> contiguous, strided;
    for (int n = 0; n < c.arity; ++n) {
      values.push_back(operand_values(c, dtype, shape.numel(), n));
      contiguous.push_back(Tensor::from_vector<double>(values.back(), shape, {.dtype = dtype}));
      strided.push_back(non_contiguous(values.back(), shape, {.dtype = dtype}));
    }
    const std::vector<double> expected = reference(c, values, dtype);
    const Tensor result = c.call(contiguous);
    EXPECT_EQ(result.shape(), shape);
    expect_case(c, dtype, result, expected);
    expect_same_bits(c.name + " strided " + to_string(dtype), c.call(strided), result);
    strided[0] = contiguous[0];
    expect_same_bits(c.name + " half strided " + to_string(dtype), c.call(strided), result);
  }
}

// Past the grain that splits work among threads, and past several blocks of gathered elements.
TEST_P(Elementwise, LongTensorsAreTheSameOnAnyNumberOfThreads) {
  const ElementwiseCase& c = GetParam();
  const Shape shape{3, 211, 157};
  std::vector<std::vector<double>> values;
  std::vector<Tensor> in;
  for (int n = 0; n < c.arity; ++n) {
    values.push_back(operand_values(c, kFloat32, shape.numel(), n));
    in.push_back(non_contiguous(values.back(), shape, {}));
  }
  const int before = num_threads();
  set_num_threads(1);
  const Tensor alone = c.call(in);
  set_num_threads(3);
  const Tensor together = c.call(in);
  set_num_threads(before);
  expect_same_bits(c.name, together, alone);
  expect_case(c, kFloat32, alone, reference(c, values, kFloat32));
}

TEST_P(Elementwise, WorksWithoutElements) {
  const ElementwiseCase& c = GetParam();
  const std::vector<Tensor> in(static_cast<std::size_t>(c.arity), Tensor::zeros({2, 0, 3}));
  EXPECT_EQ(c.call(in).shape(), (Shape{2, 0, 3}));
}

TEST_P(Elementwise, GradientsMatchFiniteDifferences) {
  const ElementwiseCase& c = GetParam();
  if (!c.differentiable) {
    Tape tape;
    const std::vector<Tensor> in(static_cast<std::size_t>(c.arity), Tensor::ones({2}, {.requires_grad = true}));
    EXPECT_FALSE(c.call(in).requires_grad());
    return;
  }
  std::vector<Tensor> in;
  for (int n = 0; n < c.arity; ++n) {
    // Inside the range and off the quarters, where no function has a kink.
    std::vector<double> values = testing::reals(6, 40 + static_cast<std::uint64_t>(n));
    for (double& v : values) v = c.low + (c.high - c.low) * (0.1 + 0.8 * (v + 1.0) / 2.0);
    in.push_back(Tensor::from_vector<double>(values, {2, 3}, {.dtype = kFloat64}));
  }
  EXPECT_TRUE(gradcheck(c.call, in));
  EXPECT_TRUE(gradgradcheck(c.call, in));
  if (c.arity == 1) return;
  in[0] = in[0].select(0, 0);
  in[1] = in[1].narrow(1, 0, 1);
  EXPECT_TRUE(gradcheck(c.call, in)) << "broadcast";
  EXPECT_TRUE(gradgradcheck(c.call, in)) << "broadcast";
}

TEST_P(Elementwise, PutsNaNWhereAnOperandIs) {
  const ElementwiseCase& c = GetParam();
  if (!c.differentiable || c.name == "sign" || c.name == "pow/0" || c.name.starts_with("where") ||
      c.name == "masked_fill") {
    return;
  }
  for (int n = 0; n < c.arity; ++n) {
    std::vector<Tensor> in(static_cast<std::size_t>(c.arity), Tensor::ones({3}));
    in[static_cast<std::size_t>(n)] = Tensor::from_vector<double>({1.0, kNaN, 1.0}, {3});
    const std::vector<double> result = c.call(in).to_vector<double>();
    // 1 to any power is 1.
    EXPECT_EQ(std::isnan(result[1]), !(c.name == "pow" && n == 1)) << "operand " << n;
    EXPECT_FALSE(std::isnan(result[0]) || std::isnan(result[2]));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Elementwise, ::testing::ValuesIn(testing::elementwise_cases()), test_name);

class ElementwiseCuda : public ::testing::TestWithParam<ElementwiseCase> {};

TEST_P(ElementwiseCuda, AgreesWithTheCPU) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  const ElementwiseCase& c = GetParam();
  for (const DType dtype : testing::dtypes(c.takes)) {
    for (const Shape& shape : {Shape{3, 5, 7}, Shape{1000, 333}}) {
      std::vector<Tensor> here, there, strided;
      for (int n = 0; n < c.arity; ++n) {
        const std::vector<double> values = operand_values(c, dtype, shape.numel(), n);
        here.push_back(Tensor::from_vector<double>(values, shape, {.dtype = dtype}));
        there.push_back(here.back().to(kCUDA));
        strided.push_back(non_contiguous(values, shape, {.dtype = dtype, .device = kCUDA}));
      }
      const Tensor result = c.call(there);
      EXPECT_TRUE(result.device().is_cuda());
      expect_case(c, dtype, result.to(kCPU), c.call(here).to_vector<double>());
      expect_same_bits(c.name + " strided", c.call(strided).to(kCPU), result.to(kCPU));
    }
  }
}

TEST_P(ElementwiseCuda, GradientsAgreeWithTheCPU) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  const ElementwiseCase& c = GetParam();
  if (!c.differentiable) return;
  const auto gradients = [&](Device device) {
    std::vector<Tensor> in;
    for (int n = 0; n < c.arity; ++n) {
      in.push_back(Tensor::from_vector<double>(operand_values(c, kFloat64, 35, n), {5, 7},
                                               {.dtype = kFloat64, .device = device}));
      in.back().requires_grad_();
    }
    Tape tape;
    tape.backward(c.call(in).sum());
    std::vector<double> all;
    for (const Tensor& x : in) {
      const std::vector<double> grad = x.grad().defined() ? x.grad().to_vector<double>() : std::vector<double>{};
      all.insert(all.end(), grad.begin(), grad.end());
    }
    return all;
  };
  const std::vector<double> here = gradients(kCPU);
  const std::vector<double> there = gradients(kCUDA);
  ASSERT_EQ(here.size(), there.size());
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(here[i], there[i], 1e-12 * (1.0 + std::abs(here[i]))) << i;
}

INSTANTIATE_TEST_SUITE_P(All, ElementwiseCuda, ::testing::ValuesIn(testing::elementwise_cases()), test_name);

TEST(ElementwiseEdges, IntegersWrapAround) {
  const Tensor most = Tensor::full({1}, 0x1p31 - 1, {.dtype = kInt32});
  expect_values("int32 +", most + 1, {-0x1p31});
  expect_values("int32 + tensor", most + most, {-2});
  expect_values("int32 *", most * 2, {-2});
  expect_values("int32 negated", -(most + 1), {-0x1p31});
  expect_values("int32 abs", abs(most + 1), {-0x1p31});
  expect_values("uint8 -", Tensor::full({1}, 3, {.dtype = kUInt8}) - 5, {254});
  expect_values("uint8 negated", -Tensor::full({1}, 3, {.dtype = kUInt8}), {253});
}

TEST(ElementwiseEdges, SpecialValues) {
  const Tensor x = Tensor::from_vector<double>({-kInfinity, -200, -0.0, 0.0, 200, kInfinity}, {6}, {.dtype = kFloat64});
  expect_values("sigmoid", sigmoid(x), {0, 1.0 / (1.0 + std::exp(200.0)), 0.5, 0.5, 1, 1});
  expect_values("softplus", softplus(x), {0, std::exp(-200.0), std::log(2.0), std::log(2.0), 200, kInfinity});
  expect_values("relu", relu(x), {0, 0, 0, 0, 200, kInfinity});
  expect_values("log", log(x), {kNaN, kNaN, -kInfinity, -kInfinity, std::log(200.0), kInfinity});
  expect_values("sqrt", sqrt(x.narrow(0, 2, 4)), {0, 0, std::sqrt(200.0), kInfinity});
  expect_values("division by zero", Tensor::ones({6}, {.dtype = kFloat64}) / x,
                {0, -0.005, -kInfinity, kInfinity, 0.005, 0});
  expect_values("pow 0 of NaN", pow(Tensor::full({1}, kNaN), 0.0), {1});
  expect_values("sign of NaN", sign(Tensor::full({1}, kNaN)), {0});
  EXPECT_TRUE(std::signbit((-Tensor::zeros({1})).item<double>()));
  const Tensor nan = Tensor::full({1}, kNaN);
  expect_values("NaN == NaN", nan == nan, {0});
  expect_values("NaN != NaN", nan != nan, {1});
  expect_values("float16 overflow", Tensor::full({1}, 60000, {.dtype = kFloat16}) * 2.0, {kInfinity});
  // Computed in float32 and rounded once: in steps of float16 the product would be infinite.
  expect_values("float16 silu", silu(Tensor::full({1}, 60000, {.dtype = kFloat16})), {60000});
}

// Bit patterns all over float32: both signs, subnormal results, overflow, infinities, NaNs.
TEST(ElementwiseEdges, ExpAndTanhAreAccurateAllOverFloat32) {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 9973) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  const Tensor x = Tensor::from_vector<float>(values, {static_cast<std::int64_t>(values.size())});
  const std::vector<float> e = exp(x).to_vector<float>(), t = tanh(x).to_vector<float>();
  const auto close = [](float actual, double exact, double units) {
    const auto nearest = static_cast<float>(exact);
    if (!std::isfinite(nearest)) return std::isnan(nearest) ? std::isnan(actual) : actual == nearest;
    const double unit = std::ldexp(1.0, std::max(std::ilogb(exact == 0.0 ? 1e-300 : exact) - 23, -149));
    return std::abs(static_cast<double>(actual) - exact) <= units * unit &&
           std::signbit(actual) == std::signbit(nearest);
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(close(e[i], std::exp(static_cast<double>(values[i])), 1.1)) << "exp(" << values[i] << ") = " << e[i];
    ASSERT_TRUE(close(t[i], std::tanh(static_cast<double>(values[i])), 2.5)) << "tanh(" << values[i] << ") = " << t[i];
  }
}

struct Kink {
  const char* name;
  Tensor (*call)(const Tensor& x);
  std::vector<double> at, gradient;
};

// Conventions where a derivative does not exist: PyTorch's.
TEST(ElementwiseEdges, GradientsAtKinksAreConventional) {
  const std::vector<Kink> kinks = {
      {"abs", [](const Tensor& x) { return abs(x); }, {-1, 0, 2}, {-1, 0, 1}},
      {"relu", [](const Tensor& x) { return relu(x); }, {-1, 0, 2}, {0, 0, 1}},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.25); }, {-1, 0, 2}, {0.25, 0.25, 1}},
      {"clamp", [](const Tensor& x) { return clamp(x, 0, 1); }, {-1, 0, 0.5, 1, 2}, {0, 1, 1, 1, 0}},
      {"sqrt", [](const Tensor& x) { return sqrt(x); }, {0, 4}, {kInfinity, 0.25}},
      {"pow 0", [](const Tensor& x) { return pow(x, 0.0); }, {0, 4}, {0, 0}},
      {"pow 1", [](const Tensor& x) { return pow(x, 1.0); }, {0, 4}, {1, 1}},
      {"pow 2", [](const Tensor& x) { return pow(x, 2.0); }, {0, 4}, {0, 8}},
      {"maximum", [](const Tensor& x) { return maximum(x, Tensor::ones({3})); }, {0, 1, 2}, {0, 0.5, 1}},
      {"minimum", [](const Tensor& x) { return minimum(Tensor::ones({3}), x); }, {0, 1, 2}, {1, 0.5, 0}},
      {"sign", [](const Tensor& x) { return sign(x); }, {-1, 0, 2}, {0, 0, 0}},
      {"base of pow", [](const Tensor& x) { return pow(x, Tensor::zeros({2})); }, {0, 2}, {0, 0}},
      {"exponent of pow", [](const Tensor& x) { return pow(Tensor::zeros({3}), x); }, {0, 1, 2}, {0, 0, 0}},
      {"prelu", [](const Tensor& x) { return prelu(x, Tensor::full({1}, 0.25)); }, {-1, 0, 2}, {0.25, 0.25, 1}},
  };
  for (const Kink& kink : kinks) {
    const Shape shape{static_cast<std::int64_t>(kink.at.size())};
    const Tensor x = Tensor::from_vector<double>(kink.at, shape, {.requires_grad = true});
    Tape tape;
    tape.backward(kink.call(x).sum());
    expect_values(kink.name, x.grad(), kink.gradient);
  }
}

// Exact: of small integers, whose sums float32 holds.
void check_prelu_weight_gradients(Device device) {
  const std::vector<std::pair<Shape, std::int64_t>> cases = {{{2, 12, 64, 64}, 12}, {{3, 5, 7, 33}, 5},
                                                             {{3, 5, 7, 33}, 1},    {{300, 64}, 64},
                                                             {{300, 64}, 1},        {{1000}, 1},
                                                             {{4, 3, 1}, 3},        {{0, 3, 2}, 3},
                                                             {{2, 1, 9}, 1}};
  for (const auto& [shape, weights] : cases) {
    SCOPED_TRACE(::testing::Message() << shape << ", " << weights << " weights");
    std::vector<double> x, g, sums(static_cast<std::size_t>(weights));
    const std::int64_t inner = shape.size() < 2 ? 1 : Shape(shape.begin() + 2, shape.end()).numel();
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
      x.push_back(static_cast<double>(i * 7 % 9 - 4));
      g.push_back(static_cast<double>(i * 5 % 7 - 3));
      if (x.back() <= 0.0) sums[static_cast<std::size_t>(i / inner % weights)] += x.back() * g.back();
    }
    for (const bool transposed : {false, true}) {
      if (transposed && shape.size() < 2) continue;
      const auto placed = [&, &shape = shape](const std::vector<double>& values) {
        const Tensor dense = Tensor::from_vector<double>(values, shape, {.device = device});
        return transposed ? dense.transpose(0, 1).contiguous().transpose(0, 1) : dense;
      };
      const Tensor weight = Tensor::full({weights}, 0.25, {.device = device, .requires_grad = true});
      Tape tape;
      const std::vector<Tensor> found = tape.gradient(prelu(placed(x), weight), {weight}, {.grad_output = placed(g)});
      expect_values("weight's gradient", found[0], sums);
    }
  }
}

TEST(Prelu, WeightGradientsAreSums) { check_prelu_weight_gradients(kCPU); }

TEST(PreluCuda, WeightGradientsAreSums) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  check_prelu_weight_gradients(kCUDA);
}

TEST(Prelu, HasOneSlopeOrOneAChannel) {
  const Tensor x = Tensor::from_vector<double>({-1, 2, -3, 4, -5, 6, -7, 8}, {2, 2, 2});
  expect_values("one", prelu(x, Tensor::full({1}, 0.5)), {-0.5, 2, -1.5, 4, -2.5, 6, -3.5, 8});
  expect_values("two", prelu(x, Tensor::from_vector<double>({0.5, 2}, {2})), {-0.5, 2, -6, 4, -2.5, 6, -14, 8});
  const std::vector<Tensor> in = {Tensor::from_vector<double>(testing::reals(24, 5), {2, 3, 4}, {.dtype = kFloat64}),
                                  Tensor::from_vector<double>(testing::reals(3, 6), {3}, {.dtype = kFloat64})};
  const auto f = [](const std::vector<Tensor>& v) { return square(prelu(v[0], v[1])); };
  EXPECT_TRUE(gradcheck(f, in));
  EXPECT_TRUE(gradgradcheck(f, in));
}

}  // namespace
}  // namespace adjoint
