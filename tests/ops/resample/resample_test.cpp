#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/resample/resample.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/fixtures.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace adjoint {
namespace {
constexpr auto kBilinear = Interpolation::kBilinear;

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
                       .scale_factor = {scale[0], scale[1]},
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
  const InterpolateParams params{.scale_factor = 2.0, .mode = Interpolation::kBicubic};
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

// An axis whose extent does not change is copied: non-finite values stay in place, forward and backward.
void expect_copied_axis(const TensorOptions& options) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const bool turned : {false, true}) {
    for (const bool bicubic : {false, true}) {
      for (const int variant : {0, 1, 2, 3}) {
        SCOPED_TRACE(to_string(*options.dtype) + (turned ? " turned" : "") + (bicubic ? " bicubic " : " bilinear ") +
                     std::to_string(variant));
        // (4, 3) -> (4, 7): rows 0 and 2 hold non-finite values, rows 1 and 3 stay constant.
        const std::vector<double> values = {kInf, kInf, kInf, 2, 2, 2, kNaN, kNaN, kNaN, -1, -1, -1};
        Tensor x = Tensor::from_vector(values, {4, 3}, options);
        InterpolateParams params{.mode = bicubic ? Interpolation::kBicubic : Interpolation::kBilinear,
                                 .align_corners = variant == 1,
                                 .antialias = variant == 2};
        if (turned) x = x.transpose(0, 1).clone();
        if (variant == 3) {
          params.scale_factor =
              turned ? AxisScales{2.5, 1.2} : AxisScales{1.2, 2.5};  // 4 times 1.2, rounded down, is 4
        } else {
          params.size = turned ? Size2{7, 4} : Size2{4, 7};
        }
        x.requires_grad_();
        Tape tape;
        const Tensor y = interpolate(x, params);
        const Tensor rows = turned ? y.transpose(0, 1) : y;
        ASSERT_EQ(rows.shape(), (Shape{4, 7}));
        for (const std::int64_t row : {1, 3}) {
          expect_near(rows.select(0, row), std::vector<double>(7, row == 1 ? 2.0 : -1.0), 1e-6);
        }
        // The gradient of row 0 is infinite, and zero elsewhere stays zero.
        Tensor g = Tensor::zeros({4, 7}, options);
        g.select(0, 0).fill_(kInf);
        if (turned) g = g.transpose(0, 1).clone();
        const Tensor dx = tape.gradient(y, {x}, {.grad_output = g})[0];
        const Tensor lines = turned ? dx.transpose(0, 1) : dx;
        for (const std::int64_t row : {1, 2, 3}) expect_near(lines.select(0, row), {0, 0, 0}, 0.0);
      }
    }
  }
}

TEST(Interpolate, AnAxisThatKeepsItsExtentIsCopied) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) expect_copied_axis({.dtype = dtype});
}
TEST(InterpolateCuda, AnAxisThatKeepsItsExtentIsCopied) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    expect_copied_axis({.dtype = dtype, .device = kCUDA});
  }
}

TEST(Interpolate, AnImageThatKeepsItsSizeIsACopyOfItsOwn) {
  const double kInf = std::numeric_limits<double>::infinity();
  Tensor x = Tensor::from_vector<double>({1, -kInf, 0.1, kInf, -0.0, 7}, {2, 3});
  const Tensor before = x.clone();
  for (const InterpolateParams& params : {InterpolateParams{.size = {2, 3}, .mode = kBilinear},
                                          InterpolateParams{.scale_factor = 1.25, .mode = kBilinear}}) {
    const Tensor y = interpolate(x, params);
    x.fill_(0.0);
    testing::expect_same_bits("copy", y, before);
    x.copy_(before);
  }
}

// Blocks of outputs begin anew inside these lines; the oracle computes each output from a short piece of the input.
void expect_long_lines(const TensorOptions& options) {
  constexpr std::int64_t kIn = 100'000, kOut = 300'000;
  std::vector<double> values(kIn), seeds(kOut);
  for (std::int64_t i = 0; i < kIn; ++i) values[static_cast<std::size_t>(i)] = static_cast<double>(i % 17 - 8);
  for (std::int64_t o = 0; o < kOut; ++o) seeds[static_cast<std::size_t>(o)] = static_cast<double>(o % 7 - 3);
  // Three outputs an input: at i - 1/3, i and i + 1/3.
  std::vector<double> expected(kOut), gradient(kIn, 0.0);
  for (std::int64_t o = 0; o < kOut; ++o) {
    const std::int64_t i = o / 3, j = std::clamp<std::int64_t>(i + o % 3 - 1, 0, kIn - 1);
    const double near = o % 3 == 1 ? 1.0 : 2.0 / 3.0;
    const auto at = [](std::int64_t k) { return static_cast<std::size_t>(k); };
    expected[at(o)] = near * values[at(i)] + (1.0 - near) * values[at(j)];
    gradient[at(i)] += near * seeds[at(o)];
    gradient[at(j)] += (1.0 - near) * seeds[at(o)];
  }
  for (const bool turned : {false, true}) {
    const Shape shape = turned ? Shape{kIn, 1} : Shape{1, kIn};
    Tensor x = Tensor::from_vector(values, shape, options);
    x.requires_grad_();
    Tape tape;
    const Tensor y = interpolate(x, {.size = turned ? Size2{kOut, 1} : Size2{1, kOut}, .mode = kBilinear});
    expect_near(y, expected, 1e-9);
    const Tensor g = Tensor::from_vector(seeds, y.shape(), options);
    expect_near(tape.gradient(y, {x}, {.grad_output = g})[0], gradient, 1e-9);
  }
  // One output of many inputs is their mean, and its gradient is shared; many outputs of one input are that.
  Tensor x = Tensor::from_vector(values, {1, kIn}, options), one = Tensor::full({1, 1}, 3.0, options);
  x.requires_grad_();
  one.requires_grad_();
  Tape tape;
  const Tensor mean = interpolate(x, {.size = 1, .mode = kBilinear, .antialias = true});
  EXPECT_NEAR(
      mean.item<double>(),
      interpolate(x.detach().reshape({kIn, 1}), {.size = 1, .mode = kBilinear, .antialias = true}).item<double>(),
      1e-9);
  const Tensor spread = tape.gradient(mean, {x})[0];
  EXPECT_NEAR(spread.sum().item<double>(), 1.0, 1e-9);
  const Tensor many = interpolate(one, {.size = {1, kOut}, .mode = kBilinear});
  expect_near(many, std::vector<double>(kOut, 3.0), 1e-12);
  EXPECT_NEAR(tape.gradient(many.sum(), {one})[0].item<double>(), static_cast<double>(kOut), 1e-4);
}

TEST(Interpolate, LongLinesAreResampledInBlocks) { expect_long_lines({.dtype = kFloat64}); }
TEST(InterpolateCuda, LongLinesAreResampledInBlocks) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_long_lines({.dtype = kFloat64, .device = kCUDA});
}

// Peak bytes of resident memory beyond those at the start; 0 if the kernel does not report them.
template <class F>
std::int64_t peak_bytes(F&& f) {
  const auto kibibytes = [](const std::string& key) {
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line)) {
      if (line.rfind(key, 0) == 0) return std::stoll(line.substr(key.size()));
    }
    return 0LL;
  };
  if (!(std::ofstream("/proc/self/clear_refs") << "5" << std::flush)) return 0;
  const std::int64_t before = kibibytes("VmRSS:");
  f();
  return (kibibytes("VmHWM:") - before) * 1024;
}

TEST(Interpolate, TakesAFewTimesTheResultsMemory) {
  constexpr std::int64_t kBytes = 32 << 20;
  for (const bool bicubic : {false, true}) {
    for (const Size2 size : {Size2{1, kBytes / 4}, Size2{kBytes / 4, 1}, Size2{2, kBytes / 8}}) {
      const Tensor x = Tensor::ones({1, 1});
      const std::int64_t peak = peak_bytes([&] {
        const InterpolateParams params{.size = size,
                                       .mode = bicubic ? Interpolation::kBicubic : Interpolation::kBilinear};
        EXPECT_EQ(interpolate(x, params).numel(), kBytes / 4);
      });
      EXPECT_LT(peak, 3 * kBytes) << "to (" << size.h << ", " << size.w << ")";
    }
  }
  // A wide, low image of a tall, narrow one: neither order of the axes is free, and one needs 16 GB.
  EXPECT_EQ(interpolate(Tensor::ones({1 << 16, 1}), {.size = {1, 1 << 16}, .mode = kBilinear}).numel(), 1 << 16);
}

TEST(Interpolate, AResultBeyondMemoryIsRefusedFirst) {
  const Tensor x = Tensor::ones({1, 1, 3, 3});
  const std::int64_t big = std::int64_t{1} << 31;
  EXPECT_ERROR(
      interpolate(x, {.size = {big, big}, .mode = kBilinear}),
      "interpolate: the result's bytes must fit in 63 bits; got input (1, 1, 3, 3), result (1, 1, 2147483648, 2147483648)");
  EXPECT_ERROR(interpolate(x, {.scale_factor = 0x1p30, .mode = kBilinear}),
               "interpolate: the result's bytes must fit in 63 bits");
  const Tensor h = Tensor::ones({3, 3}, {.dtype = kBFloat16});
  EXPECT_ERROR(interpolate(h, {.size = {big, big / 2}, .mode = kBilinear}),
               "interpolate: the result's bytes must fit in 63 bits");
  const std::int64_t peak = peak_bytes([&] {
    EXPECT_THROW(interpolate(x, {.size = {std::int64_t{1} << 26, std::int64_t{1} << 24}}), OutOfMemoryError);
    EXPECT_THROW(interpolate(x, {.size = {std::int64_t{1} << 24, std::int64_t{1} << 26}}), OutOfMemoryError);
  });
  EXPECT_LT(peak, 16 << 20);
  EXPECT_EQ(interpolate(Tensor::ones({0, 3, 3}), {.size = 5, .mode = kBilinear}).shape(), (Shape{0, 5, 5}));
}

TEST(Interpolate, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({1, 4, 5});
  EXPECT_ERROR(interpolate(x, {}),
               "interpolate: exactly one of size and scale_factor must be given; got size (0, 0), scale_factor (0, 0)");
  EXPECT_ERROR(interpolate(x, {.size = 2, .scale_factor = 2.0, .mode = kBilinear}),
               "interpolate: exactly one of size and scale_factor must be given; got size (2, 2), scale_factor (2, 2)");
  EXPECT_ERROR(interpolate(x, {.size = {0, 3}, .mode = kBilinear}), "interpolate: size must be positive; got (0, 3)");
  EXPECT_ERROR(interpolate(x, {.scale_factor = {-1.0, 1.0}, .mode = kBilinear}),
               "interpolate: scale_factor must be positive and finite; got (-1, 1)");
  EXPECT_ERROR(interpolate(x, {.scale_factor = 0.1, .mode = kBilinear}),
               "interpolate: the result's extents must be from 1 to 2^62; got 5 times 0.1 along axis -1");
  EXPECT_ERROR(interpolate(x, {.size = 2, .mode = Interpolation::kBilinear, .align_corners = true, .antialias = true}),
               "interpolate: antialias and align_corners exclude each other; got both");
  EXPECT_ERROR(interpolate(Tensor::zeros({4}), {.size = 2, .mode = kBilinear}),
               "interpolate: input must be (..., H, W) for mode bilinear; got (4,)");
  const auto antialiased = [&](Interpolation mode) {
    return interpolate(x, {.size = 2, .mode = mode, .antialias = true});
  };
  EXPECT_ERROR(antialiased(Interpolation::kNearest), "antialias needs kBilinear or kBicubic; got mode nearest");
  EXPECT_ERROR(antialiased(Interpolation::kNearestExact), "got mode nearest-exact");
  EXPECT_ERROR(antialiased(Interpolation::kArea), "got mode area");
  EXPECT_ERROR(antialiased(Interpolation::kLinear), "got mode linear");
  EXPECT_ERROR(interpolate(x, {.size = 2, .mode = Interpolation::kNearest, .align_corners = true}),
               "align_corners needs kLinear, kBilinear, kTrilinear or kBicubic; got mode nearest");
  EXPECT_ERROR(interpolate(x, {.size = 2, .mode = static_cast<Interpolation>(7)}),
               "interpolate: a value of Interpolation must be one of its enumerators, 0 to 6; got 7");
  EXPECT_ERROR(interpolate(Tensor::zeros({3, 0, 4}), {.size = 2, .mode = kBilinear}),
               "interpolate: height and width must be positive; got input (3, 0, 4)");
  EXPECT_ERROR(interpolate(Tensor::zeros({3, 4}, {.dtype = kUInt8}), {.size = 2, .mode = kBilinear}),
               "interpolate: input must be floating point; got uint8; convert it with .to(kFloat32)");
}

TEST(PixelShuffle, MovesChannelsToPixels) {
  const Tensor x = Tensor::arange(0.0, 16).reshape({4, 2, 2});
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
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_ERROR(pixel_shuffle(Tensor::zeros({0, large, 1}), 1 << 30),
               "pixel_shuffle: the result's extents must fit in 63 bits; got input (0, 1099511627776, 1)");
  EXPECT_ERROR(pixel_unshuffle(Tensor::zeros({large, 0, 0}), 1 << 20),
               "pixel_unshuffle: the result's extents must fit in 63 bits; got input (1099511627776, 0, 0)");
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
