// sum, mean, max, var and argmax: every set of axes against naive loops, long and wide shapes, threads, gradients,
// refusals.
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_near;
using testing::expect_same_bits;
using testing::expect_values;
using testing::integers;
using testing::non_contiguous;
using testing::reals;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

Dims axes_of(std::uint32_t mask) {
  Dims axes;
  for (std::uint32_t i = 0; i < kMaxRank; ++i) {
    if ((mask >> i & 1U) != 0) axes.push_back(i);
  }
  return axes;
}

// For each result, in row-major order: everything that was reduced into it, in row-major order.
std::vector<std::vector<double>> reduced_groups(const std::vector<double>& values, const Shape& shape,
                                                std::uint32_t mask) {
  std::int64_t results = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) results *= (mask >> i & 1U) != 0 ? 1 : shape[i];
  std::vector<std::vector<double>> groups(static_cast<std::size_t>(results));
  for (std::int64_t flat = 0; flat < static_cast<std::int64_t>(values.size()); ++flat) {
    std::int64_t rest = flat, result = 0, pitch = 1;
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) {
      if ((mask >> axis & 1U) != 0) continue;
      result += rest % shape[axis] * pitch;
      pitch *= shape[axis];
    }
    groups[static_cast<std::size_t>(result)].push_back(values[static_cast<std::size_t>(flat)]);
  }
  return groups;
}

double total(const std::vector<double>& group) {
  double sum = 0.0;
  for (const double value : group) sum += value;
  return sum;
}
double largest(const std::vector<double>& group) { return *std::max_element(group.begin(), group.end()); }

std::vector<double> each(const std::vector<std::vector<double>>& groups,
                         const std::function<double(const std::vector<double>&)>& f) {
  std::vector<double> results;
  for (const auto& group : groups) results.push_back(f(group));
  return results;
}

TEST(Reduce, EverySetOfAxesOfEveryDType) {
  const Shape shape{3, 1, 4, 5};
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool}) {
    std::vector<double> values = integers(shape.numel(), 1, 7);
    if (dtype == kUInt8 || dtype == kBool)
      std::transform(values.begin(), values.end(), values.begin(), [](double v) { return std::abs(v); });
    const Tensor x = Tensor::from_vector<double>(values, shape, {.dtype = dtype});
    const Tensor strided = non_contiguous(values, shape, {.dtype = dtype});
    for (std::uint32_t mask = 1; mask < 16; ++mask) {
      const std::string what = to_string(dtype) + " axes " + to_string(axes_of(mask));
      const auto groups = reduced_groups(values, shape, mask);
      const Tensor sum = x.sum(axes_of(mask));
      EXPECT_EQ(sum.dtype(), is_floating_point(dtype) ? dtype : kInt64);
      EXPECT_EQ(sum.dim(), 4 - static_cast<std::int64_t>(axes_of(mask).size()));
      expect_values("sum " + what, sum, each(groups, total));
      expect_same_bits("strided " + what, strided.sum(axes_of(mask)), sum);
      Shape kept = shape;
      for (const std::int64_t axis : axes_of(mask)) kept[static_cast<std::size_t>(axis)] = 1;
      EXPECT_EQ(x.sum(axes_of(mask), true).shape(), kept);
      EXPECT_EQ(x.amax(axes_of(mask), true).shape(), kept);
      const Tensor max = x.amax(axes_of(mask));
      EXPECT_EQ(max.dtype(), dtype);
      expect_values("max " + what, max, each(groups, largest));
      if (!is_floating_point(dtype)) continue;
      expect_values("mean " + what, x.mean(axes_of(mask)), each(groups, [dtype](const auto& g) {
                      const double mean = total(g) / static_cast<double>(g.size());
                      return dtype == kFloat64 ? mean : static_cast<double>(static_cast<float>(mean));
                    }));
    }
  }
}

// Longer than a chunk, wider than a block of columns, narrow, several groups: each path of both devices' kernels.
const Shape kLongShapes[] = {{200001},    {3, 70000},      {70000, 3},     {5000, 40},  {33, 1000},
                             {1000, 300}, {7, 4000, 5},    {4, 3, 50, 70}, {100000, 2}, {64},
                             {63},        {2, 65, 1, 129}, {40000, 7}};

TEST(Reduce, LongAndWideShapesAreExactOnIntegers) {
  for (const Shape& shape : kLongShapes) {
    const std::vector<double> values = integers(shape.numel(), 3, 11);
    const Tensor x = Tensor::from_vector<double>(values, shape);
    for (std::uint32_t mask = 1; mask < (1U << shape.size()); ++mask) {
      const std::string what = to_string(shape) + " axes " + to_string(axes_of(mask));
      const auto groups = reduced_groups(values, shape, mask);
      expect_values("sum " + what, x.sum(axes_of(mask)), each(groups, total));
      expect_values("max " + what, x.amax(axes_of(mask)), each(groups, largest));
    }
  }
}

TEST(Reduce, IsTheSameOnAnyNumberOfThreads) {
  const int before = num_threads();
  manual_seed(3);
  for (const Shape& shape : kLongShapes) {
    const Tensor x = Tensor::randn(shape);
    for (std::uint32_t mask = 1; mask < (1U << shape.size()); ++mask) {
      set_num_threads(1);
      const Tensor alone = x.sum(axes_of(mask));
      set_num_threads(3);
      expect_same_bits(to_string(shape), x.sum(axes_of(mask)), alone);
    }
  }
  set_num_threads(before);
}

TEST(Reduce, LongSumsStayAccurate) {
  const std::int64_t n = 5'000'000;
  const Tensor ones = Tensor::full({n}, 0.1);
  const double exact = static_cast<double>(n) * static_cast<double>(0.1F);
  // Two short sums and a tree: some 70 roundings of 2^-24 at the very worst. A running sum is off by 1e-3 and more.
  constexpr double kBound = 70 * 0x1p-24;
  EXPECT_NEAR(ones.sum().item<double>(), exact, exact * kBound);
  EXPECT_NEAR(ones.mean().item<double>(), 0.1F, 0.1 * kBound);
  EXPECT_NEAR(ones.reshape({n / 10, 10}).sum({0}).select(0, 3).item<double>(), exact / 10, exact / 10 * kBound);
  // 16-bit floats are summed in float32: their own sum stops at 2048 (256 in bfloat16), and 65504 would overflow a
  // mean.
  EXPECT_EQ(Tensor::ones({30000}, {.dtype = kFloat16}).sum().item<double>(), 30000.0);
  EXPECT_EQ(Tensor::ones({16384}, {.dtype = kBFloat16}).sum().item<double>(), 16384.0);
  EXPECT_EQ(Tensor::full({200000}, 4.0, {.dtype = kFloat16}).mean().item<double>(), 4.0);
  EXPECT_EQ(Tensor::full({1000}, 3e9, {.dtype = kInt64}).sum().item<std::int64_t>(), 3'000'000'000'000);
  EXPECT_EQ(Tensor::full({3}, 2e9, {.dtype = kInt32}).sum().item<std::int64_t>(), 6'000'000'000);
  EXPECT_EQ(Tensor::full({3}, 200, {.dtype = kUInt8}).sum().item<std::int64_t>(), 600);
}

TEST(Reduce, ScalarsAndNothing) {
  EXPECT_EQ(Tensor::scalar(3.0).sum().item<double>(), 3.0);
  EXPECT_EQ(Tensor::scalar(3.0).max().item<double>(), 3.0);
  const Tensor none = Tensor::zeros({0, 3});
  expect_values("sum of nothing", none.sum({0}), {0, 0, 0});
  EXPECT_EQ(none.sum().item<double>(), 0.0);
  EXPECT_EQ(none.sum({1}).shape(), (Shape{0}));
  expect_values("mean of nothing", none.mean({0}), {kNaN, kNaN, kNaN});
  EXPECT_EQ(none.amax({1}).shape(), (Shape{0}));
  EXPECT_EQ(argmax(none, 1).shape(), (Shape{0}));
  EXPECT_ERROR(none.max(), "max: there must be elements to compare", "(0, 3)");
  EXPECT_ERROR(none.amax({0}), "amax: there must be elements to compare");
  EXPECT_ERROR(argmax(none, 0), "argmax: there must be elements to compare");
}

TEST(Reduce, NaNAndInfinityAppearWhereTheyBelong) {
  const Tensor x = Tensor::from_vector<double>({1, kNaN, 3, -kInfinity, -kInfinity, -kInfinity, kInfinity, 1, 2,
                                                kInfinity, -kInfinity, 0},
                                               {4, 3});
  expect_values("sum", x.sum({1}), {kNaN, -kInfinity, kInfinity, kNaN});
  expect_values("max", x.amax({1}), {kNaN, -kInfinity, kInfinity, kInfinity});
  expect_values("max of columns", x.amax({0}), {kInfinity, kNaN, 3});
  expect_values("argmax", argmax(x, 1), {1, 0, 0, 0});
  std::vector<double> many(70000, 1.0);
  many[69999] = kNaN;
  expect_values("long max", Tensor::from_vector<double>(many, {70000}).max(), {kNaN});
}

TEST(Argmax, FindsTheFirstOfTheLargest) {
  const Tensor x = Tensor::from_vector<double>({1, 5, 5, 2, 7, 0, 7, 7}, {2, 4});
  expect_values("last axis", argmax(x, -1), {1, 0});
  expect_values("first axis", argmax(x, 0), {1, 0, 1, 1});
  EXPECT_EQ(argmax(x, 1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(argmax(x, 1).dtype(), kInt64);
  for (const DType dtype : {kFloat16, kInt32, kUInt8, kBool})
    EXPECT_EQ(argmax(x.to(dtype), 0).select(0, 0).item<int>(), dtype == kBool ? 0 : 1);
  for (const Shape& shape : {Shape{7, 300, 5}, Shape{3, 70000}, Shape{70000, 3}}) {
    const std::vector<double> values = reals(shape.numel(), 13);
    const Tensor y = Tensor::from_vector<double>(values, shape);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const auto groups = reduced_groups(values, shape, 1U << axis);
      expect_values("argmax", argmax(y, static_cast<std::int64_t>(axis)), each(groups, [](const auto& g) {
                      return static_cast<double>(std::max_element(g.begin(), g.end()) - g.begin());
                    }));
    }
  }
}

TEST(Var, IsTheMeanSquaredDistance) {
  const std::vector<double> values = reals(60, 17);
  const Tensor x = Tensor::from_vector<double>(values, {3, 4, 5}, {.dtype = kFloat64});
  const auto groups = reduced_groups(values, {3, 4, 5}, 5);
  const auto variance = [](const std::vector<double>& g, double correction) {
    const double mean = total(g) / static_cast<double>(g.size());
    double sum = 0.0;
    for (const double v : g) sum += (v - mean) * (v - mean);
    return sum / (static_cast<double>(g.size()) - correction);
  };
  expect_near("unbiased", var(x, {0, 2}), each(groups, [&](const auto& g) { return variance(g, 1.0); }), 1e-14);
  expect_near("population", var(x, {0, 2}, 0, true), each(groups, [&](const auto& g) { return variance(g, 0.0); }),
              1e-14);
  EXPECT_TRUE(std::isnan(var(Tensor::ones({1})).item<double>()));
  const auto f = [](const std::vector<Tensor>& in) { return var(in[0], {1}); };
  EXPECT_TRUE(gradcheck(f, {x}));
  EXPECT_TRUE(gradgradcheck(f, {x}));
}

TEST(Reduce, RefusesBadAxesAndDTypes) {
  const Tensor x = Tensor::ones({2, 3});
  EXPECT_ERROR(x.sum({2}), "sum");
  EXPECT_ERROR(x.mean({-3}), "mean");
  EXPECT_ERROR(x.sum({1, -1}), "sum: axes must differ; got axes (1, -1) of input (2, 3)");
  EXPECT_ERROR(x.to(kInt32).mean(), "mean: the dtype must be floating point; got int32 (2, 3)");
  EXPECT_ERROR(var(x.to(kBool)), "var: the dtype must be floating point; got bool");
  EXPECT_ERROR(Tensor{}.sum(), "sum: input must be defined");
  EXPECT_ERROR(Tensor{}.max(), "max: input must be defined");
}

TEST(ReduceGradient, MatchesFiniteDifferences) {
  const Tensor x = Tensor::from_vector<double>(reals(24, 19), {2, 3, 4}, {.dtype = kFloat64});
  for (const std::uint32_t mask : {1U, 2U, 4U, 5U, 7U}) {
    for (const bool keepdim : {false, true}) {
      const Dims axes = axes_of(mask);
      const auto sum = [&](const std::vector<Tensor>& in) { return square(in[0].sum(axes, keepdim)); };
      const auto mean = [&](const std::vector<Tensor>& in) { return square(in[0].mean(axes, keepdim)); };
      const auto max = [&](const std::vector<Tensor>& in) { return square(in[0].amax(axes, keepdim)); };
      EXPECT_TRUE(gradcheck(sum, {x}) && gradgradcheck(sum, {x}));
      EXPECT_TRUE(gradcheck(mean, {x}) && gradgradcheck(mean, {x}));
      EXPECT_TRUE(gradcheck(max, {x}) && gradgradcheck(max, {x}));
    }
  }
}

TEST(ReduceGradient, EqualMaximaShareEvenly) {
  Tape tape;
  const Tensor x = Tensor::from_vector<double>({2, 5, 5, 1, 5, 0}, {2, 3}, {.requires_grad = true});
  tape.backward((x.amax({1}) * Tensor::from_vector<double>({6, 1}, {2})).sum());
  expect_values("gradient", x.grad(), {0, 3, 3, 0, 1, 0});
}

TEST(ReduceCuda, AgreesWithTheCPU) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  for (const Shape& shape : kLongShapes) {
    for (const DType dtype : {kFloat32, kFloat16, kFloat64, kInt32, kUInt8, kBool}) {
      std::vector<double> values = integers(shape.numel(), dtype == kFloat16 ? 1 : 3, 23);
      if (dtype == kUInt8 || dtype == kBool)
        std::transform(values.begin(), values.end(), values.begin(), [](double v) { return std::abs(v); });
      const Tensor x = Tensor::from_vector<double>(values, shape).to(dtype);
      const Tensor there = x.to(kCUDA);
      for (std::uint32_t mask = 1; mask < (1U << shape.size()); ++mask) {
        const std::string what = to_string(dtype) + " " + to_string(shape) + " axes " + to_string(axes_of(mask));
        expect_same_bits("sum " + what, there.sum(axes_of(mask)).to(kCPU), x.sum(axes_of(mask)));
        expect_same_bits("max " + what, there.amax(axes_of(mask)).to(kCPU), x.amax(axes_of(mask)));
      }
      for (std::int64_t axis = 0; axis < x.dim(); ++axis) {
        expect_same_bits("argmax", argmax(there, axis).to(kCPU), argmax(x, axis));
      }
    }
  }
  const Tensor none = Tensor::zeros({0, 3}, {.device = kCUDA});
  expect_values("mean of nothing", none.mean({0}).to(kCPU), {kNaN, kNaN, kNaN});
  const Tensor odd =
      Tensor::from_vector<double>({1, kNaN, 3, -kInfinity, -kInfinity, -kInfinity}, {2, 3}, {.device = kCUDA});
  expect_values("max", odd.amax({1}).to(kCPU), {kNaN, -kInfinity});
  expect_values("argmax", argmax(odd, 1).to(kCPU), {1, 0});
}

}  // namespace
}  // namespace adjoint
