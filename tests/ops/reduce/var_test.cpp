// var: exact values if a mean or a square does not fit the dtype, every set of axes against two passes in long double,
// non-finite values, gradients of any order.
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_near;
using testing::expect_same_bits;
using testing::expect_values;
using testing::non_contiguous;
using testing::reals;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

Tensor list(const std::vector<double>& values, DType dtype) {
  return Tensor::from_vector<double>(values, {static_cast<std::int64_t>(values.size())}, {.dtype = dtype});
}

// The variance of a matrix's columns, in two passes.
std::vector<double> variances_of_columns(const std::vector<double>& values, std::size_t columns, double correction) {
  const std::size_t rows = values.size() / columns;
  std::vector<double> result;
  for (std::size_t c = 0; c < columns; ++c) {
    long double mean = 0, squares = 0;
    for (std::size_t r = 0; r < rows; ++r) mean += values[r * columns + c];
    mean /= static_cast<long double>(rows);
    for (std::size_t r = 0; r < rows; ++r)
      squares += (values[r * columns + c] - mean) * (values[r * columns + c] - mean);
    result.push_back(static_cast<double>(squares / (static_cast<long double>(rows) - correction)));
  }
  return result;
}

TEST(Var, KeepsWhatTheDTypeRounds) {
  // The mean, 514, is not a bfloat16; nor are 2^25 + 2 and 2^54 + 4 numbers of their dtypes.
  expect_values("bfloat16", var(list({512, 516}, kBFloat16)), {8});
  expect_values("float16", var(list({2048, 2050, 2050}, kFloat16)), {4.0 / 3.0});
  expect_values("float32", var(list({0x1p25, 0x1p25 + 4}, kFloat32)), {8});
  expect_near("float32, population", var(list({0x1p25, 0x1p25 + 4, 0x1p25 + 4}, kFloat32), {}, 0), {32.0 / 9.0}, 1e-7);
  expect_values("float64", var(list({0x1p54, 0x1p54 + 8}, kFloat64)), {32});
  // Squares and counts beyond float16.
  std::vector<double> waves(1000), many(70000);
  for (std::size_t i = 0; i < waves.size(); ++i) waves[i] = i % 2 == 0 ? 20 : -20;
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i % 2 == 0 ? 1 : -1;
  expect_values("float16 squares", var(list(waves, kFloat16)), {400000.0 / 999.0});
  expect_values("float16 counts", var(list(many, kFloat16), {}, 0), {1});
  expect_values("bfloat16 counts", var(list(many, kBFloat16), {}, 0), {1});
}

TEST(Var, FarFromZeroIsExactInEveryLayout) {
  // 2^25 + 4 k for k from 0 to 100, in lanes, rows, columns and chunks: (101^2 - 1) / 12 * 16.
  for (const std::int64_t repeats : {1, 3, 40, 700}) {
    for (const std::int64_t columns : {1, 3, 40}) {
      std::vector<double> values;
      for (std::int64_t r = 0; r < repeats * 101; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) values.push_back(0x1p25 + 4.0 * static_cast<double>(r % 101));
      }
      const std::vector<double> expected(static_cast<std::size_t>(columns), 13600.0);
      const Tensor x = Tensor::from_vector<double>(values, {repeats * 101, columns});
      expect_near("columns", var(x, {0}, 0), expected, 2e-6);
      expect_near("rows", var(x.transpose(0, 1).contiguous(), {1}, 0), expected, 2e-6);
      expect_near("all", var(x, {}, 0), {13600.0}, 2e-6);
      const Tensor wide = x.reshape({repeats, 101, columns});
      expect_near("outer and middle", var(wide, {0, 1}, 0), expected, 2e-6);
      expect_near("outer and inner", var(wide.transpose(1, 2).contiguous(), {0, 2}, 0), expected, 2e-6);
    }
  }
}

TEST(Var, AgreesWithTwoPassesInLongDouble) {
  // A first element far from the others is the worst pivot that there is.
  const double tolerance[] = {0x1p-10, 0x1p-7, 2e-6, 1e-14};
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    for (const std::size_t columns : {1U, 2U, 5U, 33U, 300U}) {
      for (const std::size_t rows : {1U, 2U, 7U, 8U, 63U, 64U, 511U, 512U, 20000U}) {
        if (rows * columns > 700000) continue;
        std::vector<double> values = reals(static_cast<std::int64_t>(rows * columns), rows + columns);
        for (double& value : values) value = value * 2 + 50;
        for (std::size_t c = 0; c < columns; ++c) values[c] = dtype == kFloat16 ? 200 : 1000;
        const Shape shape{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)};
        const Tensor x = Tensor::from_vector<double>(values, shape, {.dtype = dtype});
        const std::vector<double> expected = variances_of_columns(x.to_vector<double>(), columns, 0.0);
        const std::string what = to_string(dtype) + " " + to_string(shape);
        const Tensor result = var(x, {0}, 0);
        expect_near(what, result, expected, tolerance[static_cast<int>(dtype)]);
        if (rows > 64) continue;
        expect_same_bits(what, var(non_contiguous(x.to_vector<double>(), shape, {.dtype = dtype}), {0}, 0), result);
      }
    }
  }
}

TEST(Var, IsTheSameOnAnyNumberOfThreads) {
  const int before = num_threads();
  manual_seed(4);
  for (const Shape& shape : {Shape{200001}, Shape{3, 70000}, Shape{70000, 3}, Shape{7, 4000, 5}}) {
    const Tensor x = Tensor::randn(shape, {.requires_grad = true});
    for (std::uint32_t mask = 1; mask < (1U << shape.size()); ++mask) {
      Dims axes;
      for (std::uint32_t i = 0; i < shape.size(); ++i) {
        if ((mask >> i & 1U) != 0) axes.push_back(i);
      }
      const auto run = [&](int threads) {
        set_num_threads(threads);
        Tape tape;
        const Tensor result = var(x, axes);
        return std::vector<Tensor>{result.detach(), tape.gradient(result.sum(), {x})[0]};
      };
      const std::vector<Tensor> alone = run(1), together = run(3);
      expect_same_bits("value", together[0], alone[0]);
      expect_same_bits("gradient", together[1], alone[1]);
    }
  }
  set_num_threads(before);
}

TEST(Var, NothingAndWhatIsNotFinite) {
  for (const DType dtype : {kBFloat16, kFloat32, kFloat64}) {
    const auto of = [&](const std::vector<double>& values, std::int64_t correction) {
      return var(list(values, dtype), {}, correction).item<double>();
    };
    EXPECT_TRUE(std::isnan(of({}, 1)));
    EXPECT_TRUE(std::isnan(of({3}, 1)));
    EXPECT_EQ(of({3}, 0), 0.0);
    EXPECT_EQ(of({1, 3}, 2), kInfinity);
    EXPECT_EQ(of({1, 3}, 5), kInfinity);
    EXPECT_EQ(of({1, 3}, -2), 0.5);
    for (const double odd : {kNaN, kInfinity, -kInfinity}) {
      EXPECT_TRUE(std::isnan(of({odd}, 0)));
      EXPECT_TRUE(std::isnan(of({1, odd}, 1)));
      EXPECT_TRUE(std::isnan(of({odd, odd, 2}, 1)));
      std::vector<double> values(70000, 1.0);
      values[69999] = odd;
      EXPECT_TRUE(std::isnan(of(values, 1)));
      EXPECT_EQ(var(Tensor::from_vector<double>(values, {2, 35000}, {.dtype = dtype}), {1}).to_vector<double>()[0], 0);
    }
  }
  // Too large for the result, but no infinity of ours less another.
  for (const std::size_t count : {2U, 40U, 70000U}) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = i % 2 == 0 ? 1e25 : -1e25;
    EXPECT_EQ(var(list(values, kFloat32)).item<double>(), kInfinity);
    // A sum of these would overflow.
    for (std::size_t i = 0; i < count; ++i) values[i] = i % 2 == 0 ? 0x1p127 : 0x1p127 + 0x1p104;
    EXPECT_EQ(var(list(values, kFloat32), {}, 0).item<double>(), kInfinity);
  }
}

TEST(Var, GradientsAreRoundedOnce) {
  const auto gradient = [](const std::vector<double>& values, DType dtype, double grad_output) {
    const Tensor x = list(values, dtype).requires_grad_();
    Tape tape;
    const Tensor seed = Tensor::scalar(grad_output, {.dtype = dtype});
    return tape.gradient(var(x), {x}, {.grad_output = seed})[0];
  };
  expect_values("bfloat16", gradient({512, 516}, kBFloat16, 1), {-4, 4});
  expect_values("float32", gradient({0x1p25, 0x1p25 + 4}, kFloat32, 1), {-4, 4});
  expect_values("float64", gradient({0x1p54, 0x1p54 + 8}, kFloat64, 1), {-8, 8});
  std::vector<double> values(70000), expected(70000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 2 == 0 ? 3 : 1;
    expected[i] = (i % 2 == 0 ? 2.0 : -2.0) * 30000 / 69999;
  }
  expect_values("float16", gradient(values, kFloat16, 30000), expected);
}

TEST(Var, SecondOrderIsRoundedOnce) {
  // d/dg of sum(u * dvar/dx) = 2 / (n - 1) * sum(u * (x - mean)), whose terms are far below the result's last place.
  const std::int64_t n = 70000;
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 3 : 1;
  const Tensor x = list(values, kFloat16).requires_grad_(),
               g = Tensor::ones({}, {.dtype = kFloat16, .requires_grad = true});
  Tape tape;
  const Tensor product = var(x, {}, 0) * g;
  const Tensor first = tape.gradient(product, {x}, {.record = true})[0];
  const std::vector<Tensor> second = tape.gradient(first, {g, x}, {.grad_output = list(values, kFloat16)});
  expect_values("in g", second[0], {2});
  std::vector<double> expected;
  for (const double value : values) expected.push_back(2.0 / 70000 * (value - 2));
  expect_values("in x", second[1], expected);
}

TEST(Var, DerivativesOfAnyOrder) {
  const Tensor x = Tensor::from_vector<double>(reals(24, 29), {2, 3, 4}, {.dtype = kFloat64});
  for (const Dims& axes : {Dims{}, Dims{0}, Dims{1}, Dims{2}, Dims{0, 2}, Dims{0, 1}}) {
    for (const std::int64_t correction : {0, 1}) {
      for (const bool keepdim : {false, true}) {
        const auto f = [&](const std::vector<Tensor>& in) { return square(var(in[0], axes, correction, keepdim)); };
        EXPECT_TRUE(gradcheck(f, {x}));
        EXPECT_TRUE(gradgradcheck(f, {x}));
      }
    }
  }
  // For two numbers var^2 is d^4 / 4 with d = a - b.
  const Tensor pair = list({5, 3}, kFloat64).requires_grad_();
  Tape tape;
  Tensor derivative = square(var(pair));
  for (const double expected : {8.0, 12.0, 12.0, 6.0}) {
    const Tensor all = tape.gradient(derivative, {pair}, {.record = true})[0];
    derivative = all.select(0, 0);
    EXPECT_DOUBLE_EQ(derivative.item<double>(), expected);
  }
}

TEST(VarCuda, AgreesWithTheCPU) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  const double tolerance[] = {0x1p-10, 0x1p-7, 2e-6, 1e-14};
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    for (const Shape& shape : {Shape{1}, Shape{200001}, Shape{3, 7000}, Shape{7000, 3}, Shape{33, 1000},
                               Shape{7, 400, 5}, Shape{4, 3, 50, 70}, Shape{63}, Shape{2, 65, 1, 129}}) {
      std::vector<double> values = reals(shape.numel(), 31);
      for (double& value : values) value = value * 2 + 50;
      const Tensor x = Tensor::from_vector<double>(values, shape, {.dtype = dtype}).requires_grad_();
      const Tensor there = x.detach().to(kCUDA).requires_grad_();
      for (std::uint32_t mask = 1; mask < (1U << shape.size()); ++mask) {
        Dims axes;
        for (std::uint32_t i = 0; i < shape.size(); ++i) {
          if ((mask >> i & 1U) != 0) axes.push_back(i);
        }
        const auto run = [&](const Tensor& of) {
          Tape tape;
          const Tensor result = var(of, axes, 0);
          return std::vector<Tensor>{result.detach(), tape.gradient(result.sum(), {of})[0]};
        };
        const std::vector<Tensor> here = run(x), device = run(there), again = run(there);
        for (std::size_t i = 0; i < 2; ++i) {
          expect_near(to_string(dtype) + " " + to_string(shape), device[i].to(kCPU), here[i].to_vector<double>(),
                      tolerance[static_cast<int>(dtype)]);
          expect_same_bits("again", again[i], device[i]);
        }
      }
    }
  }
  const auto of = [](const std::vector<double>& values, DType dtype) {
    return var(list(values, dtype).to(kCUDA)).to(kCPU);
  };
  expect_values("bfloat16", of({512, 516}, kBFloat16), {8});
  expect_values("float32", of({0x1p25, 0x1p25 + 4}, kFloat32), {8});
  expect_values("float64", of({0x1p54, 0x1p54 + 8}, kFloat64), {32});
  expect_values("overflow", of({1e25, -1e25, 1e25}, kFloat32), {kInfinity});
  expect_values("infinity", of({1, kInfinity}, kFloat32), {kNaN});
  expect_values("nothing", of({}, kFloat32), {kNaN});
  expect_values("one", of({3}, kFloat16), {kNaN});
}

}  // namespace
}  // namespace adjoint
