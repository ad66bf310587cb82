// The progressions that the CUDA kernels walk, against every pair of positions tried one by one.

#include <adjoint/ops/conv/plain/tap_run.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;  // (tap, source position)

template <class Visit>
void for_each_axis(Visit visit) {
  for (std::int64_t image : {1, 2, 7, 12}) {
    for (std::int64_t feature : {1, 3, 8}) {
      for (std::int64_t kernel : {1, 2, 5}) {
        for (std::int64_t stride : {1, 2, 3, 5}) {
          for (std::int64_t padding : {0, 1, 4, 9}) {
            for (std::int64_t dilation : {1, 2, 3, 4, 6}) {
              ConvGeometry g;
              g.image = {1, image};
              g.feature = {1, feature};
              g.kernel = {1, kernel};
              g.stride = {1, stride};
              g.padding = {0, padding};
              g.dilation = {1, dilation};
              visit(g);
            }
          }
        }
      }
    }
  }
}

template <class Index>
Pairs walk(const TapRun<Index>& run) {
  Pairs pairs;
  for (Index t = 0; t < run.count; ++t)
    pairs.emplace_back(run.tap + t * run.tap_step, run.source + t * run.source_step);
  return pairs;
}

TEST(TapRun, ConvVisitsEveryTapInsideTheImageOnceAndInOrder) {
  for_each_axis([](const ConvGeometry& g) {
    for (std::int64_t o = 0; o < g.feature.w; ++o) {
      Pairs expected;
      for (std::int64_t k = 0; k < g.kernel.w; ++k) {
        const std::int64_t i = image_position(o, k, g.stride.w, g.padding.w, g.dilation.w);
        if (i >= 0 && i < g.image.w) expected.emplace_back(k, i);
      }
      ASSERT_EQ(walk(image_run(ConvAxis<std::int64_t>(g, 2), o)), expected);
      ASSERT_EQ(walk(image_run(ConvAxis<std::int32_t>(g, 2), static_cast<std::int32_t>(o))), expected);
    }
  });
}

TEST(TapRun, ConvTransposeVisitsEveryFeatureThatTouchesAPositionOnce) {
  for_each_axis([](const ConvGeometry& g) {
    for (std::int64_t i = 0; i < g.image.w; ++i) {
      Pairs expected;
      for (std::int64_t k = 0; k < g.kernel.w; ++k) {
        for (std::int64_t o = 0; o < g.feature.w; ++o) {
          if (image_position(o, k, g.stride.w, g.padding.w, g.dilation.w) == i) expected.emplace_back(k, o);
        }
      }
      const std::int64_t q = (i + g.padding.w) / g.stride.w, phase = (i + g.padding.w) % g.stride.w;
      const PhaseTaps taps = phase_taps(phase, g.kernel.w, g.stride.w, g.dilation.w);
      ASSERT_EQ(walk(feature_run(ConvAxis<std::int64_t>(g, 2), taps, q)), expected);
      ASSERT_EQ(walk(feature_run(ConvAxis<std::int32_t>(g, 2), taps, static_cast<std::int32_t>(q))), expected);
    }
  });
}

TEST(TapRun, ConvWeightRangeHoldsExactlyTheFeaturesWhoseTapIsInside) {
  for_each_axis([](const ConvGeometry& g) {
    for (std::int64_t k = 0; k < g.kernel.w; ++k) {
      const PositionRange<std::int64_t> range = features_of_tap(ConvAxis<std::int64_t>(g, 2), k);
      for (std::int64_t o = 0; o < g.feature.w; ++o) {
        const std::int64_t i = image_position(o, k, g.stride.w, g.padding.w, g.dilation.w);
        ASSERT_EQ(i >= 0 && i < g.image.w, range.begin <= o && o < range.end);
      }
      ASSERT_LE(range.size(), g.feature.w);
    }
  });
}

}  // namespace
}  // namespace adjoint
