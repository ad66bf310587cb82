// Chooses tiles, passes and stages of the tensor-core kernels by their cost (clocks.cpp).
#include <adjoint/ops/conv/correlation/plan.h>

#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/correlation/clocks.h>
#include <adjoint/ops/conv/correlation/filter_layout.h>
#include <adjoint/ops/conv/correlation/passes.h>
#include <adjoint/ops/conv/correlation/store_boxes.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 28;
constexpr std::int64_t kMaxPlane = std::int64_t{1} << 31;
constexpr std::int64_t kMaxGridY = 65535;

std::int64_t stage_bytes(const CorrelationPlan& plan) { return std::int64_t{4} * plan.stage_size; }

/// Divides shared memory between input stages and filter slots.
bool divide_smem(CorrelationPlan& plan, const CorrelationLimits& limits) {
  const std::int64_t slot = std::int64_t{4} * plan.w_block_units;
  plan.w_slots = plan.x_stages = 0;
  std::int64_t left = limits.smem_bytes_per_sm / plan.blocks_per_sm - 1024 - correlation_smem(plan).end;
  const std::int64_t all_blocks = std::int64_t{plan.class_list[0].slots} * plan.chunks;
  plan.weights_resident = plan.groups * plan.column_tiles == 1 && all_blocks <= kMaxCorrelationSlots &&
                          left - all_blocks * slot >= 2 * stage_bytes(plan);
  if (plan.weights_resident) {
    plan.w_slots = static_cast<std::int32_t>(std::max<std::int64_t>(all_blocks, 1));
    left -= plan.w_slots * slot;
    plan.x_stages = static_cast<std::int32_t>(std::min<std::int64_t>(left / stage_bytes(plan), kMaxCorrelationStages));
    return plan.x_stages >= 2;
  }
  plan.x_stages = 2;
  plan.w_slots = 3;
  left -= 2 * stage_bytes(plan) + 3 * slot;
  if (left < 0) return false;
  const auto grow = [&left](std::int32_t& count, std::int32_t most, std::int64_t bytes) {
    while (count < most && left >= bytes) {
      ++count;
      left -= bytes;
    }
  };
  grow(plan.w_slots, 4, slot);
  grow(plan.x_stages, plan.boxed ? 4 : 3, stage_bytes(plan));
  // With more slots, one multiplier may be further ahead of another that stores. With 256 columns a ninth slot is worth
  // less than a fifth stage: U-Net's layer took .098 ms instead of .092.
  grow(plan.w_slots, 8, slot);
  if (plan.boxed && plan.tile_columns == 256) grow(plan.x_stages, 5, stage_bytes(plan));
  if (plan.boxed) grow(plan.w_slots, 16, slot);
  grow(plan.x_stages, 6, stage_bytes(plan));
  return true;
}

/// Tries cuts from the coarsest on; returns false if none fits.
bool fit_passes(const ConvGeometry& g, const CorrelationLimits& limits, CorrelationPlan& plan, CorrelationCut& cut) {
  const std::int32_t all_planes = plan.blocked || plan.boxed ? 1 : plan.in_stride_w;
  for (const bool by_row : {false, true}) {
    for (std::int32_t planes = all_planes; planes >= 1; planes = planes == 1 ? 0 : (planes + 1) / 2) {
      cut = {by_row, false, planes};
      if (build_correlation_passes(g, cut, plan) && divide_smem(plan, limits)) return true;
    }
  }
  cut = {true, true, 1};
  return build_correlation_passes(g, cut, plan) && divide_smem(plan, limits);
}

void set_geometry(const ConvGeometry& g, bool transposed, int unit_channels, const PairedColumns* pairs,
                  CorrelationPlan& p) {
  p = {};
  p.transposed = transposed;
  p.unit_columns = pairs != nullptr ? 2 : 1;
  p.filter_w = static_cast<std::int32_t>(g.kernel.w);
  if (pairs != nullptr) {
    p.filter_w = pairs->kernel_w;
    p.pair_taps = pairs->taps;
  }
  p.groups = static_cast<std::int32_t>(g.groups);
  p.batch = g.batch;
  p.slices = 1;
  p.unit_channels = unit_channels;
  p.k_channels = static_cast<std::int32_t>(transposed ? g.feature_channels_per_group() : g.image_channels_per_group());
  p.n_channels = static_cast<std::int32_t>(transposed ? g.image_channels_per_group() : g.feature_channels_per_group());
  p.chunks = static_cast<std::int32_t>(ceil_div(p.k_channels, kChunkUnits * unit_channels));
  p.stage_units = kChunkUnits;
  const Extents& in = transposed ? g.feature : g.image;
  const Extents& out = transposed ? g.image : g.feature;
  p.in_h = static_cast<std::int32_t>(in.h);
  p.in_w = static_cast<std::int32_t>(in.w);
  p.out_h = static_cast<std::int32_t>(out.h);
  p.out_w = static_cast<std::int32_t>(out.w);
  p.kernel_h = static_cast<std::int32_t>(g.kernel.h);
  p.kernel_w = static_cast<std::int32_t>(g.kernel.w);
  p.padding_h = static_cast<std::int32_t>(g.padding.h);
  p.padding_w = static_cast<std::int32_t>(g.padding.w);
  p.dilation_h = static_cast<std::int32_t>(g.dilation.h);
  p.dilation_w = static_cast<std::int32_t>(g.dilation.w);
  const auto stride_h = static_cast<std::int32_t>(g.stride.h);
  const auto stride_w = static_cast<std::int32_t>(g.stride.w);
  p.in_stride_h = transposed ? 1 : stride_h;
  p.in_stride_w = transposed ? 1 : stride_w;
  p.out_stride_h = transposed ? stride_h : 1;
  p.out_stride_w = transposed ? stride_w : 1;
  p.segments = p.out_stride_w % 2 == 0 ? 2 : 1;
  p.q_h = static_cast<std::int32_t>(ceil_div(p.out_h, p.out_stride_h));
  p.q_w = static_cast<std::int32_t>(ceil_div(p.out_w, p.out_stride_w));
}

void set_columns(const CorrelationTile& tile, bool split, std::int32_t phases_per_class, CorrelationPlan& p) {
  p.tile_columns = tile.columns;
  p.m_tiles = tile.m_tiles;
  p.consumers = tile.consumers;
  p.blocks_per_sm = tile.blocks_per_sm;
  p.takes_halves = tile.halves || (p.blocked && tile.columns >= 128);
  p.w_block_units = kChunkUnits * tile.columns * (split ? 2 : 1);
  p.phases_per_class = phases_per_class;
  p.class_columns = p.n_channels * p.out_stride_w * phases_per_class;
  p.tiles_per_class = static_cast<std::int32_t>(ceil_div(p.class_columns, tile.columns));
  p.column_tiles = p.tiles_per_class * static_cast<std::int32_t>(ceil_div(p.out_stride_h, phases_per_class));
}

/// Returns true if the copy engine may bring boxes of the input, and lanes read them with few bank conflicts.
bool takes_boxes(const CorrelationPlan& p) {
  if (p.unit_channels != 1 || p.blocked || p.in_w % 4 != 0) return false;
  if (p.in_stride_w > kMostBoxedStride || p.in_stride_h > kMostBoxedRowStep) return false;
  return correlation_bank_conflicts(p, p.in_stride_w) <= 4;
}

/// Makes the plan flat.
void flatten(const ConvGeometry& g, CorrelationPlan& p) {
  p.flat_h = flat_extent(g, p.transposed != 0, 0);
  const std::int32_t w = flat_extent(g, p.transposed != 0, 1);
  // A vector of results is in one row.
  const std::int32_t vector = std::gcd(16 / p.element_bytes(), p.out_w);
  const std::int32_t positions = std::max(vector / p.out_stride_w, 1);
  p.flat_w = static_cast<std::int32_t>(ceil_div(w, positions) * positions);
}

/// Returns true if a plan's results may be in one line: few phases in a row, which threads write in vectors.
bool takes_flat(const CorrelationPlan& p) { return p.blocked && p.out_stride_w <= 2 && p.phases_per_class == 1; }

Divider divider(std::int32_t divisor) { return Divider(static_cast<std::uint32_t>(std::max(divisor, 1))); }

/// Pairs of channels are an odd number of words apart, or of halves, so that reads of neighbouring ones use all banks.
void set_packing(std::int32_t channels, CorrelationPlan& p) {
  CorrelationPacking& packing = p.packing;
  const std::int32_t taps = p.kernel_h * p.filter_w, summed = kChunkUnits * p.unit_channels;
  const std::int32_t word = 4 / p.element_bytes();  // elements
  packing.channels = channels;
  packing.runs = p.transposed ? summed : channels;
  packing.run = (p.transposed ? channels : summed) * taps;
  packing.pitch = taps % 2 != 0 || taps / word % 2 != 0 ? taps : taps + word;
  packing.run_pitch = p.transposed ? channels * packing.pitch : summed * packing.pitch + word;
  packing.taps = divider(taps);
}

/// A block of threads packs as many channels as leave work for all multiprocessors, if their columns fill a few sectors
/// of memory, within shared memory of which a multiprocessor has room for several blocks'. Returns false if rows of
/// phases are too long to count.
bool set_packing(const Machine& machine, CorrelationPlan& p) {
  constexpr std::int32_t kMostChannels = 64, kMostBytes = 44 << 10, kFewestColumns = 8;
  const double blocks_wanted = 4.0 * machine.multiprocessors;
  const std::int32_t phases = correlation_segment_phases(p);
  std::int64_t steps = 0;
  for (std::int32_t i = 0; i < p.classes; ++i) steps += p.class_list[i].steps;
  const std::int64_t items = steps * p.phases_per_class * p.segments * phases;
  if (items > std::numeric_limits<std::int32_t>::max()) return false;
  // A row of phases that is longer than a round is cut.
  const std::int32_t neighbours = std::min(phases, kPackItems);
  p.packing.items = static_cast<std::int32_t>(items);
  p.packing.round = kPackItems / neighbours * neighbours;
  p.packing.neighbours = divider(neighbours);
  for (std::int32_t channels = kMostChannels; channels >= 1; channels /= 2) {
    set_packing(channels, p);
    const double blocks =
        std::ceil(static_cast<double>(correlation_padded_channels(p)) / channels) * p.chunks * p.groups;
    const bool narrow = channels * phases <= kFewestColumns;
    if (correlation_pack_bytes(p) <= kMostBytes && (blocks >= blocks_wanted || narrow)) break;
  }
  return ceil_div(correlation_padded_channels(p), p.packing.channels) <= kMaxGridY;
}

void set_dividers(CorrelationPlan& p) {
  p.cluster_divider = divider(p.cluster);
  p.column_tile_divider = divider(p.column_tiles);
  p.group_divider = divider(p.groups);
  p.tile_w_divider = divider(p.tiles_w);
  p.tile_h_divider = divider(p.tiles_h);
  p.class_divider = divider(p.tiles_per_class);
  p.phase_divider = divider(correlation_segment_phases(p));
  p.channel_divider = divider(p.n_channels);
  p.row_divider = divider(p.rows);
  p.col_divider = divider(p.cols);
  p.flat_h_divider = divider(p.flat_h);
  p.flat_w_divider = divider(p.flat_w);
}

bool supported(const ConvGeometry& g) {
  for (int axis = 0; axis < 2; ++axis) {
    if (g.image.in_plane(axis) >= kMaxExtent || g.feature.in_plane(axis) >= kMaxExtent ||
        g.padding.in_plane(axis) >= kMaxExtent)
      return false;
    if (g.image_plane() >= kMaxPlane || g.feature_plane() >= kMaxPlane) return false;
    if (g.kernel.in_plane(axis) > kMaxSteps || g.stride.in_plane(axis) > 1024) return false;
    if (g.dilation.in_plane(axis) * g.kernel.in_plane(axis) >= kMaxExtent) return false;
  }
  if (g.image_channels >= kMaxExtent || g.feature_channels >= kMaxExtent || g.batch >= kMaxExtent) return false;
  return g.taps() <= kMaxSteps && g.stride.h <= kMaxClasses;
}

/// Plans for units of so many channels, or of pairs of columns, with geometry `g`.
bool plan_units(const ConvGeometry& g, bool transposed, int unit_channels, const PairedColumns* pairs, bool split,
                const CorrelationLimits& limits, const Machine& machine, CorrelationPlan& plan) {
  if (!supported(g)) return false;
  CorrelationPlan candidate;
  set_geometry(g, transposed, unit_channels, pairs, candidate);
  candidate.pairs_halves = limits.pairs_halves || limits.blocked ? 1 : 0;
  if (limits.blocked) {
    candidate.blocked = 1;
    candidate.box_blocks = (split ? 2 : 1) * kChunkBlocks;
    if (!candidate.copy().fits()) return false;
    if (std::int64_t{candidate.groups} * candidate.chunks > kMaxGridY) return false;  // packing counts in 32 bits
  }
  LeastClocks least_clocks;
  CorrelationCut cut, cut_of_plan;
  const auto try_tile = [&](const CorrelationTile& tile, std::int32_t phases_per_class) {
    set_columns(tile, split, phases_per_class, candidate);
    candidate.blocks_per_sm = std::min(candidate.blocks_per_sm, limits.most_blocks_per_sm);
    if (std::int64_t{candidate.groups} * candidate.column_tiles > kMaxGridY) return;  // packing's grid
    int log2_positions = 0;
    while ((1 << log2_positions) < tile.positions()) ++log2_positions;
    const auto try_shape = [&](int w, int h, int n) {
      candidate.log2_tile_w = w;
      candidate.log2_tile_h = h;
      candidate.log2_tile_n = n;
      const auto tiles = [](std::int64_t positions, int log2) { return ceil_div(positions, std::int64_t{1} << log2); };
      const bool flat = candidate.flat();
      const std::int64_t columns = flat ? candidate.copy().block_step() : candidate.q_w;  // of all tiles
      candidate.tiles_w = static_cast<std::int32_t>(tiles(columns, w));
      candidate.tiles_h = static_cast<std::int32_t>(tiles(flat ? 1 : candidate.q_h, h));
      candidate.tiles_n = tiles(flat ? 1 : candidate.batch, candidate.log2_tile_n);
      candidate.boxed = limits.boxed && takes_boxes(candidate) ? 1 : 0;
      for (; candidate.boxed >= 0; --candidate.boxed) {
        if (pairs != nullptr && !candidate.boxed) break;
        candidate.cluster = 1;
        if (!fit_passes(g, limits, candidate, cut)) continue;
        if (!candidate.weights_resident && candidate.position_tiles() > 1) candidate.cluster = limits.cluster;
        if (candidate.tiles() > std::numeric_limits<std::int32_t>::max()) continue;
        // Among equal plans, and among nearly equal ones that need equally many boxes, prefers long rows and few
        // images, which are contiguous in memory. The copy engine cannot write a flat plan's results, which the model
        // does not know.
        constexpr double kNearlyEqual = 0.98, kWithoutBoxes = 0.87;
        const double clocks = correlation_clocks(candidate, split, machine);
        const bool as_many_boxes =
            candidate.boxed && plan.boxed && plan.boxes <= candidate.boxes && plan.tile_columns == tile.columns;
        const bool loses_boxes = candidate.flat() && unit_channels == 1 && correlation_stores_boxes(plan, nullptr);
        const double share = loses_boxes ? kWithoutBoxes : as_many_boxes || candidate.flat() ? kNearlyEqual : 1.0;
        if (!least_clocks.take(clocks, share)) continue;
        plan = candidate;
        cut_of_plan = cut;
      }
    };
    const int least = candidate.blocked ? 0 : 3;
    for (int w = log2_positions; w >= least; --w) {
      if (w > least && (1 << (w - 1)) >= candidate.q_w) continue;
      if (w < 3 && (1 << w) < candidate.q_w) continue;  // a vector of results must be in one row
      for (int h = log2_positions - w; h >= 0; --h) {
        if (h > 0 && (1 << (h - 1)) >= candidate.q_h) continue;
        try_shape(w, h, log2_positions - w - h);
      }
    }
    if (!limits.flat || !takes_flat(candidate)) return;
    flatten(g, candidate);
    if (candidate.copy().fits()) try_shape(log2_positions, 0, 0);
    candidate.flat_h = candidate.flat_w = 0;
  };
  const auto try_tiles = [&](const auto& tiles) {
    for (const CorrelationTile& tile : tiles) {
      if (tile.columns > limits.most_columns || (!tile.mma && !limits.every_tile)) continue;
      if (candidate.gathers && !tile.gathers()) continue;
      if (candidate.blocked ? !tile.reads_blocks() : tile.blocked) continue;
      try_tile(tile, 1);
      // With few channels all rows of phases share a tile's columns, and the input is read once for them.
      const std::int64_t all = std::int64_t{candidate.n_channels} * candidate.out_stride_w * candidate.out_stride_h;
      if (candidate.out_stride_h > 1 && all <= tile.columns) try_tile(tile, candidate.out_stride_h);
    }
  };
  const std::int64_t units = ceil_div(candidate.k_channels, unit_channels);
  const bool few = limits.gathers && units <= kMaxGatheredUnits && g.taps() > 1;
  for (candidate.gathers = 0; candidate.gathers <= (few ? 1 : 0); ++candidate.gathers) {
    candidate.stage_units = candidate.gathers ? static_cast<std::int32_t>(units) : kChunkUnits;
    if (split) {
      try_tiles(kSplitCorrelationTiles);
    } else {
      try_tiles(kCorrelationTiles);
    }
  }
  if (!least_clocks.found()) return false;
  place_correlation_steps(g, cut_of_plan, plan);
  set_dividers(plan);
  return set_packing(machine, plan);
}

/// A plan's clocks including the packing of its filter, for half precision.
double packed_clocks(const CorrelationPlan& plan, const Machine& machine) {
  constexpr double kPackedBytes = 430;  // per clock
  return correlation_clocks(plan, false, machine) + 4.0 * static_cast<double>(plan.filter_units()) / kPackedBytes;
}

}  // namespace

TensorMapLayout correlation_input_layout(const CorrelationPlan& p, const void* x, bool split) {
  const std::int32_t row = p.in_w * p.unit_columns;
  const std::int64_t plane = std::int64_t{p.in_h} * row;
  return {.data = x,
          .dtype = p.unit_columns == 2 ? kBFloat16 : kFloat32,  // float16 is copied in the same way
          .extents = {row, p.in_h, p.batch, p.k_channels, p.groups},
          .strides = {1, row, plane * p.k_channels * p.groups, plane, plane * p.k_channels},
          .box = {p.cols * p.unit_columns, p.rows, 1 << p.log2_stage_n(), p.stage_units, 1},
          .row_step = p.in_stride_h,
          .rounds_to_tf32 = !split && p.unit_columns == 1};
}

TensorMapLayout correlation_copy_layout(const CorrelationPlan& p, const void* copy) {
  return channel_blocks_layout(p.copy(), copy, {p.cols, p.rows, 1 << p.log2_stage_n(), p.box_blocks});
}

bool plan_paired_columns(const ConvGeometry& g, const CorrelationLimits& limits, const Machine& machine,
                         CorrelationPlan& plan) {
  PairedColumns pairs;
  return pair_columns(g, pairs) && plan_units(pairs.geometry, false, 1, &pairs, false, limits, machine, plan);
}

bool plan_correlation(const ConvGeometry& g, bool transposed, Arithmetic arithmetic, const CorrelationLimits& limits,
                      const Machine& machine, CorrelationPlan& plan) {
  const int unit_channels = unit_elements(arithmetic);
  const bool planned = plan_units(g, transposed, unit_channels, nullptr, is_split(arithmetic), limits, machine, plan);
  CorrelationPlan pairs;
  const bool takes_pairs = limits.pairs_columns && !transposed && unit_channels == 2;
  // Clocks of the two searches are not comparable, so the other plans (PlansAbove) come from one of them.
  if (!takes_pairs || PlansAbove::clocks() >= 0 || !plan_paired_columns(g, limits, machine, pairs)) return planned;
  if (!planned || packed_clocks(pairs, machine) < packed_clocks(plan, machine)) plan = pairs;
  return true;
}

}  // namespace adjoint::cuda
