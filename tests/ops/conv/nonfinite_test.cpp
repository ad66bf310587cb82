// NaN and infinity: where the float64 oracle has them, and nowhere else. Kernels that multiply by padded zeros would
// spread them (0 * inf is NaN).
#include <adjoint/tests/support/conv_trio.h>

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr std::int64_t kSmall = 20'000;  // multiply-adds; larger problems are poisoned in fewer places

/// A function that computes all three operators.
using RunTrio = TrioTensors (*)(const ConvProblem& problem, DType dtype);

void expect_trio(const char* where, const ConvProblem& p, RunTrio run) {
  SCOPED_TRACE(where);
  const TrioValues expected = oracle_trio(p);
  for (const DType dtype : {kFloat32, kFloat64}) {
    SCOPED_TRACE(to_string(dtype));
    expect_trio_values(run(p, dtype), expected);
  }
}

// Puts `value` at the first, the middle and the last element of one operand, one at a time.
void poison(const char* where, const ConvCase& c, std::vector<double> ConvProblem::*operand, double value,
            RunTrio run) {
  ConvProblem p = integer_problem(geometry(c));
  std::vector<double>& values = p.*operand;
  if (values.empty()) return;
  std::vector<std::size_t> places = {values.size() / 2};
  if (multiply_adds(c) <= kSmall) places.insert(places.end(), {0, values.size() - 1});
  for (const std::size_t place : places) {
    const double before = std::exchange(values[place], value);
    expect_trio(where, p, run);
    values[place] = before;
  }
}

void check(const ConvCase& c, RunTrio run) {
  SCOPED_TRACE(c);
  for (const double value : {kNan, kInfinity}) {
    SCOPED_TRACE(value);
    poison("in the image", c, &ConvProblem::image, value, run);
    poison("in the filter", c, &ConvProblem::filter, value, run);
    poison("in the feature", c, &ConvProblem::feature, value, run);
    poison("in conv_transpose's bias", c, &ConvProblem::image_bias, value, run);
    poison("in conv's bias", c, &ConvProblem::feature_bias, value, run);
  }
}

class ConvNonFinite : public ::testing::TestWithParam<ConvCase> {};
TEST_P(ConvNonFinite, AppearWhereTheOraclePutsThem) {
  check(GetParam(), [](const ConvProblem& p, DType dtype) { return run_trio(p, {.dtype = dtype}); });
}
INSTANTIATE_TEST_SUITE_P(Cases, ConvNonFinite, ::testing::ValuesIn(conv_cases()), ConvCaseName());

#ifdef ADJOINT_WITH_CUDA
// The tensor-core kernels promise less: nonfinite_cuda_test.cpp.
TEST(ConvNonFiniteCuda, AppearWhereTheOraclePutsThem) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const RunTrio plain = [](const ConvProblem& p, DType dtype) { return run_trio_on("plain", p, dtype); };
  for (std::size_t i = 0; i < conv_cases().size(); i += 3) check(conv_cases()[i], plain);
}
#endif

}  // namespace
}  // namespace adjoint::testing
