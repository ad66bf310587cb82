#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/reduce/close.h>

#include <gtest/gtest.h>

#include <cmath>

namespace adjoint {
namespace {

TEST(Close, IsOneTruth) {
  const Tensor x = Tensor::from_vector<float>({1, 2, NAN}, {3});
  EXPECT_TRUE(equal(x.narrow(0, 0, 2), Tensor::from_vector<float>({1, 2}, {2})));
  EXPECT_FALSE(equal(x, x));
  EXPECT_FALSE(equal(Tensor::ones({2}), Tensor::ones({1, 2})));
  EXPECT_TRUE(equal(Tensor::ones({0}), Tensor::zeros({0})));
  EXPECT_TRUE(equal(Tensor::arange(3), Tensor::arange(3.0)));
  EXPECT_FALSE(allclose(x, x));
  EXPECT_TRUE(allclose(x, x + 1e-7, {.equal_nan = true}));
  EXPECT_FALSE(allclose(x, x + 1e-3, {.equal_nan = true}));
  EXPECT_TRUE(allclose(x, x + 1e-3, {.rtol = 1e-2, .equal_nan = true}));
}

TEST(Close, IsExactForIntegers) {
  const Tensor x = Tensor::from_vector<std::int64_t>({(1LL << 60) + 1, INT64_MIN}, {2});
  EXPECT_TRUE(allclose(x, x, {.rtol = 0.0, .atol = 0.0}));
  EXPECT_FALSE(allclose(Tensor::arange(3), Tensor::arange(3) + 1));
  EXPECT_TRUE(allclose(Tensor::arange(3), Tensor::arange(3) + 1, {.atol = 1.0}));
}

TEST(LogicalOperators, AreTheFunctions) {
  const Tensor a = Tensor::from_vector<float>({0, 2, NAN}, {3}), b = Tensor::from_vector<float>({1, 0, 3}, {3});
  EXPECT_TRUE(equal(a && b, logical_and(a, b)));
  EXPECT_TRUE(equal(a || b, logical_or(a, b)));
  EXPECT_TRUE(equal(!a, logical_not(a)));
  const Tensor x = Tensor::from_vector<std::int64_t>({-7, 7, 6}, {3});
  EXPECT_TRUE(equal(x % 4, Tensor::from_vector<std::int64_t>({1, 3, 2}, {3})));
  EXPECT_TRUE(equal(x % Tensor::full({3}, -4), Tensor::from_vector<std::int64_t>({-3, -1, -2}, {3})));
  EXPECT_TRUE(equal(fmod(x, 4), Tensor::from_vector<std::int64_t>({-3, 3, 2}, {3})));
}

}  // namespace
}  // namespace adjoint
