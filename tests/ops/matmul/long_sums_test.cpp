// Long inner axes: exact if every partial sum is, otherwise within matmul.h's bound, in every layout, for every kernel,
// batch and dtype; a Linear's weight gradient over many rows.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/nn/linear.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

// The same matrix, stored by columns.
Tensor by_columns(const Tensor& matrix) { return matrix.transpose(-1, -2).contiguous().transpose(-1, -2); }

// In all four layouts.
void expect_every_result(const Tensor& a, const Tensor& b, double expected, double bound) {
  for (const Tensor& left : {a, by_columns(a)}) {
    for (const Tensor& right : {b, by_columns(b)}) {
      for (const double result : matmul(left, right).to_vector<double>()) {
        ASSERT_NEAR(result, expected, bound)
            << to_string(a.dtype()) << " " << to_string(a.shape()) << " by " << to_string(b.shape());
      }
    }
  }
}

TEST(MatmulLongSums, OnesAreCountedBeyondFloat32sIntegers) {
  // A sum that grows by ones stops at 2^24; so does one that grows by fours, in lanes.
  const std::int64_t inner = (std::int64_t{1} << 24) + 4096;
  const Tensor ones = Tensor::ones({1, inner});
  EXPECT_EQ(matmul(ones, ones.reshape({inner, 1})).item<double>(), static_cast<double>(inner));
  EXPECT_EQ(matmul(ones.reshape({inner}), ones.reshape({inner})).item<double>(), static_cast<double>(inner));
}

TEST(MatmulLongSums, KeepTheStatedBound) {
  struct Extents {
    std::int64_t batch, rows, inner, columns;
  };
  // One result, vectors, small and batched matrices, and packed ones.
  for (const auto& [batch, rows, inner, columns] :
       {Extents{1, 1, 300003, 1}, Extents{1, 1, 200000, 5}, Extents{1, 3, 200000, 1}, Extents{1, 17, 70001, 19},
        Extents{3, 2, 140000, 3}, Extents{1, 64, 65600, 65}}) {
    for (const DType dtype : {kFloat32, kFloat64}) {
      if (rows == 64 && dtype == kFloat64) continue;  // the same code, slowly
      // Equal terms lose the most: every rounding of a long sum has one sign.
      const double u = dtype == kFloat32 ? 0x1p-24 : 0x1p-53;
      const Tensor a = Tensor::full({batch, rows, inner}, 0.1, {.dtype = dtype});
      const Tensor b = Tensor::full({batch, inner, columns}, 0.7, {.dtype = dtype});
      const double term = a.select(0, 0).select(0, 0).select(0, 0).item<double>() *
                          b.select(0, 0).select(0, 0).select(0, 0).item<double>();
      const double expected = term * static_cast<double>(inner);
      expect_every_result(a, b, expected, 700 * u * expected);
    }
  }
}

TEST(MatmulLongSums, SlicesAreExactOnIntegers) {
  // More than two slices, the last one short, whose sums differ.
  const std::int64_t inner = 2 * 65536 + 77;
  const std::vector<double> x = integers(inner, 3, 5), y = integers(inner, 3, 6);
  double expected = 0;
  for (std::size_t i = 0; i < x.size(); ++i) expected += x[i] * y[i];
  for (const auto& [rows, columns] : {std::pair{1, 1}, std::pair{1, 40}, std::pair{40, 1}, std::pair{3, 2}}) {
    const Tensor a = Tensor::from_vector(x, {1, inner}).expand({rows, inner}).contiguous();
    const Tensor b = Tensor::from_vector(y, {inner, 1}).expand({inner, columns}).contiguous();
    expect_every_result(a, b, expected, 0.0);
  }
}

TEST(MatmulLongSums, AreTheSameOnAnyNumberOfThreads) {
  const int before = num_threads();
  const Tensor a = Tensor::from_vector(reals(3 * 300001, 7), {3, 300001});
  const Tensor b = Tensor::from_vector(reals(300001 * 2, 8), {300001, 2});
  set_num_threads(1);
  const Tensor alone = matmul(a, b);
  set_num_threads(3);
  expect_same_bits("threads", matmul(a, b), alone);
  set_num_threads(before);
}

TEST(MatmulLongSums, HalvesAreSummedAsFloat32Is) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor a = Tensor::ones({1, 300000}, {.dtype = dtype});
    const Tensor b = Tensor::full({300000, 1}, 0x1p-10, {.dtype = dtype});
    expect_values(to_string(dtype), matmul(a, b), {300000 * 0x1p-10});
  }
}

TEST(MatmulLongSums, ALinearsWeightGradientOverManyRows) {
  const std::int64_t rows = 1000000;
  for (const std::int64_t out_features : {1, 3}) {
    nn::Linear linear(2, out_features);
    Tape tape;
    const Tensor y = linear(Tensor::full({rows, 2}, 0.1));
    const std::vector<Tensor> gradients =
        tape.gradient(y, {linear.weight, linear.bias}, {.grad_output = Tensor::full(y.shape(), 0.7)});
    const double expected = static_cast<double>(0.1F) * static_cast<double>(0.7F) * static_cast<double>(rows);
    for (const double value : gradients[0].to_vector<double>()) EXPECT_NEAR(value, expected, 700 * 0x1p-24 * expected);
    for (const double value : gradients[1].to_vector<double>()) EXPECT_NEAR(value, 0.7F * 1e6, 70 * 0x1p-24 * 7e5);
  }
}

}  // namespace
}  // namespace adjoint::testing
