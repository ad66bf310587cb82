// Pools, blocks and resampling in random geometries, written by save_onnx and run by ONNX Runtime.
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/fold/fold.h>
#include <adjoint/ops/pool/pool.h>
#include <adjoint/ops/resample/resample.h>
#include <adjoint/tests/onnx/onnx_calls.h>

#include <fmt/format.h>

#include <random>
#include <vector>

namespace adjoint {
namespace {

class OnnxWindows : public testing::OnnxCalls {
 protected:
  OnnxWindows() { manual_seed(1); }
  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  Size3 pick3(const Size3& least, const Size3& most) {
    return {pick(least.d, most.d), pick(least.h, most.h), pick(least.w, most.w)};
  }
  Size2 pick2(const Size2& least, const Size2& most) { return {pick(least.h, most.h), pick(least.w, most.w)}; }

 private:
  std::mt19937 random_{1};
};

TEST_F(OnnxWindows, OfMaxima) {
  for (int i = 0; i < 60; ++i) {
    const Size2 kernel = pick2(1, 4), stride = pick2(1, 4), dilation = pick2(1, 3);
    const Size2 padding = pick2(0, {(dilation.h * (kernel.h - 1) + 1) / 2, (dilation.w * (kernel.w - 1) + 1) / 2});
    const MaxPool2dParams params{.stride = stride, .padding = padding, .dilation = dilation, .ceil_mode = i % 2 == 1};
    const bool without_elements = padding.h >= kernel.h || padding.w >= kernel.w;  // windows of padding alone
    add(fmt::format("{}: kernel {} {}, stride {} {}, padding {} {}, dilation {} {}", i, kernel.h, kernel.w, stride.h,
                    stride.w, padding.h, padding.w, dilation.h, dilation.w),
        [=](In x) -> Out {
          const auto [maxima, places] = max_pool2d_with_indices(x[0], kernel, params);
          const Tensor alone = max_pool2d(x[0], kernel, params);
          return without_elements ? Out{alone} : Out{alone, maxima, places};
        },
        {Tensor::randn(i % 3 == 0 ? Shape{3, 13, 14} : Shape{2, 3, 13, 14})});
  }
  run(0.0);
}

TEST_F(OnnxWindows, OfMeans) {
  for (int i = 0; i < 60; ++i) {
    const Size2 kernel = pick2(1, 4), stride = pick2(1, 4), padding = pick2(0, {kernel.h / 2, kernel.w / 2});
    const AvgPool2dParams params{.stride = stride,
                                 .padding = padding,
                                 .ceil_mode = i % 2 == 1,
                                 .count_include_pad = i % 4 < 2,
                                 .divisor_override = i % 5 == 0 ? 3 : 0};
    add(fmt::format("{}: kernel {} {}, stride {} {}, padding {} {}", i, kernel.h, kernel.w, stride.h, stride.w,
                    padding.h, padding.w),
        [=](In x) -> Out { return {avg_pool2d(x[0], kernel, params)}; }, {Tensor::randn({2, 3, 9, 10})});
  }
  run(1e-6);
}

TEST_F(OnnxWindows, OfAdaptivePools) {
  for (int i = 0; i < 60; ++i) {
    const Size2 size = pick2(1, 9);
    add(fmt::format("{}: {} {}", i, size.h, size.w),
        [=](In x) -> Out {
          const auto [maxima, places] = adaptive_max_pool2d_with_indices(x[0], size);
          return {maxima, places, adaptive_max_pool2d(x[0], size), adaptive_avg_pool2d(x[0], size)};
        },
        {Tensor::randn({2, 3, pick(1, 9), pick(1, 9)})});
  }
  run(1e-6);
}

TEST_F(OnnxWindows, OfVolumes) {
  for (int i = 0; i < 30; ++i) {
    const Size3 kernel = pick3(1, 4), stride = pick3(1, 3),
                padding = pick3(0, {kernel.d / 2, kernel.h / 2, kernel.w / 2});
    const MaxPool3dParams params{.stride = stride, .padding = padding, .ceil_mode = i % 2 == 1};
    const AvgPool3dParams means{.stride = stride,
                                .padding = padding,
                                .ceil_mode = i % 2 == 1,
                                .count_include_pad = i % 4 < 2,
                                .divisor_override = i % 5 == 0 ? 3 : 0};
    const bool without_elements = padding.d >= kernel.d || padding.h >= kernel.h || padding.w >= kernel.w;
    add(fmt::format("{}: kernel {} {} {}, stride {} {} {}, padding {} {} {}", i, kernel.d, kernel.h, kernel.w, stride.d,
                    stride.h, stride.w, padding.d, padding.h, padding.w),
        [=](In x) -> Out {
          const auto [maxima, places] = max_pool3d_with_indices(x[0], kernel, params);
          const Tensor alone = max_pool3d(x[0], kernel, params), mean = avg_pool3d(x[0], kernel, means);
          return without_elements ? Out{alone, mean} : Out{alone, mean, maxima, places};
        },
        {Tensor::randn(i % 3 == 0 ? Shape{3, 6, 7, 8} : Shape{2, 3, 6, 7, 8})});
    const Size3 size = pick3(1, 6);
    add(fmt::format("{}: {} {} {}", i, size.d, size.h, size.w),
        [=](In x) -> Out {
          const auto [maxima, places] = adaptive_max_pool3d_with_indices(x[0], size);
          return {maxima,
                  places,
                  adaptive_max_pool3d(x[0], size),
                  adaptive_avg_pool3d(x[0], size),
                  interpolate(x[0], {.size = size, .mode = Interpolation::kTrilinear, .align_corners = i % 2 == 1}),
                  interpolate(x[0], {.size = size, .mode = Interpolation::kNearest})};
        },
        {Tensor::randn({2, 3, pick(1, 6), pick(1, 6), pick(1, 6)})});
  }
  run(1e-5);
}

TEST_F(OnnxWindows, OfBlocks) {
  for (int i = 0; i < 60; ++i) {
    const Size2 size = pick2(4, 9), kernel = pick2(1, 2);
    const bool tiled = i % 3 == 0;
    const UnfoldParams params{.kernel_size = kernel,
                              .dilation = tiled ? Size2(1) : pick2(1, 3),
                              .padding = tiled ? Size2(0) : pick2(0, 6),
                              .stride = tiled ? kernel : pick2(1, 5)};
    add(fmt::format("{}: size {} {}", i, size.h, size.w),
        [=](In x) -> Out {
          const Tensor blocks = unfold(x[0], params);
          return {blocks, fold(blocks, size, params)};
        },
        {Tensor::randn({2, 3, size.h, size.w})});
  }
  run(1e-6);
}

TEST_F(OnnxWindows, OfResampling) {
  for (int i = 0; i < 40; ++i) {
    const Size2 size = pick2(1, 17);
    const AxisScales scale{static_cast<double>(pick(5, 50)) / 10.0, static_cast<double>(pick(5, 50)) / 10.0};
    const bool by_scale = i % 2 == 0;
    const Size2 from = pick2(2, 9);
    using enum Interpolation;
    for (const Interpolation mode : {kNearest, kNearestExact, kArea, kBilinear, kBicubic}) {
      for (int variant = 0; variant < (mode == kBilinear || mode == kBicubic ? 3 : 1); ++variant) {
        const InterpolateParams params{.size = by_scale ? Size2(0) : size,
                                       .scale_factor = by_scale ? scale : AxisScales(0.0),
                                       .mode = mode,
                                       .align_corners = variant == 1,
                                       .antialias = variant == 2};
        const Shape pictures[] = {{2, 3, from.h, from.w},
                                  {from.h, from.w},
                                  {3, from.h, from.w},
                                  {2, 1, 3, from.h, from.w}};
        add(fmt::format("{}: {} {} from {} {}", i, to_string(mode), variant, from.h, from.w),
            [=](In x) -> Out { return {interpolate(x[0], params)}; },
            {Tensor::randn(pictures[mode >= kBilinear && mode <= kBicubic ? i % 4 : 0])});
      }
    }
  }
  run(1e-5);
}

}  // namespace
}  // namespace adjoint
