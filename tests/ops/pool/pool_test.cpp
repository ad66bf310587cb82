// Pooling cases that the registry (support/operators/pool.cpp) has no form for: large planes, windows without elements,
// and unpooling of one index twice.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/ops/pool/pool.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

struct Gradient {
  Tensor result, gradient;
};

template <class F>
Gradient gradient(const F& f, Tensor x) {
  x = x.detach().clone();
  x.requires_grad_();
  Tape tape;
  const Tensor y = f(x);
  tape.backward(y.sum());
  return {y.detach(), x.grad()};
}

TEST(Pool, IsTheSameForAnyNumberOfThreads) {
  const Tensor x = Tensor::from_vector(testing::integers(3 * 97 * 211, 50, 1), {1, 3, 97, 211});
  const int before = num_threads();
  const auto overlapping = [](const Tensor& in) {
    return max_pool2d(in, 5, {.stride = 2, .padding = 2}) + avg_pool2d(in, 5, {.stride = 2, .padding = 2});
  };
  set_num_threads(1);
  const Gradient one = gradient(overlapping, x);
  set_num_threads(4);
  const Gradient four = gradient(overlapping, x);
  set_num_threads(before);
  expect_same_bits("result", four.result, one.result);
  expect_same_bits("gradient", four.gradient, one.gradient);
}

TEST(Pool, OfAWindowWithoutElementsIsMinusInfinity) {
  const Tensor x = Tensor::ones({1, 3});
  const MaxPool1dParams params{.stride = 2, .padding = 1, .dilation = 5, .ceil_mode = true};
  const auto [y, indices] = max_pool1d_with_indices(x, 2, params);
  expect_values("maximum", y, {-std::numeric_limits<double>::infinity()});
  expect_values("index", indices, {-1});
  expect_values("gradient", gradient([&](const Tensor& in) { return max_pool1d(in, 2, params); }, x).gradient,
                {0, 0, 0});
}

// The window that would begin just behind the input and its padding in front, as PyTorch leaves it out.
TEST(Pool, NoWindowBeginsWhereTheInputEnds) {
  const auto line = [](std::int64_t length) {
    return Tensor::arange(1, static_cast<double>(length) + 1).reshape({1, length});
  };
  struct Case {
    std::int64_t length, kernel, stride, padding;
    std::vector<double> maxima, averages;
  };
  const std::vector<Case> cases{{5, 2, 3, 1, {1, 4}, {0.5, 3.5}},
                                {5, 3, 3, 1, {2, 5}, {1, 4}},
                                {2, 2, 3, 1, {1}, {0.5}},
                                {4, 2, 2, 0, {2, 4}, {1.5, 3.5}}};
  for (const Case& c : cases) {
    const MaxPool1dParams max{.stride = c.stride, .padding = c.padding, .ceil_mode = true};
    const AvgPool1dParams average{.stride = c.stride, .padding = c.padding, .ceil_mode = true};
    expect_values("maxima", max_pool1d(line(c.length), c.kernel, max), c.maxima);
    expect_values("averages", avg_pool1d(line(c.length), c.kernel, average), c.averages);
    const Tensor column = line(c.length).reshape({1, c.length, 1}), row = line(c.length).reshape({1, 1, c.length});
    const Size2 down{c.kernel, 1}, along{1, c.kernel}, by_column{c.stride, 1}, by_row{1, c.stride};
    const Size2 above{c.padding, 0}, beside{0, c.padding};
    expect_values("of a column", max_pool2d(column, down, {.stride = by_column, .padding = above, .ceil_mode = true}),
                  c.maxima);
    expect_values("of a row", max_pool2d(row, along, {.stride = by_row, .padding = beside, .ceil_mode = true}),
                  c.maxima);
    expect_values("of a column", avg_pool2d(column, down, {.stride = by_column, .padding = above, .ceil_mode = true}),
                  c.averages);
    expect_values("of a row", avg_pool2d(row, along, {.stride = by_row, .padding = beside, .ceil_mode = true}),
                  c.averages);
  }
}

TEST(Pool, UnpoolsTheLastOfSeveralWithOneIndex) {
  const Tensor x = Tensor::from_vector<double>({1, 2, 3, 4}, {1, 4});
  const Tensor indices = Tensor::from_vector<std::int64_t>({5, 0, 5, -1}, {1, 4}, {.dtype = kInt64});
  const Gradient found = gradient([&](const Tensor& in) { return max_unpool1d(in, indices, 2) * 3.0; }, x);
  expect_values("result", found.result, {6, 0, 0, 0, 0, 9, 0, 0});
  expect_values("gradient", found.gradient, {0, 3, 3, 0});
}

TEST(Pool, UndoesPooling) {
  const Tensor x = Tensor::from_vector(testing::integers(2 * 6 * 8, 90, 2), {1, 2, 6, 8}) + 100.0;
  const auto [y, indices] = max_pool2d_with_indices(x, 2);
  expect_same_bits("again", max_pool2d(max_unpool2d(y, indices, 2), 2), y);
}

TEST(Pool, AveragesLongAdaptiveWindows) {
  const Tensor x = Tensor::arange(0, 100000, 1, {.dtype = kFloat64}).reshape({1, 100000});
  const Tensor y = adaptive_avg_pool1d(x, 99991);
  EXPECT_EQ(y.shape(), Shape({1, 99991}));
  // Window 99990 begins at floor(99990 100000 / 99991) = 99998: a product beyond 32 bits.
  EXPECT_EQ(y.select(0, 0).select(0, 99990).item<double>(), 99998.5);
}

}  // namespace
}  // namespace adjoint
