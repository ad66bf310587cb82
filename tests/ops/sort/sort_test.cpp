// Sorting and searching compared with the standard library's, on rows long enough for several tasks; gradients.
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

constexpr DType kEveryDType[] = {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool};

// A row's places in the stable order of its values, by std::stable_sort.
std::vector<std::int64_t> order_of(const std::vector<double>& row, bool descending) {
  std::vector<std::int64_t> places(row.size());
  std::iota(places.begin(), places.end(), 0);
  const auto below = [](double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); };
  std::stable_sort(places.begin(), places.end(), [&](std::int64_t i, std::int64_t j) {
    const double a = row[static_cast<std::size_t>(i)], b = row[static_cast<std::size_t>(j)];
    return descending ? below(b, a) : below(a, b);
  });
  return places;
}

// Many ties, and in floating point infinities, NaN and zeros of both signs.
Tensor mixed(const Shape& shape, DType dtype) {
  std::vector<double> values = testing::integers(static_cast<std::size_t>(shape.numel()), 9, 5);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == kUInt8 || dtype == kBool) values[i] = std::abs(values[i]);
    if (dtype == kBool) values[i] = values[i] > 4 ? 1.0 : 0.0;
    if (is_floating_point(dtype) && i % 7 == 0) values[i] = i % 2 == 0 ? -0.0 : std::nan("");
    if (is_floating_point(dtype) && i % 11 == 0) values[i] = i % 2 == 0 ? INFINITY : -INFINITY;
  }
  return Tensor::from_vector(values, shape, {.dtype = dtype});
}

TEST(Sort, IsStableForEveryDType) {
  for (const DType dtype : kEveryDType) {
    for (const Shape& shape : {Shape{1, 20000}, Shape{700, 31}, Shape{3, 1}}) {
      const Tensor x = mixed(shape, dtype);
      for (const bool descending : {false, true}) {
        const std::vector<std::int64_t> found = argsort(x, 1, descending).to_vector<std::int64_t>();
        const std::vector<double> values = x.to_vector<double>();
        for (std::int64_t row = 0; row < shape[0]; ++row) {
          const auto begin = static_cast<std::ptrdiff_t>(row * shape[1]);
          const auto end = begin + static_cast<std::ptrdiff_t>(shape[1]);
          ASSERT_EQ(std::vector<std::int64_t>(found.begin() + begin, found.begin() + end),
                    order_of(std::vector<double>(values.begin() + begin, values.begin() + end), descending))
              << to_string(dtype) << " row " << row << " of " << to_string(shape);
        }
      }
    }
  }
}

TEST(Sort, SortsTheEndsOfIntegers) {
  const Tensor x = Tensor::from_vector<std::int64_t>({INT64_MAX, 0, INT64_MIN, -1, 1}, {5});
  expect_same_bits("int64", argsort(x), Tensor::from_vector<std::int64_t>({2, 3, 1, 4, 0}, {5}));
  const Tensor narrow = Tensor::from_vector<std::int32_t>({INT32_MAX, 0, INT32_MIN}, {3}, {.dtype = kInt32});
  expect_same_bits("int32", argsort(narrow), Tensor::from_vector<std::int64_t>({2, 1, 0}, {3}));
}

TEST(Sort, TakesAnyAxisAndStrides) {
  const Tensor x = mixed({4, 5, 6}, kFloat32);
  for (const std::int64_t axis : {0, 1, 2}) {
    const Tensor last = x.transpose(axis, -1);
    expect_same_bits("axis", sort(x, axis).first.transpose(axis, -1).contiguous(), sort(last.contiguous()).first);
    expect_same_bits("strides", sort(last.contiguous().transpose(axis, -1), axis).first, sort(x, axis).first);
  }
}

TEST(Sort, GradientsGoToWhatWasTaken) {
  const Tensor x = Tensor::from_vector<double>({3, 1, 2, 1}, {4}, {.dtype = kFloat64, .requires_grad = true});
  const Tape tape;
  const Tensor weights = Tensor::from_vector<double>({1, 10, 100, 1000}, {4}, {.dtype = kFloat64});
  expect_values("sort", gradient((sort(x).first * weights).sum(), {x}, {.retain = true})[0], {1000, 1, 100, 10});
  expect_values("topk", gradient((topk(x, 2).first * weights.narrow(0, 0, 2)).sum(), {x}, {.retain = true})[0],
                {1, 0, 10, 0});
  expect_values("median", gradient(median(x), {x})[0], {0, 0.5, 0, 0.5});
  const std::size_t size = tape.size();
  argsort(x);
  unique(x);
  searchsorted(x, x);
  EXPECT_EQ(tape.size(), size);
}

TEST(Sort, SearchesAsTheStandardLibraryDoes) {
  for (const std::int64_t extent : {1, 2, 3, 7, 8, 9, 1000}) {
    std::vector<double> row = testing::integers(static_cast<std::size_t>(extent), 40, 3);
    std::sort(row.begin(), row.end());
    const std::vector<double> wanted = testing::integers(300, 44, 4);
    const Tensor sorted = Tensor::from_vector(row, {extent}), values = Tensor::from_vector(wanted, {300});
    const auto left = searchsorted(sorted, values).to_vector<std::int64_t>();
    const auto right = searchsorted(sorted, values, true).to_vector<std::int64_t>();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(left[i], std::lower_bound(row.begin(), row.end(), wanted[i]) - row.begin()) << extent;
      ASSERT_EQ(right[i], std::upper_bound(row.begin(), row.end(), wanted[i]) - row.begin()) << extent;
    }
  }
  const Tensor sorted = Tensor::from_vector<float>({-INFINITY, 1, INFINITY, NAN}, {4});
  const Tensor values = Tensor::from_vector<float>({NAN, INFINITY}, {2});
  expect_values("NaN is above all", searchsorted(sorted, values), {3, 2});
  expect_values("and beside itself", searchsorted(sorted, values, true), {4, 3});
  expect_values("integers beside reals", searchsorted(Tensor::arange(5), Tensor::from_vector<float>({2.5F}, {1})), {3});
}

TEST(Sort, UniqueTellsWhatItFound) {
  const Tensor x = Tensor::from_vector<std::int64_t>({5, 2, 5, 5, 3, 2}, {2, 3});
  const auto [values, inverse, counts] = unique(x);
  expect_values("values", values, {2, 3, 5});
  expect_values("counts", counts, {2, 1, 3});
  expect_same_bits("inverse", index_select(values, 0, inverse.reshape({6})).reshape({2, 3}), x);
  const auto numbers = unique(Tensor::from_vector<float>({NAN, 1, NAN, -0.0F, 0.0F}, {5}));
  expect_values("each NaN and one zero", std::get<2>(numbers), {2, 1, 1, 1});
  const auto rows = unique(Tensor::zeros({3, 0}), 0);
  EXPECT_EQ(std::get<0>(rows).shape(), Shape({1, 0}));
  expect_values("rows without elements", std::get<2>(rows), {3});
}

TEST(SortCuda, AgreesOnLongRows) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  for (const DType dtype : kEveryDType) {
    for (const Shape& shape : {Shape{1, 300007}, Shape{5000, 37}, Shape{3, 40001}, Shape{70000, 1}}) {
      const Tensor x = mixed(shape, dtype);
      for (const bool descending : {false, true}) {
        expect_same_bits(to_string(dtype), argsort(x.to(kCUDA), 1, descending).to(kCPU), argsort(x, 1, descending));
      }
    }
  }
}

}  // namespace
}  // namespace adjoint
