// The parts shared by programs of small pictures: drawn shapes, a user's pictures, grids and walks.
#include "example_tool.h"

#include "common/squares.h"

#include <adjoint/data/array_files.h>
#include <adjoint/data/image.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace examples {
namespace {

namespace fs = std::filesystem;
namespace data = adjoint::data;
using adjoint::Shape;
using adjoint::Tensor;

TEST(Squares, DrawnPicturesAreReproducibleAndOfEveryClass) {
  for (const std::string& name : drawn_sets()) {
    const DrawnSet& set = drawn_set(name);
    std::set<std::int64_t> seen;
    for (std::uint64_t number = 0; number < 100; ++number) {
      const DrawnPicture picture = set.draw(number);
      EXPECT_EQ(picture.image.shape(), (Shape{3, kPictureExtent, kPictureExtent}));
      EXPECT_EQ(picture.image.to_vector<int>(), set.draw(number).image.to_vector<int>());
      seen.insert(picture.label);
    }
    EXPECT_EQ(std::ssize(seen), std::ssize(set.classes)) << name;
    EXPECT_EQ(*seen.rbegin(), std::ssize(set.classes) - 1) << name;
    EXPECT_NE(set.draw(1).image.to_vector<int>(), set.draw(2).image.to_vector<int>()) << name;
  }
  EXPECT_ERROR(drawn_set("letters"), "the set must be one of shapes, digits; got 'letters'");
}

// A digit's strokes are brighter than its ground, and none reaches the picture's edge.
TEST(Squares, DigitsStandWhollyInTheirPictures) {
  for (std::uint64_t number = 0; number < 200; ++number) {
    const auto values = drawn_digit(number).image.to_vector<int>();
    const auto brightest = [&](bool edge) {
      int most = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto y = static_cast<std::int64_t>(i) / kPictureExtent % kPictureExtent,
                   x = static_cast<std::int64_t>(i) % kPictureExtent;
        const bool on_edge = std::min(x, y) == 0 || std::max(x, y) == kPictureExtent - 1;
        if (on_edge == edge) most = std::max(most, values[i]);
      }
      return most;
    };
    EXPECT_LT(brightest(true), 140) << number;
    EXPECT_GT(brightest(false), 180) << number;
  }
}

TEST(Squares, GreatCircleKeepsLengths) {
  const Tensor noise = noise_of(4, 2, 32), points = great_circle(noise[0], noise[1], 5);
  EXPECT_EQ(points.shape(), (Shape{5, 32}));
  const auto length = [](const Tensor& x) { return std::sqrt(adjoint::matmul(x, x).item<float>()); };
  for (std::int64_t i = 0; i < 32; ++i) {
    EXPECT_NEAR(points[0][i].item<float>(), noise[0][i].item<float>(), 1e-5F);
    EXPECT_NEAR(points[4][i].item<float>(), noise[1][i].item<float>(), 1e-5F);
  }
  EXPECT_GT(length(points[2]), 0.9F * std::min(length(noise[0]), length(noise[1])));
  const Tensor same = great_circle(noise[0], noise[0], 3);
  EXPECT_NEAR(same[1][0].item<float>(), noise[0][0].item<float>(), 1e-5F);
}

TEST(Squares, TilesStandInRows) {
  Tensor pictures = Tensor::zeros({3, 3, 4, 5}, {.dtype = adjoint::kUInt8});
  pictures[2].fill_(9.0);
  const Tensor grid = tiled(pictures, 2);
  EXPECT_EQ(grid.shape(), (Shape{3, 14, 16}));
  EXPECT_EQ(grid[0][8][2].item<int>(), 9);
  EXPECT_EQ(grid[0][7][2].item<int>(), 255);
  EXPECT_EQ(grid[0][2][9].item<int>(), 0);
  EXPECT_EQ(grid[0][8][9].item<int>(), 255) << "no fourth picture";
}

TEST(Squares, PicturesOfEverySizeBecomeSquares) {
  for (const auto& [h, w] : {std::pair{1, 1}, std::pair{5, 90}, std::pair{32, 32}, std::pair{100, 33}}) {
    const Tensor grey = Tensor::full({3, h, w}, 77.0, {.dtype = adjoint::kUInt8});
    const Tensor square = square_of(grey);
    EXPECT_EQ(square.shape(), (Shape{3, kPictureExtent, kPictureExtent}));
    for (const int value : square.to_vector<int>()) ASSERT_EQ(value, 77);
  }
  const Tensor same = drawn_shape(3).image;
  EXPECT_EQ(square_of(same).to_vector<int>(), same.to_vector<int>());
}

class SquareFolders : public ExampleTool {
 protected:
  SquareFolders() : ExampleTool("") {}

  void write(const std::string& name, const std::vector<std::uint8_t>& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  }
  /// `count` pictures of `extent` x `extent` whose bytes are all `value`, and their labels, as MNIST's files.
  void write_digits(const std::string& prefix, std::uint8_t count, std::uint8_t extent, std::uint8_t value) const {
    std::vector<std::uint8_t> images{0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, extent, 0, 0, 0, extent};
    images.insert(images.end(), static_cast<std::size_t>(count) * extent * extent, value);
    write(prefix + "-images-idx3-ubyte", images);
    std::vector<std::uint8_t> labels{0, 0, 8, 1, 0, 0, 0, count};
    labels.insert(labels.end(), count, 3);
    write(prefix + "-labels-idx1-ubyte", labels);
  }
};

TEST_F(SquareFolders, HoldOutEveryEighthPictureOrNone) {
  for (int i = 0; i < 16; ++i)
    data::write_png(folder_ / (std::to_string(i) + ".png"), drawn_shape(static_cast<std::uint64_t>(i)).image);
  const SquareSource held("test", folder_, "shapes", 10, true), whole("test", folder_, "shapes", 10, false);
  EXPECT_EQ(held.pictures.size(0), 14);
  EXPECT_EQ(held.tests.size(0), 2);
  EXPECT_EQ(whole.pictures.size(0), 16);
  EXPECT_FALSE(whole.tests.defined());
  EXPECT_NE(held.fingerprint, 0U);
  EXPECT_EQ(held.description(), "14 pictures");
  adjoint::Generator generator(1);
  const data::Example example = held.training->get(0, generator);
  EXPECT_EQ(example.input.shape(), (Shape{3, kPictureExtent, kPictureExtent}));
  for (const std::string& name : drawn_sets())
    EXPECT_EQ(SquareSource("test", "", name, 10, true).description(), "drawn " + name);
}

TEST_F(SquareFolders, AreMnistOrCifar10ByTheirFiles) {
  write_digits("train", 5, 28, 200);
  write_digits("t10k", 3, 28, 100);
  const SquareSource digits("test", folder_, "shapes", 10, true);
  EXPECT_EQ(digits.pictures.shape(), (Shape{5, 3, kPictureExtent, kPictureExtent}));
  EXPECT_EQ(digits.tests.shape(), (Shape{3, 3, kPictureExtent, kPictureExtent}));
  for (const int value : digits.pictures.to_vector<int>()) ASSERT_EQ(value, 200);
  for (const int value : digits.tests.to_vector<int>()) ASSERT_EQ(value, 100);
  fs::remove(folder_ / "t10k-images-idx3-ubyte");
  EXPECT_ERROR(SquareSource("test", folder_, "shapes", 10, true), "t10k-images-idx3-ubyte");

  fs::remove(folder_ / "train-images-idx3-ubyte");
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"}) {
    std::vector<std::uint8_t> record(3073, 7);
    write(name, record);
  }
  const SquareSource cifar("test", folder_, "shapes", 10, true);
  EXPECT_EQ(cifar.pictures.shape(), (Shape{5, 3, kPictureExtent, kPictureExtent}));
  EXPECT_EQ(cifar.tests.size(0), 1);
  EXPECT_NE(cifar.fingerprint, digits.fingerprint);
}

}  // namespace
}  // namespace examples
