// Roots and shares whose squares and powers leave the range, or whose results are rounded, in between.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/signal/stft.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace adjoint::testing {
namespace {

Tensor list(const std::vector<double>& values, DType dtype = kFloat32) {
  return Tensor::from_vector<double>(values, {static_cast<std::int64_t>(values.size())}, {.dtype = dtype});
}

Tensor gradient_of(const Tensor& x, Tensor (*f)(const Tensor&)) {
  const Tensor leaf = x.clone().requires_grad_();
  Tape tape;
  return tape.gradient(f(leaf).sum(), {leaf})[0];
}

void expect_roots(Device device) {
  const double root2 = std::sqrt(2.0);
  for (const double size : {1e30, 1e-30, 1.0, 1e25, 1e-37}) {
    SCOPED_TRACE(size);
    const Tensor x = list({size, 3 * size}).to(device);
    expect_near("std", std(x) / size, {root2}, 1e-6);
    expect_near("population", std(x, {}, 0) / size, {1.0}, 1e-6);
    expect_near("std_mean", std_mean(x).first / size, {root2}, 1e-6);
    expect_near("norm", norm(x) / size, {std::sqrt(10.0)}, 1e-6);
    expect_near("bfloat16", std(x.to(kBFloat16)).to(kFloat32) / size, {root2}, 0x1p-7);
    expect_near("std's gradient", gradient_of(x, [](const Tensor& t) { return std(t); }), {-1 / root2, 1 / root2},
                1e-6);
    expect_near("norm's gradient", gradient_of(x, [](const Tensor& t) { return norm(t); }),
                {1 / std::sqrt(10.0), 3 / std::sqrt(10.0)}, 1e-6);
  }
  // Sets of every size side by side, along either axis and both.
  const Tensor sets = Tensor::from_vector<double>({1e30, 1, 1e-30, 5, 3e30, 3, 3e-30, 5}, {2, 4}).to(device);
  const Tensor by = Tensor::from_vector<double>({1e30, 1, 1e-30, 1}, {4}).to(device);
  expect_near("columns", std(sets, {0}) / by, {root2, root2, root2, 0}, 1e-6);
  expect_near("rows", std(sets.transpose(0, 1).contiguous(), {1}) / by, {root2, root2, root2, 0}, 1e-6);
  expect_near("norms of columns", norm(sets, 2.0, {0}) / by,
              {std::sqrt(10), std::sqrt(10), std::sqrt(10), std::sqrt(50)}, 1e-5);
}

TEST(ReduceRange, RootsAreRightWhereSquaresLeaveIt) { expect_roots(kCPU); }

TEST(ReduceRange, RootsAreRightWhereSquaresLeaveItCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  expect_roots(kCUDA);
}

TEST(ReduceRange, OfFloat64AndOtherNorms) {
  for (const double size : {1e200, 1e-200, 1e300, 1e-300}) {
    SCOPED_TRACE(size);
    const Tensor x = list({size, 3 * size}, kFloat64);
    expect_near("std", std(x) / size, {std::sqrt(2.0)}, 1e-14);
    expect_near("norm", norm(x) / size, {std::sqrt(10.0)}, 1e-14);
  }
  for (const double size : {1e30, 1e-30}) {
    SCOPED_TRACE(size);
    const Tensor x = list({size, -2 * size});
    for (const double p : {3.0, 5.0, 0.5, -1.0, -2.0, -3.0}) {
      const double exact = std::pow(1.0 + std::pow(2.0, p), 1.0 / p);
      expect_near("p " + std::to_string(p), norm(x, p) / size, {exact}, 1e-5 * exact);
    }
    expect_near("p = 3, gradient", gradient_of(x, [](const Tensor& t) { return norm(t, 3.0); }),
                {std::pow(9.0, -2.0 / 3), -4 * std::pow(9.0, -2.0 / 3)}, 1e-6);
  }
}

TEST(ReduceRange, WhatIsNotFiniteStaysSo) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  expect_values("std", std(list({infinity, 1})), {nan});
  expect_values("std", std(list({nan, 1})), {nan});
  expect_values("norm", norm(list({infinity, 1})), {infinity});
  expect_values("norm", norm(list({nan, 1})), {nan});
  expect_values("too large", norm(list({3e38, 3e38})), {infinity});
  expect_values("zeros", std(list({0, 0, 0})), {0});
  expect_values("constants", std(list({1e30, 1e30, 1e30})), {0});
  expect_values("one", std(list({5})), {nan});
  expect_values("zeros", norm(list({0, 0})), {0});
  expect_values("p -1", norm(list({0, 2}), -1.0), {0});
}

TEST(ReduceRange, DeviationsOfHalvesHaveGradientsOfOneRounding) {
  // g / (2 std) would be 1.6e5 in float16.
  const Tensor x = list({1, 1.0009765625, 1, 1.0009765625}, kFloat16) * 0.0009765625;
  const double deviation = std(x.to(kFloat64)).item<double>();
  EXPECT_GT(0.5 / deviation, 65504.0);
  const Tensor exact = gradient_of(x.to(kFloat64), [](const Tensor& t) { return std(t); });
  expect_near("float16", gradient_of(x, [](const Tensor& t) { return std(t); }), exact.to_vector<double>(), 0x1p-10);
}

// Shares of exp(x) add up to 1 for every rounding of the result.
TEST(ReduceRange, SharesOfLogSumExp) {
  const auto of = [](const Tensor& t) { return logsumexp(t, {}); };
  expect_near("bfloat16", gradient_of(list({100, 100.5, 99}, kBFloat16), of),
              gradient_of(list({100, 100.5, 99}, kFloat64), of).to_vector<double>(), 0x1p-9);
  expect_near("float32", gradient_of(list({1e7, 1e7, 1e7}), of), {1.0 / 3, 1.0 / 3, 1.0 / 3}, 1e-7);
  expect_near("far apart", gradient_of(list({1e30, -1e30, 1e30}), of), {0.5, 0, 0.5}, 1e-7);
  const double infinity = std::numeric_limits<double>::infinity();
  expect_near("impossible", gradient_of(list({0, -infinity}), of), {1, 0}, 0);
  const Tensor x = list({1000, 1001, 999}, kFloat64).requires_grad_();
  Tape tape;
  const Tensor first = tape.gradient(logsumexp(x, {}), {x}, {.record = true})[0];
  const std::vector<double> p = first.to_vector<double>();
  expect_near("second order", tape.gradient(first.narrow(0, 0, 1).sum(), {x})[0],
              {p[0] * (1 - p[0]), -p[0] * p[1], -p[0] * p[2]}, 1e-12);
}

void expect_magnitudes(Device device) {
  for (const double size : {1e30, 1e-30, 1e-40, 1e37, 1.0}) {
    const Tensor x = list({1.5 * size, -2 * size, 0, 0}).to(device);
    const Tensor found =
        spectrogram(x, 4, {.window = Tensor::ones({4}, {.device = device}), .center = false, .power = 1.0});
    expect_near("magnitudes", found.to(kFloat64) / size, {0.5, 2.5, 3.5}, size == 1e-40 ? 1e-4 : 1e-6);
  }
}
TEST(ReduceRange, Magnitudes) { expect_magnitudes(kCPU); }
TEST(ReduceRange, MagnitudesCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  expect_magnitudes(kCUDA);
}

}  // namespace
}  // namespace adjoint::testing
