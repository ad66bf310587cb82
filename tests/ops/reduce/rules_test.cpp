// Rules over sizes that need several stages: unfinished results are not elements.
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace adjoint {
namespace {

constexpr std::int64_t kCount = 300007;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check(Device device) {
  std::vector<double> values = testing::reals(kCount, 11);
  for (double& value : values) value = value < 0.0 ? value - 0.5 : value + 0.5;
  const Tensor x = Tensor::from_vector(values, {kCount}, {.dtype = kFloat64, .device = device});
  double absolute = 0.0, squares = 0.0, cubes = 0.0, exponentials = 0.0, least = kInfinity;
  for (const double value : values) {
    absolute += std::abs(value);
    squares += value * value;
    cubes += std::pow(std::abs(value), 3.0);
    exponentials += std::exp(value);
    least = std::min(least, std::abs(value));
  }
  const auto near = [](const char* what, const Tensor& found, double expected) {
    testing::expect_near(what, found.to(kCPU), {expected}, 1e-12);
  };
  near("norm 1", norm(x, 1.0), absolute);
  near("norm 2", norm(x), std::sqrt(squares));
  near("norm 3", norm(x, 3.0), std::cbrt(cubes));
  near("norm 0", norm(x, 0.0), static_cast<double>(kCount));
  near("norm of -infinity", norm(x, -kInfinity), least);
  near("logsumexp", logsumexp(x), std::log(exponentials));
  near("amin", amin(x), *std::min_element(values.begin(), values.end()));
  near("amax", amax(x), *std::max_element(values.begin(), values.end()));
  near("argmin", argmin(x).to(kFloat64),
       static_cast<double>(std::min_element(values.begin(), values.end()) - values.begin()));
  near("var_mean", var_mean(x).first, var(x.to(kCPU)).item<double>());
  near("all", all(x).to(kFloat64), 1.0);
  near("any", any(x * 0.0).to(kFloat64), 0.0);
  const Tensor ones = Tensor::ones({3, kCount, 2}, {.dtype = kInt32, .device = device});
  testing::expect_values("prod", prod(ones * -1.0, 1).to(kCPU), std::vector<double>(6, -1.0));
  testing::expect_values("amin", amin(ones * -3.0, {0, 1}).to(kCPU), {-3.0, -3.0});
}

TEST(ReduceRules, TakeSeveralStages) { check(kCPU); }

TEST(ReduceRules, TakeSeveralStagesOnCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  check(kCUDA);
}

TEST(ReduceRules, ManyFloat32SumsAreNoWorseThanPairwise) {
  const Tensor x = Tensor::full({1 << 24}, 0.1);
  const double each = static_cast<double>(0.1F);
  testing::expect_near("norm 1", norm(x, 1.0), {each * 0x1p24}, 1e-6);
  testing::expect_near("norm 2", norm(x), {each * 0x1p12}, 1e-6);
  testing::expect_near("logsumexp", logsumexp(x), {each + 24.0 * std::log(2.0)}, 1e-6);
}

}  // namespace
}  // namespace adjoint
