// Replays the walk of every block of the tensor-core kernels on the CPU, with the kernels' own index arithmetic: staged
// input, packed filter blocks, products, stores. Small integers, so one wrong index fails exactly.
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/tests/support/conv_geometries.h>
#include <adjoint/tests/support/conv_machine.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace adjoint::cuda {
namespace {

using adjoint::testing::make_geometry;
using adjoint::testing::small_integers;

struct Problem {
  ConvGeometry g;
  bool transposed;
  std::vector<std::int64_t> x, filter;
};

std::vector<std::int64_t> expected(const Problem& problem) {
  const ConvGeometry& g = problem.g;
  std::vector<std::int64_t> out(static_cast<std::size_t>(problem.transposed ? g.image_numel() : g.feature_numel()), 0);
  const std::int64_t ci_group = g.image_channels_per_group(), cf_group = g.feature_channels_per_group();
  for (std::int64_t n = 0; n < g.batch; ++n)
    for (std::int64_t cf = 0; cf < g.feature_channels; ++cf)
      for (std::int64_t c = 0; c < ci_group; ++c)
        for (std::int64_t kh = 0; kh < g.kernel.h; ++kh)
          for (std::int64_t kw = 0; kw < g.kernel.w; ++kw)
            for (std::int64_t h = 0; h < g.feature.h; ++h)
              for (std::int64_t w = 0; w < g.feature.w; ++w) {
                const std::int64_t ih = image_position(h, kh, g.stride.h, g.padding.h, g.dilation.h);
                const std::int64_t iw = image_position(w, kw, g.stride.w, g.padding.w, g.dilation.w);
                if (ih < 0 || ih >= g.image.h || iw < 0 || iw >= g.image.w) continue;
                const std::int64_t ci = cf / cf_group * ci_group + c;
                const auto image =
                    static_cast<std::size_t>(((n * g.image_channels + ci) * g.image.h + ih) * g.image.w + iw);
                const auto feature =
                    static_cast<std::size_t>(((n * g.feature_channels + cf) * g.feature.h + h) * g.feature.w + w);
                const auto filter = static_cast<std::size_t>(((cf * ci_group + c) * g.kernel.h + kh) * g.kernel.w + kw);
                if (problem.transposed) {
                  out[image] += problem.x[feature] * problem.filter[filter];
                } else {
                  out[feature] += problem.x[image] * problem.filter[filter];
                }
              }
  return out;
}

/// One stage of one channel, as the loaders fill it; `visits` counts reads of x for bounds.
std::vector<std::int64_t> staged_channel(const CorrelationPlan& p, const CorrelationPass& pass,
                                         const CorrelationWork& work, std::int32_t channel,
                                         const std::vector<std::int64_t>& x) {
  std::vector<std::int64_t> stage(static_cast<std::size_t>(p.unit_pitch), 1000003);  // values that may not be read
  for (std::int32_t plane = 0; plane < pass.planes; ++plane)
    for (std::int32_t n = 0; n < 1 << p.log2_tile_n; ++n)
      for (std::int32_t row = 0; row < p.rows; ++row)
        for (std::int32_t col = 0; col < p.cols; ++col) {
          const std::int64_t h = (std::int64_t{work.h} + row + pass.h_base) * p.in_stride_h + pass.h_residue;
          const std::int64_t w = (std::int64_t{work.w} + col + pass.w_base) * p.in_stride_w + pass.first_plane + plane;
          std::int64_t value = 0;
          if (work.n + n < p.batch && h >= 0 && h < p.in_h && w >= 0 && w < p.in_w && channel < p.k_channels) {
            const std::int64_t c = ((work.n + n) * p.groups + work.group) * p.k_channels + channel;
            value = x[static_cast<std::size_t>((c * p.in_h + h) * p.in_w + w)];
          }
          stage[static_cast<std::size_t>((((plane << p.log2_tile_n) + n) * p.rows + row) * p.cols + col)] = value;
        }
  return stage;
}

/// The same for stages that are boxes, of a copy or of the input: one channel's, as the copy engine brings them; for
/// units that are pairs of columns, those of `half`.
std::vector<std::int64_t> staged_boxes(const CorrelationPlan& p, const CorrelationPass& pass,
                                       const CorrelationWork& work, std::int32_t channel, std::int32_t half,
                                       const std::vector<std::int64_t>& x) {
  std::vector<std::int64_t> stage;
  for (std::int32_t box = 0; box < p.boxes; ++box) {
    const CorrelationPosition first = correlation_position(p, box << p.log2_box);
    // A blocked plan's is box_positions long for one channel; a boxed one's has its other channels between.
    stage.resize(static_cast<std::size_t>(box * (p.blocked ? p.box_positions : p.box_units)), 1000003);
    for (std::int32_t n = 0; n < 1 << p.log2_stage_n(); ++n)
      for (std::int32_t row = 0; row < p.rows; ++row)
        for (std::int32_t col = 0; col < p.cols; ++col) {
          // Places of the copy's plane, beyond which are zeros, and the elements that they hold.
          std::int64_t h = std::int64_t{work.h} + first.h + row + pass.h_base;
          std::int64_t w = std::int64_t{work.w} + first.w + col + pass.w_base;
          std::int64_t image = work.n + first.n + n;
          if (p.flat()) {
            h = w < 0 ? -1 : w / p.flat_w;
            image = h / p.flat_h;
            h %= p.flat_h;
            w %= p.flat_w;
          }
          const std::int64_t from_h = h * p.in_stride_h + pass.h_residue;
          const std::int64_t from_w = p.boxed ? (work.w + first.w) * std::int64_t{p.in_stride_w} + col + pass.w_base
                                              : w * p.in_stride_w + pass.first_plane;
          const bool of_copy = p.boxed || (h < p.copy().rows() && w >= 0 && w < p.copy().columns());
          const std::int64_t column = from_w * p.unit_columns + half, width = p.in_w * p.unit_columns;
          const bool inside = of_copy && image < p.batch && from_h >= 0 && h >= 0 && from_h < p.in_h && column >= 0 &&
                              column < width && channel < p.k_channels;
          const std::int64_t c = (image * p.groups + work.group) * p.k_channels + channel;
          stage.push_back(inside ? x[static_cast<std::size_t>((c * p.in_h + from_h) * width + column)] : 0);
        }
  }
  return stage;
}

/// The place in a stage of one channel of position m's value at x_offset 0.
std::int64_t staged_place(const CorrelationPlan& p, int m) {
  if (!p.blocked) return correlation_stage_offset(p, m);
  return m / kBoxPositions * p.box_positions + m % kBoxPositions / 8 * p.box_step() + m % 8;
}

/// A slot holds a step, or, if halves come in pairs, a lower one and an upper one, while there are both.
void expect_slots(const CorrelationPlan& p, const CorrelationClass& c) {
  std::int32_t slots = 0;
  for (std::int32_t i = c.first_pass; i < c.first_pass + c.passes; ++i) {
    const CorrelationPass& pass = p.passes[i];
    const bool paired = p.pairs_halves && p.halves();
    for (std::int32_t s = pass.first_step; s < pass.end_step; ++s, ++slots) {
      if (!paired) continue;
      ASSERT_NE(p.steps[s].range, CorrelationRange::kAll);
      if (!p.blocked) {
        ASSERT_LT(s, pass.upper_step);
      }
      if (s < pass.upper_step) {
        ASSERT_EQ(p.steps[s].range, CorrelationRange::kLower);
        ASSERT_EQ(p.steps[++s].range, CorrelationRange::kUpper);
      } else {
        ASSERT_EQ(p.steps[s].range, p.steps[pass.upper_step].range);
      }
    }
  }
  ASSERT_EQ(slots, c.slots);
}

/// Runs the plan and checks that every output is stored exactly once, with its exact value.
void replay(const Problem& problem, const CorrelationPlan& p) {
  const std::int64_t sample = std::int64_t{p.groups} * p.n_channels * p.out_h * p.out_w;
  std::vector<std::int64_t> out(static_cast<std::size_t>(sample * p.batch), 0);
  std::vector<int> stored(out.size(), 0);
  const std::int64_t taps = std::int64_t{p.kernel_h} * p.filter_w;
  const std::int32_t elements = p.unit_channels * p.unit_columns;  // of a unit
  const int positions = 64 * p.m_tiles * p.consumers;
  std::vector<char> half_used(static_cast<std::size_t>(p.halves_per_group * p.groups), 0);
  for (std::int64_t tile = 0; tile < p.tiles(); ++tile) {
    const CorrelationWork work = correlation_work(p, tile);
    const CorrelationClass& c = p.class_list[work.class_index];
    std::vector<std::int64_t> sums(static_cast<std::size_t>(positions * p.tile_columns), 0);
    std::int32_t half = 0;
    expect_slots(p, c);
    for (std::int32_t i = c.first_pass; i < c.first_pass + c.passes; ++i) {
      const CorrelationPass& pass = p.passes[i];
      for (std::int32_t chunk = 0; chunk < p.chunks; ++chunk) {
        for (std::int32_t s = pass.first_step; s < pass.end_step; ++s) {
          ASSERT_EQ(correlation_block_half(p, pass, chunk, s), half);
          for (std::int32_t end = p.steps[s].halves(); end > 0; --end, ++half) {
            half_used[static_cast<std::size_t>(work.first_half + half)] = 1;
          }
        }
        // Every product of a chunk: a step's units of K, and each unit's channels.
        std::vector<std::vector<std::int64_t>> channels;
        for (std::int32_t k = 0; k < p.stage_units * elements; ++k) {
          const std::int32_t channel = chunk * kChunkUnits * p.unit_channels + k / p.unit_columns;
          channels.push_back(p.blocked || p.boxed ? staged_boxes(p, pass, work, channel, k % p.unit_columns, problem.x)
                                                  : staged_channel(p, pass, work, channel, problem.x));
        }
        for (std::int32_t s = pass.first_step; s < pass.end_step; ++s) {
          const CorrelationColumns range = correlation_columns(p, p.steps[s]);
          for (std::int32_t k = 0; k < kChunkUnits * elements; ++k) {
            CorrelationUnit unit{0, k / elements};
            if (p.gathers) unit = correlation_unit(p, pass, s, unit.channel);
            if (unit.tap < 0) continue;
            const CorrelationTap& place = p.taps[p.gathers ? unit.tap : s];
            const std::int32_t staged = unit.channel * elements + k % elements;
            const std::int32_t channel = chunk * kChunkUnits * p.unit_channels + staged / p.unit_columns;
            if (channel >= p.k_channels) continue;
            for (std::int32_t j = range.first; j < range.first + range.count; ++j) {
              const CorrelationColumn column = correlation_column(p, work, j);
              const std::int32_t tap = correlation_filter_tap(p, place, column, k % p.unit_columns);
              if (tap < 0) continue;
              const std::int64_t pair =
                  p.transposed ? (std::int64_t{work.group} * p.k_channels + channel) * p.n_channels + column.channel
                               : (std::int64_t{work.group} * p.n_channels + column.channel) * p.k_channels + channel;
              const std::int64_t weight = problem.filter[static_cast<std::size_t>(pair * taps + tap)];
              for (int m = 0; m < positions; ++m) {
                const std::int64_t at = staged_place(p, m) + place.x_offset;
                ASSERT_LT(at, channels[static_cast<std::size_t>(staged)].size());
                sums[static_cast<std::size_t>(m * p.tile_columns + j)] +=
                    weight * channels[static_cast<std::size_t>(staged)][static_cast<std::size_t>(at)];
              }
            }
          }
        }
      }
    }
    ASSERT_EQ(half, c.halves * p.chunks);
    for (int m = 0; m < positions; ++m) {
      const CorrelationPosition q = correlation_position(p, work, m);
      for (std::int32_t j = 0; j < p.tile_columns; ++j) {
        const CorrelationColumn column = correlation_column(p, work, j);
        const std::int64_t h = (std::int64_t{work.h} + q.h) * p.out_stride_h + column.phase_h;
        const std::int64_t w = (std::int64_t{work.w} + q.w) * p.out_stride_w + column.phase_w;
        if (!column.valid || work.n + q.n >= p.batch || h >= p.out_h || w >= p.out_w) continue;
        const std::int64_t channel = std::int64_t{work.group} * p.n_channels + column.channel;
        const auto to = static_cast<std::size_t>((work.n + q.n) * sample + (channel * p.out_h + h) * p.out_w + w);
        out[to] = sums[static_cast<std::size_t>(m * p.tile_columns + j)];
        ++stored[to];
      }
    }
  }
  for (const int count : stored) ASSERT_EQ(count, 1);
  for (const char used : half_used) ASSERT_EQ(used, 1);
  ASSERT_EQ(out, expected(problem));
}

void check(const ConvGeometry& g, std::int64_t smem_bytes = CorrelationLimits{}.smem_bytes_per_sm) {
  std::mt19937 random(7);
  for (const bool transposed : {false, true}) {
    Problem problem{g, transposed, small_integers(transposed ? g.feature_numel() : g.image_numel(), random),
                    small_integers(g.filter_numel(), random)};
    for (const Arithmetic arithmetic : {Arithmetic::kTF32, Arithmetic::kFloat32, Arithmetic::kBFloat16}) {
      SCOPED_TRACE(::testing::Message() << "transposed " << transposed << ", unit_elements "
                                        << unit_elements(arithmetic) << ", split " << is_split(arithmetic));
      for (CorrelationLimits limits : {CorrelationLimits{},
                                       {.pairs_halves = true},
                                       {.gathers = true},
                                       {.boxed = true},
                                       {.gathers = true, .boxed = true},
                                       {.blocked = true},
                                       {.blocked = true, .flat = true}}) {
        SCOPED_TRACE(::testing::Message()
                     << "pairs halves " << limits.pairs_halves << ", gathers " << limits.gathers << ", boxed "
                     << limits.boxed << ", blocked " << limits.blocked << ", flat " << limits.flat);
        CorrelationPlan plan;
        limits.smem_bytes_per_sm = smem_bytes;
        const bool planned = plan_correlation(g, transposed, arithmetic, limits, {}, plan);
        // A blocked plan has no tiles for two blocks a multiprocessor, which need less.
        if (limits.blocked && !planned && smem_bytes < CorrelationLimits{}.smem_bytes_per_sm) continue;
        ASSERT_TRUE(planned);
        if ((limits.gathers && !plan.gathers) || (limits.boxed && !plan.boxed) || (limits.flat && !plan.flat()))
          continue;
        if (plan.blocked) {
          EXPECT_EQ(plan.box_vectors % 8, 0);
        } else if (plan.boxed) {
          EXPECT_EQ(plan.unit_pitch % 16, 8);
          EXPECT_EQ(plan.box_units % 32, 0);
        } else {
          EXPECT_EQ(plan.unit_pitch % 32, 8);
        }
        EXPECT_GE(plan.x_stages, 2);
        EXPECT_LE(correlation_smem(plan).end, smem_bytes / plan.blocks_per_sm);
        replay(problem, plan);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

/// conv by pairs of columns, which the image's rows must allow.
void check_pairs(const ConvGeometry& g) {
  std::mt19937 random(7);
  const Problem problem{g, false, small_integers(g.image_numel(), random), small_integers(g.filter_numel(), random)};
  for (const bool gathers : {false, true}) {
    SCOPED_TRACE(gathers);
    CorrelationPlan plan;
    ASSERT_TRUE(plan_paired_columns(g, {.gathers = gathers, .boxed = true}, {}, plan));
    EXPECT_EQ(plan.unit_columns, 2);
    EXPECT_TRUE(plan.boxed);
    EXPECT_LE(plan.cols * 2, kMostOfTensorBox);
    replay(problem, plan);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

ConvGeometry of_width(std::int64_t width, const Extent2& kernel, const Extent2& stride, const Extent2& padding,
                      const Extent2& dilation, std::int64_t groups = 1, std::int64_t channels = 20) {
  ConvGeometry g{.batch = 3,
                 .image_channels = channels * groups,
                 .feature_channels = 10 * groups,
                 .groups = groups,
                 .image = {7, width},
                 .kernel = kernel,
                 .stride = stride,
                 .padding = padding,
                 .dilation = dilation};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    g.feature.in_plane(axis) =
        (g.image.in_plane(axis) + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) / stride[axis] + 1;
  }
  return g;
}

TEST(CorrelationPlan, PairsOfColumns) {
  for (const std::int64_t padding : {0, 1, 2, 3}) {
    check_pairs(of_width(16, {4, 4}, {2, 2}, {1, padding}, {1, 1}));
    check_pairs(of_width(24, {3, 3}, {2, 2}, {1, padding}, {2, 1}, 2));
    check_pairs(of_width(136, {3, 5}, {1, 2}, {1, padding}, {1, 1}, 1, 3));
  }
  for (const std::int64_t dilation : {2, 3, 4, 5}) {
    check_pairs(of_width(40, {1, 3}, {1, 4}, {0, 3}, {1, dilation}));
    check_pairs(of_width(40, {1, 4}, {1, 4}, {0, 2}, {1, dilation}));
  }
  check_pairs(of_width(32, {2, 2}, {1, 2}, {0, 0}, {1, 1}));
  check_pairs(of_width(64, {1, 16}, {1, 8}, {0, 4}, {1, 1}));
  check_pairs(of_width(320, {1, 5}, {3, 4}, {0, 7}, {1, 1}));
}
TEST(CorrelationPlan, PairsOfColumnsNeedWholeVectorsAnEvenStrideAndTapsNearby) {
  PairedColumns pairs;
  EXPECT_TRUE(pair_columns(of_width(40, {1, 3}, {1, 2}, {0, 0}, {1, 3}), pairs));
  EXPECT_FALSE(pair_columns(of_width(40, {1, 3}, {1, 2}, {0, 0}, {1, 5}), pairs));
  EXPECT_FALSE(pair_columns(of_width(40, {1, 3}, {1, 3}, {0, 0}, {1, 1}), pairs));
  EXPECT_FALSE(pair_columns(of_width(36, {1, 3}, {1, 2}, {0, 0}, {1, 1}), pairs));
}

TEST(CorrelationPlan, Stride1) { check(make_geometry(2, 20, 18, 1, {1, 300}, {1, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0})); }
TEST(CorrelationPlan, Dilation) { check(make_geometry(1, 3, 5, 1, {9, 21}, {3, 2}, {1, 1}, {2, 1}, {2, 3}, {0, 0})); }
TEST(CorrelationPlan, Stride2Kernel4) {
  check(make_geometry(3, 6, 40, 1, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}));
}
TEST(CorrelationPlan, KernelBelowStride) {
  check(make_geometry(1, 4, 3, 1, {5, 6}, {2, 1}, {3, 4}, {0, 0}, {1, 1}, {1, 2}));
}
TEST(CorrelationPlan, StrideAndDilationShareAFactor) {
  check(make_geometry(2, 3, 4, 1, {6, 7}, {3, 3}, {2, 4}, {1, 3}, {2, 6}, {0, 1}));
}
TEST(CorrelationPlan, PhasesShareColumns) {
  check(make_geometry(1, 1, 9, 1, {11, 13}, {9, 9}, {3, 3}, {4, 4}, {1, 1}, {2, 2}));
}
TEST(CorrelationPlan, Groups) { check(make_geometry(2, 12, 8, 4, {5, 9}, {3, 5}, {2, 1}, {1, 2}, {1, 2}, {1, 0})); }
TEST(CorrelationPlan, WideStride) {
  check(make_geometry(1, 9, 17, 1, {1, 70}, {1, 16}, {1, 8}, {0, 4}, {1, 1}, {0, 0}));
}
TEST(CorrelationPlan, StepsOfHalfTheColumns) {
  const ConvGeometry cases[] = {
      make_geometry(2, 60, 20, 1, {6, 9}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}),
      make_geometry(1, 128, 5, 1, {1, 40}, {1, 3}, {1, 2}, {0, 1}, {1, 1}, {0, 1}),
      make_geometry(1, 64, 9, 1, {3, 100}, {2, 16}, {1, 8}, {0, 4}, {1, 1}, {0, 0}),
  };
  for (const ConvGeometry& g : cases) {
    CorrelationPlan plan;
    ASSERT_TRUE(plan_correlation(g, true, Arithmetic::kTF32, {}, testing::kOneMultiprocessor, plan));
    EXPECT_TRUE(plan.halves()) << plan.tile_columns << " columns for " << g.image_channels << " channels";
    // If pairs are asked for, a half without a partner uses all columns.
    ASSERT_TRUE(plan_correlation(g, true, Arithmetic::kTF32, kCorrelationLimits, testing::kOneMultiprocessor, plan));
    EXPECT_EQ(plan.halves(), g.kernel.w % g.stride.w == 0);
    check(g);
  }
}
TEST(CorrelationPlan, OddStrides) { check(make_geometry(1, 2, 3, 1, {4, 9}, {7, 5}, {5, 3}, {2, 4}, {1, 1}, {4, 1})); }
TEST(CorrelationPlan, OnePixel) { check(make_geometry(5, 7, 3, 1, {1, 1}, {4, 4}, {1, 1}, {0, 0}, {1, 1}, {0, 0})); }

// From boxes of the input: strides along a row, several boxes, several channels and images.
TEST(CorrelationPlan, FewChannelsGatherFromBoxes) {
  check(make_geometry(2, 1, 20, 1, {7, 80}, {5, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 2}));
  check(make_geometry(2, 3, 20, 1, {9, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}));
  check(make_geometry(1, 3, 9, 1, {1, 300}, {1, 7}, {1, 4}, {0, 3}, {1, 1}, {0, 3}));
  check(make_geometry(1, 16, 24, 8, {3, 300}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, {0, 0}));
}

// Little shared memory forces passes by row, by plane and by single step.
TEST(CorrelationPlan, PassesUnderLittleSharedMemory) {
  const ConvGeometry g = make_geometry(1, 18, 17, 1, {12, 20}, {3, 3}, {2, 2}, {9, 9}, {9, 9}, {1, 1});
  for (const std::int64_t kilobytes : {160, 128, 112}) {
    SCOPED_TRACE(kilobytes);
    check(g, kilobytes * 1024);
  }
}

TEST(CorrelationPlan, LeavesFarTapsAndManyTilesToOthers) {
  const auto takes = [](const ConvGeometry& g) {
    CorrelationPlan plan;
    return plan_correlation(g, false, Arithmetic::kTF32, kCorrelationLimits, {}, plan);
  };
  constexpr std::int64_t kFar = std::int64_t{1} << 27;
  const auto far = [&](std::int64_t dilation) {
    return takes(make_geometry(1, 8, 8, 1, {1, 8}, {1, 2}, {1, 1}, {0, 0}, {1, dilation}, {0, 0}));
  };
  EXPECT_TRUE(far(kFar - 1));
  EXPECT_FALSE(far(kFar));
  // Two tiles of columns a group; the grid that packs the filter allows 65,535.
  const auto many = [&](std::int64_t groups) {
    return takes(make_geometry(1, groups, 300 * groups, groups, {1, 64}, {1, 2}, {1, 1}, {0, 0}, {1, 1}, {0, 0}));
  };
  EXPECT_TRUE(many(32767));
  EXPECT_FALSE(many(32768));
}

TEST(CorrelationPlan, RandomGeometries) {
  std::mt19937 random(11);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 60; ++i) {
    const std::int64_t groups = draw(1, 3);
    ConvGeometry g =
        make_geometry(draw(1, 3), groups * draw(1, 5), groups * draw(1, 5), groups, {draw(1, 9), draw(1, 20)},
                      {draw(1, 4), draw(1, 5)}, {draw(1, 4), draw(1, 5)}, {0, 0}, {draw(1, 4), draw(1, 4)}, {0, 0});
    for (int a = 0; a < 2; ++a) {
      g.padding.in_plane(a) = draw(0, g.dilation.in_plane(a) * (g.kernel.in_plane(a) - 1));
      g.image.in_plane(a) +=
          draw(0, std::max(g.stride.in_plane(a), g.dilation.in_plane(a)) - 1) - 2 * g.padding.in_plane(a);
      if (g.image.in_plane(a) < 1) {
        g.image.in_plane(a) += 2 * g.padding.in_plane(a);
        g.padding.in_plane(a) = 0;
      }
    }
    SCOPED_TRACE(::testing::Message() << "case " << i << ": kernel " << g.kernel.h << "x" << g.kernel.w << " stride "
                                      << g.stride.h << "x" << g.stride.w << " dilation " << g.dilation.h << "x"
                                      << g.dilation.w << " padding " << g.padding.h << "x" << g.padding.w << " feature "
                                      << g.feature.h << "x" << g.feature.w);
    check(g);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace adjoint::cuda
