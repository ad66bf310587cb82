// The trio and its front ends against the float64 oracle, on integers, at tolerance zero.

#include <adjoint/ops/conv/trio.h>

#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <numeric>

namespace adjoint::testing {
namespace {

class ConvExact : public ::testing::TestWithParam<ConvCase> {
 protected:
  ConvExact() : trace_(__FILE__, __LINE__, GetParam()), problem_(integer_problem(geometry(GetParam()))) {}

  const ConvGeometry& g() const { return problem_.geometry; }
  std::vector<double> expected_conv(bool bias) const {
    return oracle::conv(g(), problem_.image, problem_.filter, bias ? problem_.feature_bias : std::vector<double>{});
  }
  std::vector<double> expected_conv_transpose(bool bias) const {
    return oracle::conv_transpose(g(), problem_.feature, problem_.filter,
                                  bias ? problem_.image_bias : std::vector<double>{});
  }

  ::testing::ScopedTrace trace_;
  ConvProblem problem_;
};

TEST_P(ConvExact, TrioEqualsTheOracle) {
  const auto conv_plain = expected_conv(false), conv_biased = expected_conv(true);
  const auto transpose_plain = expected_conv_transpose(false), transpose_biased = expected_conv_transpose(true);
  const auto weight = oracle::conv_weight(g(), problem_.image, problem_.feature);
  for (const DType dtype : {kFloat32, kFloat64}) {
    SCOPED_TRACE(to_string(dtype));
    const TensorOptions options{.dtype = dtype};
    const Tensor image = problem_.image_tensor(options), filter = problem_.filter_tensor(options);
    const Tensor feature = problem_.feature_tensor(options);
    expect_values("conv", conv(image, filter, {}, g()), conv_plain);
    expect_values("conv with bias", conv(image, filter, problem_.feature_bias_tensor(options), g()), conv_biased);
    expect_values("conv_transpose", conv_transpose(feature, filter, {}, g()), transpose_plain);
    expect_values("conv_transpose with bias", conv_transpose(feature, filter, problem_.image_bias_tensor(options), g()),
                  transpose_biased);
    expect_values("conv_weight", conv_weight(image, feature, g()), weight);
  }
}

// float16 and bfloat16 add up in float32 and round once: here the sums are exact, so one rounding is all there is.
TEST_P(ConvExact, ReducedFloatsRoundTheOracleOnce) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    SCOPED_TRACE(to_string(dtype));
    const TensorOptions options{.dtype = dtype};
    const Tensor image = problem_.image_tensor(options), filter = problem_.filter_tensor(options);
    const Tensor feature = problem_.feature_tensor(options);
    expect_values("conv", conv(image, filter, problem_.feature_bias_tensor(options), g()), expected_conv(true));
    expect_values("conv_transpose", conv_transpose(feature, filter, problem_.image_bias_tensor(options), g()),
                  expected_conv_transpose(true));
    expect_values("conv_weight", conv_weight(image, feature, g()),
                  oracle::conv_weight(g(), problem_.image, problem_.feature));
  }
}

TEST_P(ConvExact, FrontEndsEqualTheOracle) {
  const ConvCase& c = GetParam();
  const TensorOptions options{.dtype = kFloat32};
  const Tensor filter = problem_.filter_tensor(options);
  const Tensor feature = problem_.feature_tensor(options);
  const Tensor image_bias = problem_.image_bias_tensor(options);
  const auto expected = expected_conv_transpose(true);
  const Tensor result = call_conv_transpose(c, feature, filter, image_bias);
  EXPECT_EQ(result.shape(), image_shape(g()));
  expect_values("by output_padding", result, expected);
  expect_values("by output_size", call_conv_transpose_to_size(c, feature, filter, image_bias), expected);
  if (!conv_inverts(c)) return;
  const Tensor convolved = call_conv(c, problem_.image_tensor(options), filter, problem_.feature_bias_tensor(options));
  EXPECT_EQ(convolved.shape(), feature_shape(g()));
  expect_values("conv", convolved, expected_conv(true));
}

TEST_P(ConvExact, UnbatchedEqualsTheFirstSample) {
  const ConvCase& c = GetParam();
  if (c.batch == 0) return;  // no first sample
  const TensorOptions options{.dtype = kFloat32};
  const Tensor filter = problem_.filter_tensor(options);
  const Tensor bias = problem_.image_bias_tensor(options);
  const Tensor feature = problem_.feature_tensor(options);
  const Tensor whole = call_conv_transpose(c, feature, filter, bias);
  expect_same_bits("conv_transpose", call_conv_transpose(c, feature.select(0, 0), filter, bias), whole.select(0, 0));
  if (!conv_inverts(c)) return;
  const Tensor image = problem_.image_tensor(options);
  expect_same_bits("conv", call_conv(c, image.select(0, 0), filter, {}), call_conv(c, image, filter, {}).select(0, 0));
}

TEST_P(ConvExact, NonContiguousOperandsGiveTheSame) {
  const TensorOptions options{.dtype = kFloat32};
  const Tensor image = non_contiguous(problem_.image, image_shape(g()), options);
  const Tensor filter = non_contiguous(problem_.filter, filter_shape(g()), options);
  const Tensor feature = non_contiguous(problem_.feature, feature_shape(g()), options);
  const Tensor image_bias = non_contiguous(problem_.image_bias, {g().image_channels}, options);
  const Tensor feature_bias = non_contiguous(problem_.feature_bias, {g().feature_channels}, options);
  expect_values("conv", conv(image, filter, feature_bias, g()), expected_conv(true));
  expect_values("conv_transpose", conv_transpose(feature, filter, image_bias, g()), expected_conv_transpose(true));
  expect_values("conv_weight", conv_weight(image, feature, g()),
                oracle::conv_weight(g(), problem_.image, problem_.feature));
}

// <conv(x, w), y> = <x, conv_transpose(y, w)> = <w, conv_weight(x, y)>: exact, for these are integers in float64.
TEST_P(ConvExact, AdjointIdentityHolds) {
  const TensorOptions options{.dtype = kFloat64};
  const Tensor x = problem_.image_tensor(options), w = problem_.filter_tensor(options),
               y = problem_.feature_tensor(options);
  const auto dot = [](const Tensor& a, const std::vector<double>& b) {
    const std::vector<double> values = a.to_vector<double>();
    EXPECT_EQ(values.size(), b.size());
    return std::inner_product(values.begin(), values.end(), b.begin(), 0.0);
  };
  const double by_conv = dot(conv(x, w, {}, g()), problem_.feature);
  EXPECT_EQ(dot(conv_transpose(y, w, {}, g()), problem_.image), by_conv);
  EXPECT_EQ(dot(conv_weight(x, y, g()), problem_.filter), by_conv);
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvExact, ::testing::ValuesIn(conv_cases()), ConvCaseName());

}  // namespace
}  // namespace adjoint::testing
