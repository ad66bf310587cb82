// The errors of float32's sums on tensor cores: terms of one sign, whose truncation adds up.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/support/conv_cuda.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

/// In units of the sum of the terms' magnitudes, times float32's unit roundoff.
struct Errors {
  double mean, rms;
};

/// Of results with a guard on either side, whose terms are of one sign.
Errors errors(const Tensor& result, const Tensor& exact) {
  const auto within = [](const Tensor& t) {
    return t.narrow(0, kGuard, t.numel() - 2 * kGuard).to(kFloat64).to_vector<double>();
  };
  const std::vector<double> values = within(result), sums = within(exact);
  double total = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = (values[i] - sums[i]) / (sums[i] * 0x1p-24);
    total += error;
    squares += error * error;
  }
  const auto count = static_cast<double>(values.size());
  return {total / count, std::sqrt(squares / count)};
}

/// Sums on tensor cores, which round towards zero, are on average a unit too small, or more, unless the last sum is
/// rounded away from zero. Ordinary cores add one term after the other, which has no bias except in long sums.
Errors most_errors(const std::string& kernel) {
  const auto begins_with = [&](const char* name) { return kernel.starts_with(name); };
  constexpr double kRms = 3, kRmsOfLongSums = 10;
  if (begins_with("narrow") || begins_with("plain")) return {.5, kRmsOfLongSums};
  if (begins_with("correlation") || begins_with("blocked") || begins_with("packed")) return {.8, kRms};
  return {begins_with("boxes") ? 1.25 : 2, kRms};
}

/// The errors of every kernel that supports the problem, in float32.
void expect_small_errors(const ConvCase& c) {
  SCOPED_TRACE(c);
  constexpr ConvMode kExact{"float64", kFloat64, Precision::kFull};
  const ConvGeometry g = geometry(c);
  for (const cuda::ConvRole role : kConvRoles) {
    const ConvOperands reals = real_operands(role, g, kFloat32, 1);
    const ConvOperands operands{abs(reals.first), abs(reals.second), {}};
    const ConvOperands doubles{operands.first.to(kFloat64), operands.second.to(kFloat64), {}};
    const Tensor exact = run_guarded(*cuda::conv_kernels(role).back(), conv_problem(role, g, kExact, doubles), 0);
    const cuda::ConvProblem problem = conv_problem(role, g, bench::mode_named("float32"), operands);
    for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role)) {
      if (!kernel->takes(problem)) continue;
      SCOPED_TRACE(kernel->name);
      const Errors of = errors(run_guarded(*kernel, problem, 0), exact);
      const Errors most = most_errors(kernel->name);
      EXPECT_LT(std::abs(of.mean), most.mean);
      EXPECT_LT(of.rms, most.rms);
    }
  }
}

TEST(AccuracyCuda, TermsOfOneSignAddUpToTheirSum) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  if (compute_capability() != 90) GTEST_SKIP() << "kernels for sm_90a do not run here";
  expect_small_errors({.name = "upscale",
                       .batch = 8,
                       .in_channels = 64,
                       .out_channels = 64,
                       .input = {32, 32},
                       .kernel = {4, 4},
                       .stride = {2, 2},
                       .padding = {1, 1}});
  expect_small_errors({.name = "many taps",
                       .batch = 4,
                       .in_channels = 32,
                       .out_channels = 32,
                       .input = {64, 64},
                       .kernel = {3, 7},
                       .padding = {1, 3}});
}

}  // namespace
}  // namespace adjoint::testing
#endif
