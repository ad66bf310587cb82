// Datasets made of others, and pictures in a grid.
#include <adjoint/core/tensor/factories.h>
#include <adjoint/data/image.h>
#include <adjoint/data/image_grid.h>
#include <adjoint/data/loader.h>
#include <adjoint/data/subset.h>
#include <adjoint/data/tensor_dataset.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <string>
#include <vector>

namespace adjoint::data {
namespace {

using testing::expect_values;

static_assert(!std::constructible_from<Subset, TensorDataset&&, std::vector<std::int64_t>>);

std::vector<double> inputs_of(const Dataset& dataset) {
  Generator generator(0);
  std::vector<double> all;
  for (std::int64_t i = 0; i < dataset.size(); ++i) all.push_back(dataset.get(i, generator).input.item());
  return all;
}

TEST(Datasets, GiveAnExampleByItsNumber) {
  const TensorDataset dataset({arange(3.0), {}});
  EXPECT_EQ(dataset[1].input.item(), 1);
  EXPECT_EQ(dataset[-1].input.item(), 2);
  EXPECT_EQ(Subset(dataset, {2, 0})[0].input.item(), 2);
  EXPECT_ERROR(dataset[3], "Dataset: an index must lie in [-3, 3); got 3");
  EXPECT_ERROR(dataset[-4], "got -4");
}

TEST(Subset, HasTheExamplesOfItsIndices) {
  const TensorDataset numbers({arange(10), {}});
  const Subset some(numbers, {7, 0, 7});
  EXPECT_EQ(inputs_of(some), (std::vector<double>{7, 0, 7}));
  EXPECT_EQ(inputs_of(Subset(some, {2, 1})), (std::vector<double>{7, 0}));
  DataLoader loader(some, {.batch_size = 3});
  for (const auto& batch : loader) expect_values("batch", batch.input, {7, 0, 7});
  EXPECT_ERROR(Subset(numbers, {3, 10}), "Subset: indices must be those of the dataset; got 10 of 10 examples");
  EXPECT_ERROR(Subset(numbers, {-1}), "got -1 of 10");
  Generator generator(0);
  EXPECT_ERROR(some.get(3, generator), "Subset: an index must be below the number of examples; got 3 of 3");
}

TEST(RandomSplit, GivesEachExampleToOnePart) {
  const TensorDataset numbers({arange(10), {}});
  const auto check = [&](const std::vector<Subset>& parts, const std::vector<std::int64_t>& sizes) {
    ASSERT_EQ(parts.size(), sizes.size());
    std::vector<double> all;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(parts[i].size(), sizes[i]);
      for (const double value : inputs_of(parts[i])) all.push_back(value);
    }
    EXPECT_FALSE(std::is_sorted(all.begin(), all.end()));
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, arange(10).to_vector<double>());
  };
  manual_seed(1);
  check(random_split(numbers, {7, 3}), {7, 3});
  check(random_split(numbers, {0.75, 0.25}), {8, 2});  // 7 and 2, and one more for the first
  check(random_split(numbers, {1.0 / 3, 1.0 / 3, 1.0 / 3}), {4, 3, 3});
  check(random_split(numbers, {10, 0}), {10, 0});
  Generator one(5), same(5);
  EXPECT_EQ(random_split(numbers, {5, 5}, one)[0].indices(), random_split(numbers, {5, 5}, same)[0].indices());
  EXPECT_ERROR(random_split(numbers, {7, 4}), "random_split: lengths must not be negative and must add up to", "7, 4");
  EXPECT_ERROR(random_split(numbers, {11, -1}), "random_split: lengths must not be negative");
  EXPECT_ERROR(random_split(numbers, {0.5, 0.4}), "random_split: shares must not be negative and must add up to 1");
  EXPECT_ERROR(random_split(numbers, {}), "random_split: there must be at least one length");
}

TEST(ConcatDataset, GoesThroughOneAfterTheOther) {
  const TensorDataset a({arange(3), {}}), b({arange(10, 12, 1), {}});
  const ConcatDataset all({a, b, a});
  EXPECT_EQ(all.size(), 8);
  EXPECT_EQ(inputs_of(all), (std::vector<double>{0, 1, 2, 10, 11, 0, 1, 2}));
  Generator generator(0);
  EXPECT_ERROR(all.get(8, generator), "ConcatDataset: an index must be below the number of examples; got 8 of 8");
  EXPECT_ERROR(ConcatDataset({}), "ConcatDataset: there must be at least one dataset");
}

TEST(MakeGrid, PutsPicturesInRows) {
  const Tensor x = arange(1.0, 7.0).reshape(3, 2, 1, 1);  // (1, 2), (3, 4), (5, 6)
  const Tensor grid = make_grid(x, {.nrow = 2, .padding = 1, .pad_value = 9.0});
  EXPECT_EQ(grid.shape(), (Shape{2, 5, 5}));
  expect_values("first channel", grid[0], {9, 9, 9, 9, 9, 9, 1, 9, 3, 9, 9, 9, 9, 9, 9, 9, 5, 9, 9, 9, 9, 9, 9, 9, 9});
  EXPECT_EQ(make_grid(x, {.nrow = 8, .padding = 0}).shape(), (Shape{2, 1, 3}));
  expect_values("grey", make_grid(arange(2.0).reshape(2, 1, 1, 1), {.padding = 0}), {0, 1, 0, 1, 0, 1});
  EXPECT_EQ(make_grid(zeros(1, 1, 4, 5)).shape(), (Shape{3, 4, 5}));
  EXPECT_EQ(make_grid(zeros(4, 5)).shape(), (Shape{3, 4, 5}));
  expect_values("normalised", make_grid(x, {.padding = 0, .normalize = true})[0], {0, 0.4F, 0.8F});
  expect_values("by a range", make_grid(x, {.padding = 0, .normalize = true, .value_range = {{1.0, 3.0}}})[0],
                {0, 1, 1});
  expect_values("each", make_grid(x, {.padding = 0, .normalize = true, .scale_each = true})[1], {1, 1, 1});
  testing::expect_same_bits("a list", make_grid({x[0], x[1], x[2]}, {.nrow = 2}), make_grid(x, {.nrow = 2}));
  EXPECT_EQ(make_grid(zeros({2, 3, 2, 2}, {.dtype = kUInt8})).dtype(), kUInt8);
  EXPECT_ERROR(make_grid(zeros(3)), "make_grid: pictures must be (N, C, H, W), (C, H, W) or (H, W); got (3,)");
  EXPECT_ERROR(make_grid(zeros(0, 3, 2, 2)), "make_grid: there must be a picture with pixels");
  EXPECT_ERROR(make_grid(x, {.nrow = 0}), "make_grid: nrow must be at least 1");
  EXPECT_ERROR(make_grid(x.to(kUInt8), {.normalize = true}), "make_grid: the dtype must be floating point");
  EXPECT_ERROR(make_grid({x[0], x}), "make_grid: pictures must be (C, H, W), of one shape and dtype");
}

TEST(SaveImage, WritesTheGrid) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "adjoint_save_image.png";
  const Tensor x = linspace(0, 1, 2 * 3 * 4 * 5).reshape(2, 3, 4, 5);
  save_image(path, x);
  testing::expect_same_bits("file", read_image(path), to_uint8(make_grid(x)));
  save_image(x, path, {.padding = 0});
  EXPECT_EQ(read_image(path).shape(), (Shape{3, 4, 10}));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace adjoint::data
