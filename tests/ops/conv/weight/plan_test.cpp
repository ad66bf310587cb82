// Replays every block of conv_weight's tensor-core kernels on the CPU with the kernels' own index arithmetic. Small
// integers, so a position left out, doubled or misplaced fails exactly.
#include <adjoint/ops/conv/weight/boxes_plan.h>
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
      for (std::int64_t kh = 0; kh < g.kernel.h; ++kh)
        for (std::int64_t kw = 0; kw < g.kernel.w; ++kw) {
          std::int64_t sum = 0;
          for (std::int64_t n = 0; n < g.batch; ++n)
            for (std::int64_t h = 0; h < g.feature.h; ++h)
              for (std::int64_t w = 0; w < g.feature.w; ++w) {
                const std::int64_t ih = image_position(h, kh, g.stride.h, g.padding.h, g.dilation.h);
                const std::int64_t iw = image_position(w, kw, g.stride.w, g.padding.w, g.dilation.w);
                if (ih < 0 || ih >= g.image.h || iw < 0 || iw >= g.image.w) continue;
                const std::int64_t channel = f / cf * ci + c;
                sum += at(image, ((n * g.image_channels + channel) * g.image.h + ih) * g.image.w + iw) *
                       at(feature, ((n * g.feature_channels + f) * g.feature.h + h) * g.feature.w + w);
              }
          filter.push_back(sum);
        }
  return filter;
}

/// A channel's stage as the loaders fill it, item by item; all other places hold a value that no row may read.
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

/// The copy engine's result for a tensor: the layout's box that begins at `first`, with zeros outside.
Values copied_box(const TensorMapLayout& layout, const WeightBoxPlace& first, const Values& values) {
  std::int64_t elements = 1;
  for (const std::int32_t extent : layout.box) elements *= extent;
  const std::int64_t origin = static_cast<const std::int64_t*>(layout.data) - values.data();
  Values box(static_cast<std::size_t>(elements), 0);
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t rest = i, from = origin;
    bool inside = true;
    for (std::size_t axis = 0; axis < kTensorMapAxes; ++axis) {
      const std::int64_t place = first.at[axis] + rest % layout.box[axis];
      rest /= layout.box[axis];
      inside = inside && place >= 0 && place < layout.extents[axis];
      from += place * layout.strides[axis];
    }
    if (inside) box[static_cast<std::size_t>(i)] = at(values, from);
  }
  return box;
}

/// Sums of a stage's products whose operands come as boxes.
void add_boxed_stage(const WeightPlan& p, const WeightWork& work, const WeightStage& stage, const Values& image,
                     const Values& feature, Values& sums) {
  Values box;
  for (std::int32_t residue = 0; residue < p.residues; ++residue) {
    const TensorMapLayout layout = weight_image_layout(p, image.data(), kFloat64, false, residue);
    const Values part = copied_box(layout, weight_image_box(p, work, stage), image);
    box.insert(box.end(), part.begin(), part.end());
  }
  ASSERT_EQ(box.size(), static_cast<std::size_t>(p.residues * p.box_elements()));
  for (std::int32_t line = 0; line < (1 << p.log2_positions()) / p.line_positions(); ++line) {
    const Values features = copied_box(weight_feature_layout(p, feature.data(), kFloat64, false),
                                       weight_feature_box(p, work, stage, line), feature);
    for (std::int32_t row = 0; row < p.tile_rows; ++row) {
      const WeightRow r = weight_row(p, work, row);
      if (!r.valid) continue;
      for (std::int32_t m = 0; m < p.line_positions(); ++m) {
        const std::int64_t value =
            at(box, weight_row_offset(p, work, r) + weight_position_offset(p, line * p.line_positions() + m));
        for (std::int32_t column = 0; column < p.tile_columns; ++column) {
          sums[static_cast<std::size_t>(row * p.tile_columns + column)] +=
              value * at(features, column * p.line_positions() + m);
        }
      }
    }
  }
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
    if (p.boxes) {
      add_boxed_stage(p, work, stage, image, feature, sums);
      continue;
    }
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

/// The place of an element of the filter among the blocks' sums.
struct WeightPlace {
  std::int64_t block;
  std::int32_t row, column;
};

WeightPlace weight_place(const WeightPlan& p, std::int32_t group, std::int32_t feature_channel,
                         std::int32_t image_channel, std::int32_t tap) {
  const std::int32_t channel_block = image_channel / p.block_channels, tap_block = tap / p.tap_block[0].taps;
  const std::int32_t column_block = feature_channel / p.tile_columns;
  WeightPlace place;
  place.block =
      ((std::int64_t{group} * p.channel_blocks + channel_block) * p.tap_blocks + tap_block) * p.column_blocks +
      column_block;
  place.row =
      weight_row_index(p, image_channel - channel_block * p.block_channels, tap - tap_block * p.tap_block[0].taps);
  place.column = feature_channel - column_block * p.tile_columns;
  return place;
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
  for (const Arithmetic arithmetic : {Arithmetic::kTF32, Arithmetic::kFloat32, Arithmetic::kBFloat16}) {
    const int unit = unit_elements(arithmetic);
    const bool split = is_split(arithmetic);
    SCOPED_TRACE(::testing::Message() << "unit_elements " << unit << ", split " << split);
    for (const bool wgmma : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "wgmma " << wgmma);
      WeightPlan p;
      ASSERT_TRUE(wgmma ? plan_wgmma_weight(g, arithmetic, {}, p) : plan_weight(g, arithmetic, {}, p));
      EXPECT_EQ(p.image_pitch / unit % 32, 4);
      EXPECT_EQ(p.cols % unit, 0);
      if (wgmma) {
        EXPECT_EQ(wgmma_feature_bytes(p, split) % 1024, 0);
        EXPECT_GE(1 << p.log2_positions(), wgmma_weight_positions(p.tile_columns, unit));
        check_places(p);
      } else {
        EXPECT_EQ(p.feature_pitch / unit % 32, 4);
      }
      ASSERT_EQ(replay(p, g, image, feature), filter);
    }
    WeightPlan p;
    if (!plan_boxed_weight(g, arithmetic, {}, p)) continue;
    EXPECT_LE(wgmma_weight_smem_bytes(p, split), 227 * 1024);
    for (const std::int32_t extent : weight_image_layout(p, nullptr, kFloat32, split, 0).box) EXPECT_LE(extent, 256);
    ASSERT_EQ(replay(p, g, image, feature), filter);
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

bool takes_boxes(const ConvGeometry& g, Arithmetic arithmetic = Arithmetic::kTF32) {
  WeightPlan p;
  return plan_boxed_weight(g, arithmetic, {}, p);
}

TEST(WeightPlan, BoxesOfEveryStride) {
  for (const std::int64_t stride : {1, 2, 3, 4, 5, 6, 8}) {
    SCOPED_TRACE(stride);
    const ConvGeometry g =
        make_geometry(3, 20, 6, 2, {3, 64}, {2, 4}, {1, stride}, {0, 0}, {1, 1}, {0, (8 - (63 * stride + 4) % 8) % 8});
    EXPECT_TRUE(takes_boxes(g));
    EXPECT_TRUE(takes_boxes(g, Arithmetic::kBFloat16));
    check(g);
  }
}
TEST(WeightPlan, BoxesOfSmallPlanes) {
  const ConvGeometry g = make_geometry(3, 20, 6, 1, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0});
  EXPECT_TRUE(takes_boxes(g));
  EXPECT_TRUE(takes_boxes(g, Arithmetic::kBFloat16));
  check(g);
}
TEST(WeightPlan, BoxesInPieces) {
  const ConvGeometry g = make_geometry(2, 5, 9, 1, {1, 64}, {1, 10}, {1, 10}, {0, 0}, {1, 1}, {0, 0});
  WeightPlan p;
  ASSERT_TRUE(plan_boxed_weight(g, Arithmetic::kTF32, {}, p));
  EXPECT_GT(p.log2_box_w, 0);
  check(g);
}
TEST(WeightPlan, BoxesOfShiftedRows) {
  for (const std::int64_t kernel : {2, 3, 4}) {  // rows of the image of 65, 66, and 67 elements
    const ConvGeometry g = make_geometry(2, 32, 5, 1, {1, 64}, {1, kernel}, {1, 1}, {0, 0}, {1, 1}, {0, 0});
    WeightPlan p;
    ASSERT_TRUE(plan_boxed_weight(g, Arithmetic::kTF32, {}, p));
    EXPECT_EQ(p.residues, kernel == 3 ? 2 : 4);
    EXPECT_EQ(takes_boxes(g, Arithmetic::kBFloat16), kernel == 3);
    check(g);
  }
}
TEST(WeightPlan, NoBoxesOfAnEmptyBatch) {
  EXPECT_FALSE(takes_boxes(make_geometry(0, 8, 16, 1, {4, 32}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0})));
}
// A stage of 2 GB, whose bytes would be negative in 32 bits.
TEST(WeightPlan, NoBoxesBeyondSharedMemory) {
  ConvGeometry g = make_geometry(4, 256, 16, 1, {17, 32}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0});
  g.image = {16, 16};
  g.kernel = {300, 2};
  g.dilation = {255, 2050};
  g.padding = {38123, 1033};
  EXPECT_FALSE(takes_boxes(g));
}
TEST(WeightPlan, NoBoxesOfUnalignedRows) {
  EXPECT_FALSE(takes_boxes(make_geometry(2, 8, 7, 1, {1, 62}, {1, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0})));  // features
  EXPECT_FALSE(takes_boxes(make_geometry(2, 9, 7, 1, {1, 64}, {1, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0})));  // channels
  EXPECT_FALSE(takes_boxes(make_geometry(2, 8, 7, 1, {2, 64}, {1, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0})));  // planes
  EXPECT_FALSE(takes_boxes(make_geometry(2, 8, 7, 1, {1, 64}, {1, 5}, {1, 1}, {0, 1}, {1, 1}, {0, 0})));  // padding
}

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
      const std::int64_t unpadded =
          g.image.in_plane(a) + draw(0, std::max(g.stride.in_plane(a), g.dilation.in_plane(a)) - 1);
      g.padding.in_plane(a) =
          std::min(draw(0, g.dilation.in_plane(a) * (g.kernel.in_plane(a) - 1)), (unpadded - 1) / 2);
      g.image.in_plane(a) = unpadded - 2 * g.padding.in_plane(a);
    }
    SCOPED_TRACE(::testing::Message() << "case " << i);
    check(g);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace adjoint::cuda
