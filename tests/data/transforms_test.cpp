#include <adjoint/core/base/error.h>
#include <adjoint/data/transforms.h>
#include <adjoint/tests/support/absent_device.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace adjoint::data {
namespace {

using Values = std::vector<int>;

Tensor counted(const Shape& shape, DType dtype = kFloat32) {
  Values values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<int>(i));
  return Tensor::from_vector(values, shape, {.dtype = dtype});
}

std::string message_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Transforms, CropFlipAndTransposeOfEveryElementSize) {
  for (const DType dtype : {kUInt8, kFloat16, kFloat32, kFloat64}) {
    const Tensor image = counted({2, 2, 3}, dtype);
    EXPECT_EQ(crop(image, 1, 1, 1, 2).to_vector<int>(), (Values{4, 5, 10, 11}));
    EXPECT_EQ(flip_horizontal(image).to_vector<int>(), (Values{2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9}));
    EXPECT_EQ(flip_vertical(image).to_vector<int>(), (Values{3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8}));
    EXPECT_EQ(transpose_image(image).to_vector<int>(), (Values{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
    EXPECT_EQ(transpose_image(image).shape(), (Shape{2, 3, 2}));
    EXPECT_EQ(crop(image, 0, 0, 1, 1).dtype(), dtype);
  }
}

TEST(Transforms, EmptyResultsWork) {
  EXPECT_EQ(crop(counted({1, 2, 2}), 2, 2, 0, 0).shape(), (Shape{1, 0, 0}));
  EXPECT_EQ(flip_horizontal(Tensor::zeros({0, 2, 2})).shape(), (Shape{0, 2, 2}));
}

TEST(Transforms, CropsAreInsideAndEveryPlaceComesUp) {
  Generator generator(3);
  const Tensor image = counted({1, 4, 5});
  std::set<int> corners;
  for (int i = 0; i < 200; ++i) {
    const Tensor part = random_crop(image, 3, 3, generator);
    ASSERT_EQ(part.shape(), (Shape{1, 3, 3}));
    corners.insert(part.to_vector<int>()[0]);
  }
  EXPECT_EQ(corners, (std::set<int>{0, 1, 2, 5, 6, 7}));
}

TEST(Transforms, TheEightSymmetriesAreEquallyLikely) {
  Generator generator(5);
  std::map<Values, int> seen;
  for (int i = 0; i < 8000; ++i) ++seen[random_dihedral(counted({1, 2, 2}), generator).to_vector<int>()];
  EXPECT_EQ(seen.size(), 8U);
  for (const auto& [values, count] : seen) EXPECT_NEAR(count, 1000, 150);
}

TEST(Transforms, FlipsFollowTheirProbability) {
  Generator generator(6);
  const Tensor image = counted({1, 1, 2});
  int flipped = 0;
  for (int i = 0; i < 1000; ++i) flipped += random_flip_horizontal(image, generator, 0.25).to_vector<int>()[0];
  EXPECT_NEAR(flipped, 250, 60);
  const Tensor square = counted({1, 2, 2});
  EXPECT_EQ(random_flip_horizontal(square, generator, 1.0).to_vector<int>(), (Values{1, 0, 3, 2}));
  EXPECT_EQ(random_flip_vertical(square, generator, 1.0).to_vector<int>(), (Values{2, 3, 0, 1}));
  EXPECT_EQ(random_flip_vertical(square, generator, 0.0).to_vector<int>(), (Values{0, 1, 2, 3}));
}

TEST(Transforms, TheSameSeedRepeats) {
  const Tensor image = counted({1, 9, 9});
  const auto run = [&](std::uint64_t seed) {
    Generator generator(seed);
    return random_dihedral(random_crop(image, 4, 4, generator), generator).to_vector<int>();
  };
  EXPECT_EQ(run(11), run(11));
  EXPECT_NE(run(11), run(12));
}

TEST(Transforms, ErrorsNameTheRule) {
  const Tensor image = counted({1, 4, 5});
  Generator generator(1);
  EXPECT_EQ(message_of([&] { crop(image, 2, 0, 3, 1); }),
            "crop: the window must be inside the image; got top 2, left 0, height 3, width 1 of (1, 4, 5)");
  EXPECT_EQ(message_of([&] { random_crop(image, 5, 5, generator); }),
            "random_crop: the crop must be at least 1 x 1 and fit into the image; got 5 x 5 of (1, 4, 5)");
  EXPECT_EQ(message_of([&] { flip_vertical(Tensor::zeros({3})); }),
            "flip_vertical: the image must be (..., H, W); got (3,)");
  EXPECT_EQ(message_of([&] { flip_vertical({}); }),
            "flip_vertical: the image must be defined; got an undefined Tensor");
  EXPECT_EQ(message_of([&] { random_flip_vertical(image, generator, 1.5); }),
            "random_flip_vertical: probability must be from 0 to 1; got 1.5");
  EXPECT_EQ(message_of([&] {
              crop(testing::on_absent_device({1, 4, 5}), 0, 0, 1, 1);
            }),
            "crop: the image must be on the CPU; got cuda:0");
  EXPECT_EQ(message_of([&] { random_dihedral({}, generator); }),
            "random_dihedral: the image must be defined; got an undefined Tensor");
  EXPECT_EQ(message_of([&] { random_dihedral(Tensor::zeros({3}), generator); }),
            "random_dihedral: the image must be (..., H, W); got (3,)");
  const std::uint64_t before = generator.offset();
  EXPECT_EQ(message_of([&] { random_dihedral(Tensor::zeros({}), generator); }),
            "random_dihedral: the image must be (..., H, W); got ()");
  EXPECT_EQ(generator.offset(), before) << "a call that fails draws nothing";
}

TEST(Transforms, ExtremesAreErrors) {
  const Tensor image = counted({1, 4, 5});
  Generator generator(1);
  for (const std::int64_t extreme : {INT64_MIN, INT64_MIN + 1, INT64_MAX, std::int64_t{-1}, std::int64_t{1} << 62}) {
    const auto names = [&](const std::string& op, auto call) {
      const std::string message = message_of(call);
      EXPECT_EQ(message.rfind(op + ": the ", 0), 0U) << message;
    };
    names("crop", [&] { crop(image, extreme, 0, 1, 1); });
    names("crop", [&] { crop(image, 0, extreme, 1, 1); });
    names("crop", [&] { crop(image, 0, 0, extreme, 1); });
    names("crop", [&] { crop(image, 0, 0, 1, extreme); });
    names("crop", [&] { crop(image, extreme, extreme, extreme, extreme); });
    names("random_crop", [&] { random_crop(image, extreme, 1, generator); });
    names("random_crop", [&] { random_crop(image, 1, extreme, generator); });
  }
}

TEST(Transforms, ImagesWithoutElementsMayHaveAnyExtents) {
  const std::int64_t huge = std::int64_t{1} << 61;
  const Tensor image = Tensor::zeros({0, huge, 8});
  Generator generator(1);
  EXPECT_EQ(flip_horizontal(image).shape(), image.shape());
  EXPECT_EQ(flip_vertical(image).shape(), image.shape());
  EXPECT_EQ(transpose_image(image).shape(), (Shape{0, 8, huge}));
  EXPECT_EQ(crop(image, huge - 1, 7, 1, 1).shape(), (Shape{0, 1, 1}));
  EXPECT_EQ(random_crop(image, 2, 2, generator).shape(), (Shape{0, 2, 2}));
}

}  // namespace
}  // namespace adjoint::data
