// Replays every block of conv_weight's tensor-core kernels on the CPU with the kernels' own index arithmetic. Small
// integers, so a position left out, doubled or misplaced fails exactly.
#include <adjoint/ops/conv/weight_plan.h>
#include <adjoint/tests/support/conv_geometries.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace adjoint::cuda {
namespace {

using adjoint::testing::make_geometry;
using adjoint::testing::small_integers;

using Values = std::vector<std::int64_t>;

std::int64_t at(const Values& values, std::int64_t index) { return values[static_cast<std::size_t>(index)]; }

Values expected(const ConvGeometry& g, const Values& image, const Values& feature) {
  const std::int64_t ci = g.image_channels_per_group(), cf = g.feature_channels_per_group();
  Values filter;
  for (std::int64_t f = 0; f < g.feature_channels; ++f)
    for (std::int64_t c = 0; c < ci; ++c)
      for (std::int64_t kh = 0; kh < g.kernel[0]; ++kh)
        for (std::int64_t kw = 0; kw < g.kernel[1]; ++kw) {
          std::int64_t sum = 0;
          for (std::int64_t n = 0; n < g.batch; ++n)
            for (std::int64_t h = 0; h < g.feature[0]; ++h)
              for (std::int64_t w = 0; w < g.feature[1]; ++w) {
                const std::int64_t ih = image_position(h, kh, g.stride[0], g.padding[0], g.dilation[0]);
                const std::int64_t iw = image_position(w, kw, g.stride[1], g.padding[1], g.dilation[1]);
                if (ih < 0 || ih >= g.image[0] || iw < 0 || iw >= g.image[1]) continue;
                const std::int64_t channel = f / cf * ci + c;
                sum += at(image, ((n * g.image_channels + channel) * g.image[0] + ih) * g.image[1] + iw) *
                       at(feature, ((n * g.feature_channels + f) * g.feature[0] + h) * g.feature[1] + w);
              }
          filter.push_back(sum);
        }
  return filter;
}

/// A channel's stage as the loaders fill it, item by item; elsewhere what no row may read.
Values staged_image(const WeightPlan& p, const WeightWork& work, const WeightStage& stage, std::int32_t channel,
                    const Values& image) {
  const WeightTapBlock& taps = p.tap_block[work.tap_block];
  Values staged(static_cast<std::size_t>(p.image_pitch), 1000003);
  for (std::int32_t i = 0; i < p.image_stage() << p.log2_tile_n; ++i) {
    const WeightItem item = weight_item(p, static_cast<std::uint32_t>(i), 1);
    const std::int64_t n = stage.n + item.n;
    const std::int64_t h = (std::int64_t{stage.h} + taps.h_base) * p.stride_h + taps.first_plane_h + item.h;
    const std::int64_t w = (std::int64_t{stage.w} + taps.w_base) * p.stride_w + taps.first_plane_w + item.w;
    const bool inside = n < p.batch && h >= 0 && h < p.image_h && w >= 0 && w < p.image_w;
    const std::int64_t c = (n * p.groups + work.group) * p.image_channels + work.first_channel + channel;
    staged[static_cast<std::size_t>(item.element)] = inside ? at(image, (c * p.image_h + h) * p.image_w + w) : 0;
  }
  return staged;
}

std::int64_t staged_feature(const WeightPlan& p, const WeightWork& work, const WeightStage& stage, std::int32_t column,
                            std::int32_t position, const Values& feature) {
  const std::int64_t w = stage.w + (position & ((1 << p.log2_tile_w) - 1));
  const std::int64_t h = stage.h + (position >> p.log2_tile_w & ((1 << p.log2_tile_h) - 1));
  const std::int64_t n = stage.n + (position >> (p.log2_tile_w + p.log2_tile_h));
  if (work.first_column + column >= p.feature_channels || n >= p.batch || h >= p.feature_h || w >= p.feature_w)
    return 0;
  const std::int64_t c = (n * p.groups + work.group) * p.feature_channels + work.first_column + column;
  return at(feature, (c * p.feature_h + h) * p.feature_w + w);
}

Values block_sums(const WeightPlan& p, std::int64_t block, std::int64_t split, const Values& image,
                  const Values& feature) {
  const WeightWork work = weight_work(p, block);
  Values sums(static_cast<std::size_t>(p.tile_rows * p.tile_columns), 0);
  const std::int64_t first = split * p.stages_per_split, end = std::min(first + p.stages_per_split, p.stages);
  for (std::int64_t s = first; s < end; ++s) {
    const WeightStage stage = weight_stage(p, s);
    std::vector<Values> channels;
    for (std::int32_t c = 0; c < std::min(p.block_channels, p.image_channels - work.first_channel); ++c) {
      channels.push_back(staged_image(p, work, stage, c, image));
    }
    for (std::int32_t row = 0; row < p.tile_rows; ++row) {
      const WeightRow r = weight_row(p, work, row);
      if (!r.valid) continue;
      const std::int32_t offset = weight_row_offset(p, work, r);
      for (std::int32_t m = 0; m < 1 << p.log2_positions(); ++m) {
        const std::int32_t element = offset + weight_position_offset(p, m);
        EXPECT_EQ(element / p.image_pitch, r.channel);
        const std::int64_t value = at(channels[static_cast<std::size_t>(r.channel)], element % p.image_pitch);
        for (std::int32_t column = 0; column < p.tile_columns; ++column) {
          sums[static_cast<std::size_t>(row * p.tile_columns + column)] +=
              value * staged_feature(p, work, stage, column, m, feature);
        }
      }
    }
  }
  return sums;
}

/// Every split of every block, then each element of the filter from its place.
Values replay(const WeightPlan& p, const ConvGeometry& g, const Values& image, const Values& feature) {
  std::vector<Values> sums;
  for (std::int64_t block = 0; block < p.blocks_per_split(); ++block) {
    sums.emplace_back(static_cast<std::size_t>(p.tile_rows * p.tile_columns), 0);
    for (std::int32_t s = 0; s < p.splits; ++s) {
      const Values part = block_sums(p, block, s, image, feature);
      for (std::size_t i = 0; i < part.size(); ++i) sums.back()[i] += part[i];
    }
  }
  Values filter;
  for (std::int32_t f = 0; f < g.feature_channels; ++f)
    for (std::int32_t c = 0; c < p.image_channels; ++c)
      for (std::int32_t tap = 0; tap < g.taps(); ++tap) {
        const WeightPlace place = weight_place(p, f / p.feature_channels, f % p.feature_channels, c, tap);
        filter.push_back(at(sums[static_cast<std::size_t>(place.block)], place.row * p.tile_columns + place.column));
      }
  return filter;
}

/// A wgmma stage's places: each once, and a column's bytes within its line of 128.
void check_places(const WeightPlan& p) {
  std::vector<std::int32_t> places;
  for (std::int32_t column = 0; column < p.tile_columns; ++column) {
    for (std::int32_t position = 0; position < 1 << p.log2_positions(); ++position) {
      places.push_back(wgmma_feature_place(p, column, position));
      EXPECT_EQ(places.back() / 128 % p.tile_columns, column);
    }
  }
  std::sort(places.begin(), places.end());
  for (std::size_t i = 0; i < places.size(); ++i) {
    ASSERT_EQ(places[i], static_cast<std::int32_t>(i) * 4 / p.unit_elements);
  }
}

void check(const ConvGeometry& g) {
  std::mt19937 random(3);
  const Values image = small_integers(g.image_numel(), random), feature = small_integers(g.feature_numel(), random);
  const Values filter = expected(g, image, feature);
  for (const auto& [unit_elements, split] : {std::pair{1, false}, std::pair{1, true}, std::pair{2, false}}) {
    SCOPED_TRACE(::testing::Message() << "unit_elements " << unit_elements << ", split " << split);
    for (const bool wgmma : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "wgmma " << wgmma);
      WeightPlan p;
      ASSERT_TRUE(wgmma ? plan_wgmma_weight(g, unit_elements, split, p) : plan_weight(g, unit_elements, split, p));
      EXPECT_EQ(p.image_pitch / unit_elements % 32, 4);
      EXPECT_EQ(p.cols % unit_elements, 0);
      if (wgmma) {
        EXPECT_EQ(wgmma_feature_bytes(p, split) % 1024, 0);
        EXPECT_GE(1 << p.log2_positions(), wgmma_weight_positions(p.tile_columns, unit_elements));
        check_places(p);
      } else {
        EXPECT_EQ(p.feature_pitch / unit_elements % 32, 4);
      }
      ASSERT_EQ(replay(p, g, image, feature), filter);
    }
  }
}

TEST(WeightPlan, Stride1) { check(make_geometry(2, 10, 9, 1, {1, 100}, {1, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0})); }
TEST(WeightPlan, ManyChannels) { check(make_geometry(1, 300, 9, 1, {3, 7}, {1, 2}, {1, 1}, {0, 0}, {1, 1}, {0, 0})); }
TEST(WeightPlan, ManyTaps) { check(make_geometry(1, 5, 3, 1, {9, 10}, {9, 9}, {3, 3}, {4, 4}, {1, 1}, {2, 2})); }
TEST(WeightPlan, Stride2) { check(make_geometry(3, 20, 6, 1, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0})); }
TEST(WeightPlan, Groups) { check(make_geometry(2, 12, 8, 4, {5, 9}, {3, 5}, {2, 1}, {1, 2}, {1, 2}, {1, 0})); }
TEST(WeightPlan, StrideAndDilation) {
  check(make_geometry(2, 3, 4, 1, {6, 7}, {3, 3}, {2, 4}, {1, 3}, {2, 6}, {0, 1}));
}
TEST(WeightPlan, WideStride) { check(make_geometry(1, 9, 7, 1, {1, 70}, {1, 16}, {1, 8}, {0, 4}, {1, 1}, {0, 0})); }

TEST(WeightPlan, RandomGeometries) {
  std::mt19937 random(13);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 40; ++i) {
    const std::int64_t groups = draw(1, 3);
    ConvGeometry g =
        make_geometry(draw(1, 3), groups * draw(1, 6), groups * draw(1, 6), groups, {draw(1, 9), draw(1, 20)},
                      {draw(1, 4), draw(1, 5)}, {draw(1, 4), draw(1, 5)}, {0, 0}, {draw(1, 4), draw(1, 4)}, {0, 0});
    for (std::size_t a = 0; a < 2; ++a) {
      const std::int64_t unpadded = g.image[a] + draw(0, std::max(g.stride[a], g.dilation[a]) - 1);
      g.padding[a] = std::min(draw(0, g.dilation[a] * (g.kernel[a] - 1)), (unpadded - 1) / 2);
      g.image[a] = unpadded - 2 * g.padding[a];
    }
    SCOPED_TRACE(::testing::Message() << "case " << i);
    check(g);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace adjoint::cuda
