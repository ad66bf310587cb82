// NaN and infinity: where the float64 oracle puts them, and nowhere else. Kernels that multiply by padded zeros would
// spread them (0 * inf is NaN).

#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <limits>

namespace adjoint::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Plants `value` at the first, the middle and the last element, one at a time.
template <class Check>
void plant(std::vector<double>& values, double value, Check check) {
  if (values.empty()) return;
  for (const std::size_t at : {std::size_t{0}, values.size() / 2, values.size() - 1}) {
    const double before = std::exchange(values[at], value);
    check();
    values[at] = before;
  }
}

void expect_trio(const char* planted, const ConvProblem& p, const TensorOptions& options) {
  SCOPED_TRACE(planted);
  const ConvGeometry& g = p.geometry;
  const Tensor image = p.image_tensor(options), filter = p.filter_tensor(options), feature = p.feature_tensor(options);
  expect_values("conv", conv(image, filter, p.feature_bias_tensor(options), g),
                oracle::conv(g, p.image, p.filter, p.feature_bias));
  expect_values("conv_transpose", conv_transpose(feature, filter, p.image_bias_tensor(options), g),
                oracle::conv_transpose(g, p.feature, p.filter, p.image_bias));
  expect_values("conv_weight", conv_weight(image, feature, g), oracle::conv_weight(g, p.image, p.feature));
}

void check_nonfinite(const ConvCase& c, const TensorOptions& options) {
  ConvProblem p = integer_problem(geometry(c));
  for (const double value : {kNan, kInfinity, -kInfinity}) {
    SCOPED_TRACE(value);
    plant(p.image, value, [&] { expect_trio("in the image", p, options); });
    plant(p.filter, value, [&] { expect_trio("in the filter", p, options); });
    plant(p.feature, value, [&] { expect_trio("in the feature", p, options); });
    plant(p.image_bias, value, [&] { expect_trio("in conv_transpose's bias", p, options); });
    plant(p.feature_bias, value, [&] { expect_trio("in conv's bias", p, options); });
  }
}

class ConvNonFinite : public ::testing::TestWithParam<ConvCase> {
 protected:
  ConvNonFinite() : trace_(__FILE__, __LINE__, GetParam()) {}
  ::testing::ScopedTrace trace_;
};

TEST_P(ConvNonFinite, AppearWhereTheOraclePutsThem) {
  check_nonfinite(GetParam(), {.dtype = kFloat32});
  check_nonfinite(GetParam(), {.dtype = kFloat64});
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvNonFinite, ::testing::ValuesIn(conv_cases()), ConvCaseName());

}  // namespace
}  // namespace adjoint::testing
