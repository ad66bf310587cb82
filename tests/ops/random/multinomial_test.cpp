#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/random/random.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace adjoint {
namespace {

std::vector<double> shares(const Tensor& drawn, std::size_t classes) {
  std::vector<double> counts(classes);
  for (const std::int64_t i : drawn.to_vector<std::int64_t>()) counts.at(static_cast<std::size_t>(i)) += 1.0;
  for (double& count : counts) count /= static_cast<double>(drawn.numel());
  return counts;
}

TEST(Multinomial, DrawsByWeight) {
  manual_seed(5);
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor weights = Tensor::from_vector<double>({0, 1, 0, 3, 4, 0}, {6}, {.dtype = dtype});
    const std::vector<double> found = shares(multinomial(weights, 40000, true), 6);
    const std::vector<double> expected{0, 0.125, 0, 0.375, 0.5, 0};
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(found[i], expected[i], 0.012) << i;
      EXPECT_TRUE(expected[i] != 0.0 || found[i] == 0.0) << i;
    }
  }
}

TEST(Multinomial, DrawsNothingTwiceWithoutReplacement) {
  manual_seed(6);
  const Tensor weights = Tensor::from_vector<float>({1, 0, 2, 1}, {1, 4}).expand({20000, 4});
  const Tensor drawn = multinomial(weights, 3);
  EXPECT_EQ(drawn.shape(), Shape({20000, 3}));
  EXPECT_EQ(drawn.dtype(), kInt64);
  const std::vector<std::int64_t> all = drawn.to_vector<std::int64_t>();
  for (std::size_t row = 0; row < 20000; ++row) {
    ASSERT_EQ(std::set<std::int64_t>(all.begin() + static_cast<std::ptrdiff_t>(3 * row),
                                     all.begin() + static_cast<std::ptrdiff_t>(3 * row + 3)),
              (std::set<std::int64_t>{0, 2, 3}));
  }
  const std::vector<double> first = shares(drawn.narrow(1, 0, 1), 4), second = shares(drawn.narrow(1, 1, 1), 4);
  EXPECT_NEAR(first[2], 0.5, 0.015);
  EXPECT_NEAR(second[2], 1.0 / 3.0, 0.015);  // behind 0 or 3, each drawn first in a quarter: 1/2 * 2/3
}

TEST(Multinomial, TakesHugeAndTinyWeights) {
  const Tensor huge = Tensor::from_vector<double>({1e308, 1e308, 0}, {3}, {.dtype = kFloat64});
  const std::vector<double> found = shares(multinomial(huge, 1000, true), 3);
  EXPECT_NEAR(found[0], 0.5, 0.1);
  EXPECT_EQ(found[2], 0.0);
  EXPECT_EQ(multinomial(Tensor::zeros({0, 3}), 2).shape(), Shape({0, 2}));
}

TEST(Multinomial, SaysWhatIsWrong) {
  const auto weights = [](const std::vector<double>& values) {
    return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())});
  };
  EXPECT_ERROR(multinomial(weights({1, -1}), 1), "multinomial: weights must be finite and not negative", "(2,)");
  EXPECT_ERROR(multinomial(weights({1, NAN}), 1), "finite");
  EXPECT_ERROR(multinomial(weights({0, 0}), 1, true), "1 weights above 0", "one of 0");
  EXPECT_ERROR(multinomial(weights({1, 1, 0}), 3), "3 weights above 0", "one of 2");
  EXPECT_ERROR(multinomial(weights({1, 1}), 0), "num_samples must be at least 1; got 0");
  EXPECT_ERROR(multinomial(Tensor::ones({2}, {.dtype = kInt64}), 1), "floating point", "int64");
  EXPECT_ERROR(multinomial(Tensor{}, 1), "multinomial: ", "weights");
}

}  // namespace
}  // namespace adjoint
