#include <adjoint/core/gradcheck.h>
#include <adjoint/core/random.h>
#include <adjoint/core/tape.h>
#include <adjoint/ops/resample/resample.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/fixtures.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace adjoint {
namespace {

struct Fixture {
  std::string from;
  InterpolateParams params;
  Shape shape, out_shape;
  std::vector<double> x, y, grad, dx;
};

std::vector<Fixture> read_fixtures() {
  std::ifstream file(testing::fixture("interpolate.json"));
  std::vector<Fixture> result;
  for (const auto& entry : nlohmann::json::parse(file)) {
    const auto size = entry["size"].get<std::vector<std::int64_t>>();
    const auto scale = entry["scale"].get<std::vector<double>>();
    const auto values = [&](const char* key) {
      return entry.contains(key) ? entry[key].get<std::vector<double>>() : std::vector<double>{};
    };
    result.push_back({entry["from"],
                      {.size = {size[0], size[1]},
                       .scale = {scale[0], scale[1]},
                       .mode = entry["mode"] == "bicubic" ? Interpolation::kBicubic : Interpolation::kBilinear,
                       .align_corners = entry["align_corners"],
                       .antialias = entry["antialias"]},
                      Shape(entry["shape"].get<std::vector<std::int64_t>>()),
                      Shape(entry["out_shape"].get<std::vector<std::int64_t>>()),
                      values("x"),
                      values("y"),
                      values("grad"),
                      values("dx")});
  }
  return result;
}

const std::vector<Fixture>& fixtures() {
  static const std::vector<Fixture> all = read_fixtures();
  return all;
}

std::string describe(const Fixture& f) {
  return f.from + (f.params.mode == Interpolation::kBicubic ? " bicubic" : " bilinear") +
         (f.params.align_corners ? " align_corners" : "") + (f.params.antialias ? " antialias" : "") + " " +
         to_string(f.shape) + " -> " + to_string(f.out_shape);
}

void expect_near(const Tensor& actual, const std::vector<double>& expected, double tolerance) {
  const auto values = actual.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], tolerance) << "element " << i;
}

/// Forward and gradient of every fixture on one device and in one dtype, within `tolerance`.
void compare_with_fixtures(const TensorOptions& options, double tolerance) {
  for (const Fixture& f : fixtures()) {
    SCOPED_TRACE(describe(f));
    Tensor x = Tensor::from_vector(f.x, f.shape, options);
    if (f.from == "pillow") {  // float32 between the axes, and grey levels up to 255
      expect_near(interpolate(x, f.params), f.y, 1e-4 + 32 * tolerance);
      continue;
    }
    x.requires_grad_();
    Tape tape;
    const Tensor y = interpolate(x, f.params);
    ASSERT_EQ(y.shape(), f.out_shape);
    expect_near(y, f.y, tolerance);
    tape.backward(y, {.grad_output = Tensor::from_vector(f.grad, f.out_shape, options)});
    expect_near(x.grad(), f.dx, 4 * tolerance);
  }
}

TEST(Interpolate, MatchesPyTorchAndPillowInFloat64) { compare_with_fixtures({.dtype = kFloat64}, 1e-11); }
TEST(Interpolate, MatchesPyTorchAndPillowInFloat32) { compare_with_fixtures({.dtype = kFloat32}, 4e-6); }

TEST(InterpolateCuda, MatchesPyTorchAndPillow) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  compare_with_fixtures({.dtype = kFloat64, .device = kCUDA}, 1e-11);
  compare_with_fixtures({.dtype = kFloat32, .device = kCUDA}, 4e-6);
}

TEST(InterpolateCuda, AgreesWithTheCpuOnLargerImages) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  manual_seed(3);
  Tensor x = Tensor::rand({2, 3, 61, 83}, {.dtype = kFloat64});
  Tensor on_gpu = x.to(kCUDA);
  x.requires_grad_();
  on_gpu.requires_grad_();
  for (const bool antialias : {false, true}) {
    for (const Size2 size : {Size2{122, 166}, Size2{17, 200}, Size2{3, 3}}) {
      const InterpolateParams params{.size = size, .mode = Interpolation::kBicubic, .antialias = antialias};
      Tape tape;
      const Tensor a = interpolate(x, params), b = interpolate(on_gpu, params);
      expect_near(b, a.to_vector<double>(), 1e-13);
      const Tensor g = Tensor::rand(a.shape(), {.dtype = kFloat64});
      const Tensor da = tape.gradient(a, {x}, {.grad_output = g})[0];
      const Tensor db = tape.gradient(b, {on_gpu}, {.grad_output = g.to(kCUDA)})[0];
      expect_near(db, da.to_vector<double>(), 1e-12);
    }
  }
}

// Linear in x, so any step is exact, and a large one hides no error.
constexpr GradcheckOptions kLinear{.eps = 1.0, .atol = 1e-12, .rtol = 1e-12};

TEST(Interpolate, GradientsOfFirstAndSecondOrder) {
  manual_seed(1);
  for (const bool bicubic : {false, true}) {
    for (const int variant : {0, 1, 2}) {
      const InterpolateParams params{.size = {7, 3},
                                     .mode = bicubic ? Interpolation::kBicubic : Interpolation::kBilinear,
                                     .align_corners = variant == 1,
                                     .antialias = variant == 2};
      const auto f = [&](const std::vector<Tensor>& in) { return interpolate(in[0], params); };
      EXPECT_TRUE(gradcheck(f, {Tensor::randn({2, 4, 5}, {.dtype = kFloat64})}, kLinear));
      EXPECT_TRUE(gradgradcheck(f, {Tensor::randn({2, 4, 5}, {.dtype = kFloat64})}, kLinear));
    }
  }
}

TEST(Interpolate, KeepsConstantsAndAnUnchangedSizeKeepsTheImage) {
  const Tensor flat = Tensor::full({1, 6, 9}, 3.25, {.dtype = kFloat64});
  manual_seed(2);
  const Tensor image = Tensor::rand({2, 6, 9}, {.dtype = kFloat64});
  for (const bool antialias : {false, true}) {
    for (const auto mode : {Interpolation::kBilinear, Interpolation::kBicubic}) {
      for (const Size2 size : {Size2{1, 1}, Size2{5, 31}, Size2{13, 2}}) {
        const Tensor result = interpolate(flat, {.size = size, .mode = mode, .antialias = antialias});
        expect_near(result, std::vector<double>(static_cast<std::size_t>(result.numel()), 3.25), 1e-14);
      }
      expect_near(interpolate(image, {.size = {6, 9}, .mode = mode, .antialias = antialias}), image.to_vector<double>(),
                  1e-15);
    }
  }
}

TEST(Interpolate, TakesAnyLeadingAxesStridesAndBatchZero) {
  manual_seed(4);
  const Tensor x = Tensor::rand({2, 3, 4, 5});
  const InterpolateParams params{.scale = 2.0, .mode = Interpolation::kBicubic};
  const Tensor batched = interpolate(x, params);
  ASSERT_EQ(batched.shape(), (Shape{2, 3, 8, 10}));
  EXPECT_EQ(interpolate(x.select(0, 1).select(0, 2), params).to_vector<float>(),
            batched.select(0, 1).select(0, 2).to_vector<float>());
  const Tensor turned = interpolate(x.transpose(2, 3), params).transpose(2, 3);
  expect_near(turned, batched.to_vector<double>(), 1e-6);
  EXPECT_EQ(interpolate(Tensor::zeros({0, 3, 4, 5}), params).shape(), (Shape{0, 3, 8, 10}));
}

TEST(Interpolate, HalfPrecisionRoundsOnce) {
  manual_seed(5);
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor x = Tensor::rand({1, 9, 9}).to(dtype);
    const InterpolateParams params{.size = {4, 20}, .mode = Interpolation::kBicubic, .antialias = true};
    const Tensor once = interpolate(x.to(kFloat32), params).to(dtype);
    const Tensor result = interpolate(x, params);
    EXPECT_EQ(result.dtype(), dtype);
    EXPECT_EQ(result.to_vector<float>(), once.to_vector<float>());
  }
}

TEST(Interpolate, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({1, 4, 5});
  EXPECT_ERROR(interpolate(x, {}),
               "interpolate: exactly one of size and scale must be given; got size (0, 0), scale (0, 0)");
  EXPECT_ERROR(interpolate(x, {.size = 2, .scale = 2.0}),
               "interpolate: exactly one of size and scale must be given; got size (2, 2), scale (2, 2)");
  EXPECT_ERROR(interpolate(x, {.size = {0, 3}}), "interpolate: size must be positive; got (0, 3)");
  EXPECT_ERROR(interpolate(x, {.scale = {-1.0, 1.0}}), "interpolate: scale must be positive and finite; got (-1, 1)");
  EXPECT_ERROR(interpolate(x, {.scale = 0.1}),
               "interpolate: the result's extents must be from 1 to 2^62; got 5 times 0.1 along axis -1");
  EXPECT_ERROR(interpolate(x, {.size = 2, .align_corners = true, .antialias = true}),
               "interpolate: antialias and align_corners exclude each other; got both");
  EXPECT_ERROR(interpolate(Tensor::zeros({4}), {.size = 2}), "interpolate: input must be (..., H, W); got (4,)");
  EXPECT_ERROR(interpolate(Tensor::zeros({3, 0, 4}), {.size = 2}),
               "interpolate: height and width must be positive; got input (3, 0, 4)");
  EXPECT_ERROR(interpolate(Tensor::zeros({3, 4}, {.dtype = kUInt8}), {.size = 2}),
               "interpolate: input must be floating point; got uint8; convert it with .to(kFloat32)");
}

TEST(PixelShuffle, MovesChannelsToPixels) {
  const Tensor x = Tensor::arange(0, 16).reshape({4, 2, 2});
  const Tensor y = pixel_shuffle(x, 2);
  EXPECT_EQ(y.shape(), (Shape{1, 4, 4}));
  EXPECT_EQ(y.to_vector<int>(), (std::vector<int>{0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15}));
  EXPECT_EQ(pixel_unshuffle(y, 2).to_vector<int>(), x.to_vector<int>());
}

TEST(PixelShuffle, UnshuffleIsTheInverseForAnyRankAndFactor) {
  manual_seed(6);
  for (const Shape& shape : {Shape{18, 2, 5}, Shape{2, 9, 1, 3}, Shape{2, 2, 9, 4, 1}, Shape{0, 9, 2, 2}}) {
    const Tensor x = Tensor::rand(shape);
    const Tensor y = pixel_shuffle(x, 3);
    EXPECT_EQ(y.size(-3), x.size(-3) / 9);
    EXPECT_EQ(y.size(-1), x.size(-1) * 3);
    EXPECT_EQ(pixel_unshuffle(y, 3).to_vector<float>(), x.to_vector<float>());
  }
}

TEST(PixelShuffle, Gradients) {
  manual_seed(7);
  const auto f = [](const std::vector<Tensor>& in) { return pixel_shuffle(in[0], 2); };
  const auto g = [](const std::vector<Tensor>& in) { return pixel_unshuffle(in[0], 2); };
  EXPECT_TRUE(gradcheck(f, {Tensor::randn({4, 2, 3}, {.dtype = kFloat64})}, kLinear));
  EXPECT_TRUE(gradcheck(g, {Tensor::randn({1, 4, 2}, {.dtype = kFloat64})}, kLinear));
  EXPECT_TRUE(gradgradcheck(f, {Tensor::randn({4, 1, 2}, {.dtype = kFloat64})}, kLinear));
}

TEST(PixelShuffle, ErrorsNameTheRule) {
  EXPECT_ERROR(pixel_shuffle(Tensor::zeros({3, 2, 2}), 2),
               "pixel_shuffle: channels must be a multiple of upscale_factor^2 = 4; got input (3, 2, 2)");
  EXPECT_ERROR(pixel_shuffle(Tensor::zeros({4, 2, 2}), 0),
               "pixel_shuffle: upscale_factor must be from 1 to 2^31 - 1; got 0");
  EXPECT_ERROR(pixel_shuffle(Tensor::zeros({4, 2}), 2), "pixel_shuffle: input must be (..., C, H, W); got (4, 2)");
  EXPECT_ERROR(pixel_unshuffle(Tensor::zeros({1, 3, 2}), 2),
               "pixel_unshuffle: height and width must be multiples of downscale_factor = 2; got input (1, 3, 2)");
}

}  // namespace
}  // namespace adjoint
