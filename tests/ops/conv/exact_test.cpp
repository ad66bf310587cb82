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

  ::testing::ScopedTrace trace_;
  ConvProblem problem_;
};

TEST_P(ConvExact, TrioEqualsTheOracle) {
  const auto feature_plain = oracle::conv(g(), problem_.image, problem_.filter);
  const auto feature_biased = oracle::conv(g(), problem_.image, problem_.filter, problem_.feature_bias);
  const auto image_plain = oracle::conv_transpose(g(), problem_.feature, problem_.filter);
  const auto image_biased = oracle::conv_transpose(g(), problem_.feature, problem_.filter, problem_.image_bias);
  const auto filter_values = oracle::conv_weight(g(), problem_.image, problem_.feature);
  // The 16-bit dtypes add up in float32 and round once: these sums are exact there, so one rounding is all there is.
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    SCOPED_TRACE(to_string(dtype));
    const TensorOptions options{.dtype = dtype};
    const Tensor image = problem_.image_tensor(options), filter = problem_.filter_tensor(options);
    const Tensor feature = problem_.feature_tensor(options);
    expect_values("conv", conv(image, filter, {}, g()), feature_plain);
    expect_values("conv + bias", conv(image, filter, problem_.feature_bias_tensor(options), g()), feature_biased);
    expect_values("conv_transpose", conv_transpose(feature, filter, {}, g()), image_plain);
    expect_values("conv_transpose + bias", conv_transpose(feature, filter, problem_.image_bias_tensor(options), g()),
                  image_biased);
    expect_values("conv_weight", conv_weight(image, feature, g()), filter_values);
  }

  SCOPED_TRACE("non-contiguous operands");
  const Tensor image = non_contiguous(problem_.image, image_shape(g()), {});
  const Tensor filter = non_contiguous(problem_.filter, filter_shape(g()), {});
  const Tensor feature = non_contiguous(problem_.feature, feature_shape(g()), {});
  const Tensor image_bias = non_contiguous(problem_.image_bias, {g().image_channels}, {});
  const Tensor feature_bias = non_contiguous(problem_.feature_bias, {g().feature_channels}, {});
  expect_values("conv", conv(image, filter, feature_bias, g()), feature_biased);
  expect_values("conv_transpose", conv_transpose(feature, filter, image_bias, g()), image_biased);
  expect_values("conv_weight", conv_weight(image, feature, g()), filter_values);
}

// <conv(x, w), y> = <x, conv_transpose(y, w)> = <w, conv_weight(x, y)>: exact, for these are integers in float64.
TEST_P(ConvExact, AdjointIdentityHolds) {
  const TensorOptions options{.dtype = kFloat64};
  const Tensor x = problem_.image_tensor(options), w = problem_.filter_tensor(options);
  const Tensor y = problem_.feature_tensor(options);
  const auto dot = [](const Tensor& a, const std::vector<double>& b) {
    const std::vector<double> values = a.to_vector<double>();
    EXPECT_EQ(values.size(), b.size());
    return std::inner_product(values.begin(), values.end(), b.begin(), 0.0);
  };
  const double by_conv = dot(conv(x, w, {}, g()), problem_.feature);
  EXPECT_EQ(dot(conv_transpose(y, w, {}, g()), problem_.image), by_conv);
  EXPECT_EQ(dot(conv_weight(x, y, g()), problem_.filter), by_conv);
}

TEST_P(ConvExact, FrontEndsEqualTheOracle) {
  const ConvCase& c = GetParam();
  const Tensor filter = problem_.filter_tensor({}), feature = problem_.feature_tensor({});
  const Tensor image_bias = problem_.image_bias_tensor({});
  const auto expected = oracle::conv_transpose(g(), problem_.feature, problem_.filter, problem_.image_bias);
  const Tensor image = call_conv_transpose(c, feature, filter, image_bias);
  EXPECT_EQ(image.shape(), image_shape(g()));
  expect_values("by output_padding", image, expected);
  expect_values("by output_size", call_conv_transpose_to_size(c, feature, filter, image_bias), expected);
  if (c.batch > 0) {
    const Tensor unbatched = call_conv_transpose(c, feature.select(0, 0), filter, image_bias);
    expect_same_bits("unbatched", unbatched, image.select(0, 0));
  }
  if (!conv_inverts(c)) return;

  const Tensor input = problem_.image_tensor({}), feature_bias = problem_.feature_bias_tensor({});
  const Tensor convolved = call_conv(c, input, filter, feature_bias);
  EXPECT_EQ(convolved.shape(), feature_shape(g()));
  expect_values("conv", convolved, oracle::conv(g(), problem_.image, problem_.filter, problem_.feature_bias));
  if (c.batch > 0) {
    const Tensor unbatched = call_conv(c, input.select(0, 0), filter, feature_bias);
    expect_same_bits("unbatched conv", unbatched, convolved.select(0, 0));
  }
}

// The CPU splits the rows that taps read by column: here they fill more scratch memory than other work has left.
TEST(ConvWeight, TapsFarApartReadManyRows) {
  const ConvProblem p = integer_problem(
      geometry({.batch = 1, .input = {9, 200}, .kernel = {5, 3}, .stride = {1, 2}, .dilation = {200, 1}}));
  const TensorOptions options{.dtype = kFloat64};
  expect_values("conv_weight", conv_weight(p.image_tensor(options), p.feature_tensor(options), p.geometry),
                oracle::conv_weight(p.geometry, p.image, p.feature));
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvExact, ::testing::ValuesIn(conv_cases()), ConvCaseName());

}  // namespace
}  // namespace adjoint::testing
