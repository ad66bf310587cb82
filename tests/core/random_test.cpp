#include <adjoint/core/philox.h>
#include <adjoint/core/random.h>
#include <adjoint/core/tensor.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace adjoint {
namespace {

// Known answers of the reference implementation (Random123, kat_vectors): philox4x32-10.
TEST(Philox, MatchesTheReferenceImplementation) {
  const philox::Block zeros = philox::generate(0, 0);
  EXPECT_EQ(zeros.word[0], 0x6627e8d5U);
  EXPECT_EQ(zeros.word[1], 0xe169c58dU);
  EXPECT_EQ(zeros.word[2], 0xbc57ac4cU);
  EXPECT_EQ(zeros.word[3], 0x9b00dbd8U);
}

TEST(Random, TheSeedFixesEveryBit) {
  manual_seed(7);
  const auto first = Tensor::rand({1001}).to_vector<float>();
  const auto normal = Tensor::randn({3, 5}).to_vector<float>();
  manual_seed(7);
  EXPECT_EQ(Tensor::rand({1001}).to_vector<float>(), first);
  EXPECT_EQ(Tensor::randn({3, 5}).to_vector<float>(), normal);
  manual_seed(8);
  EXPECT_NE(Tensor::rand({1001}).to_vector<float>(), first);
}

TEST(Random, NumbersDoNotDependOnTheDtype) {
  manual_seed(3);
  const auto wide = Tensor::rand({100}, {.dtype = kFloat64}).to_vector<double>();
  manual_seed(3);
  const auto narrow = Tensor::rand({100}).to_vector<float>();
  for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_NEAR(wide[i], narrow[i], 0x1p-24);
}

TEST(Random, UniformStaysBelowItsEndInEveryDtype) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const auto values = Tensor::rand({200000}, {.dtype = dtype}).to_vector<double>();
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    EXPECT_GE(*low, 0.0);
    EXPECT_LT(*high, 1.0);
    double mean = 0.0;
    for (const double value : values) mean += value / static_cast<double>(values.size());
    EXPECT_NEAR(mean, 0.5, dtype == kBFloat16 ? 0.005 : 0.003);
  }
}

TEST(Random, NormalHasTheRightMoments) {
  manual_seed(0);
  Tensor tensor = Tensor::empty({400, 500});
  tensor.normal_(2.0, 3.0);
  const auto values = tensor.to_vector<double>();
  double mean = 0.0, square = 0.0, cube = 0.0, fourth = 0.0;
  for (const double value : values) {
    const double z = (value - 2.0) / 3.0;
    mean += z, square += z * z, cube += z * z * z, fourth += z * z * z * z;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(mean / n, 0.0, 0.01);
  EXPECT_NEAR(square / n, 1.0, 0.02);
  EXPECT_NEAR(cube / n, 0.0, 0.05);
  EXPECT_NEAR(fourth / n, 3.0, 0.1);
}

TEST(Random, StridedTensorsGetTheSameNumbersInOrder) {
  manual_seed(5);
  Tensor base = Tensor::zeros({4, 6});
  Tensor column_major = base.view_as({6, 4}, {1, 6}, 0);
  column_major.uniform_(-1.0, 1.0);
  manual_seed(5);
  Tensor plain = Tensor::zeros({6, 4});
  plain.uniform_(-1.0, 1.0);
  EXPECT_EQ(column_major.to_vector<float>(), plain.to_vector<float>());
}

TEST(Generator, DrawsWithoutBiasAndReplays) {
  Generator generator(1);
  std::vector<int> counts(6);
  for (int i = 0; i < 60000; ++i) ++counts[generator.below(6)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 400);
  Generator copy = generator;
  EXPECT_EQ(copy.next(), generator.next());
  EXPECT_ERROR(generator.below(0), "Generator::below: bound must be positive; got 0");
}

TEST(Random, IntegersAreRefused) {
  EXPECT_ERROR(Tensor::rand({2}, {.dtype = kInt32}), "rand: the dtype must be floating point; got int32");
  EXPECT_ERROR(Tensor::randn({2}, {.dtype = kBool}), "randn: the dtype must be floating point; got bool");
}

}  // namespace
}  // namespace adjoint
