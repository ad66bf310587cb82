// The oracle itself: its two ways of computing an element agree, and small sums match those computed by hand.

#include <adjoint/tests/support/conv_oracle.h>

#include <adjoint/tests/support/conv_problem.h>

#include <gtest/gtest.h>

namespace adjoint::testing {
namespace {

TEST(ConvOracle, AgreesWithSumsDoneByHand) {
  // image 1 2 3 4 5, filter 1 10, stride 2, padding 1: windows (0 1) (2 3) (4 5).
  const ConvGeometry g{
      .rank = 1, .image = {1, 5}, .feature = {1, 3}, .kernel = {1, 2}, .stride = {1, 2}, .padding = {0, 1}};
  const std::vector<double> image = {1, 2, 3, 4, 5};
  const std::vector<double> filter = {1, 10};
  const std::vector<double> feature = {1, 2, 3};
  EXPECT_EQ(oracle::conv(g, image, filter), (std::vector<double>{10, 32, 54}));
  EXPECT_EQ(oracle::conv(g, image, filter, std::vector<double>{100}), (std::vector<double>{110, 132, 154}));
  EXPECT_EQ(oracle::conv_transpose(g, feature, filter), (std::vector<double>{10, 2, 20, 3, 30}));
  EXPECT_EQ(oracle::conv_weight(g, image, feature), (std::vector<double>{2 * 2 + 3 * 4, 1 * 1 + 2 * 3 + 3 * 5}));
}

TEST(ConvOracle, OneElementAtATimeGivesTheWholeResult) {
  for (const ConvCase& c : small_conv_cases()) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    const ConvGeometry& g = p.geometry;
    const auto check = [](const std::vector<double>& whole, auto at) {
      for (std::size_t i = 0; i < whole.size(); ++i)
        ASSERT_EQ(at(static_cast<std::int64_t>(i)), whole[i]) << "element " << i;
    };
    check(oracle::conv(g, p.image, p.filter, p.feature_bias),
          [&](std::int64_t i) { return oracle::conv_at(g, p.image, p.filter, p.feature_bias, i); });
    check(oracle::conv_transpose(g, p.feature, p.filter, p.image_bias),
          [&](std::int64_t i) { return oracle::conv_transpose_at(g, p.feature, p.filter, p.image_bias, i); });
    check(oracle::conv_weight(g, p.image, p.feature),
          [&](std::int64_t i) { return oracle::conv_weight_at(g, p.image, p.feature, i); });
  }
}

}  // namespace
}  // namespace adjoint::testing
