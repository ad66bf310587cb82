// Chooses tiles, passes and stages of the tensor-core kernels by a small model of their clocks.
#include <adjoint/ops/conv/correlation_plan.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <vector>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 28;
constexpr std::int64_t kMaxPlane = std::int64_t{1} << 31;
constexpr std::int64_t kMaxStageUnits = 1 << 14;  // of one channel; more never fits shared memory
constexpr std::int64_t kMaxGridY = 65535;
constexpr double kBytesPerClock = 18;          // that one multiprocessor draws from the L2 when all do
constexpr double kClocksPerInstruction = 4.6;  // of one warp, as profiles have it

/// A step before it has a place in a stage: its plane and its offset from the position.
struct RawStep {
  std::int32_t residue_h, plane, offset_h, offset_w;
  std::int32_t h, w;
  CorrelationRange range = CorrelationRange::kAll;
};

/// How a class's steps are cut into passes; each level's stages are smaller than those of the levels before.
struct Cut {
  bool by_row = false;
  bool by_step = false;
  std::int32_t planes = 1;
};

std::int32_t floor_div(std::int64_t a, std::int64_t b) {
  return static_cast<std::int32_t>(a >= 0 ? a / b : -((-a + b - 1) / b));
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Distinct offsets from q to the feature over phases [begin, end) of an axis, ascending.
std::vector<std::int32_t> transposed_offsets(const ConvGeometry& g, std::size_t axis, std::int64_t begin,
                                             std::int64_t end) {
  const std::int64_t stride = g.stride[axis];
  std::vector<std::int32_t> offsets;
  for (std::int64_t phase = begin; phase < std::min(end, stride); ++phase) {
    const std::int64_t place = phase + g.padding[axis];
    const PhaseTaps taps = phase_taps(place % stride, g.kernel[axis], stride, g.dilation[axis]);
    for (std::int64_t t = 0; t < taps.taps; ++t) {
      offsets.push_back(static_cast<std::int32_t>(place / stride - taps.first_offset - t * taps.offset_step));
    }
  }
  std::sort(offsets.begin(), offsets.end());
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
  return offsets;
}

/// The half of a tile's columns that alone holds phases of a step, where there is one.
CorrelationRange step_range(const ConvGeometry& g, std::int32_t offset) {
  const auto taken = [&](std::int64_t begin, std::int64_t end) {
    const auto offsets = transposed_offsets(g, 1, begin, end);
    return std::binary_search(offsets.begin(), offsets.end(), offset);
  };
  if (!taken(g.stride[1] / 2, g.stride[1])) return CorrelationRange::kLower;
  return taken(0, g.stride[1] / 2) ? CorrelationRange::kAll : CorrelationRange::kUpper;
}

std::vector<RawStep> transposed_steps(const ConvGeometry& g, const CorrelationPlan& plan, std::int32_t class_index) {
  const std::int64_t first_phase = std::int64_t{class_index} * plan.phases_per_class;
  const bool halves = plan.segments == 2 && plan.takes_halves && !plan.gathers;
  std::vector<RawStep> row;
  for (const std::int32_t w : transposed_offsets(g, 1, 0, g.stride[1])) {
    row.push_back({0, 0, 0, w, 0, w, halves ? step_range(g, w) : CorrelationRange::kAll});
  }
  std::vector<RawStep> steps;
  for (const std::int32_t h : transposed_offsets(g, 0, first_phase, first_phase + plan.phases_per_class)) {
    for (RawStep step : row) {
      step.h = step.offset_h = h;
      steps.push_back(step);
    }
  }
  return steps;
}

std::vector<RawStep> conv_steps(const ConvGeometry& g) {
  std::vector<RawStep> steps;
  for (std::int64_t h = 0; h < g.kernel[0]; ++h) {
    for (std::int64_t w = 0; w < g.kernel[1]; ++w) {
      const std::int64_t distance_h = h * g.dilation[0] - g.padding[0];
      const std::int64_t distance_w = w * g.dilation[1] - g.padding[1];
      const std::int32_t offset_h = floor_div(distance_h, g.stride[0]);
      const std::int32_t offset_w = floor_div(distance_w, g.stride[1]);
      steps.push_back({static_cast<std::int32_t>(distance_h - offset_h * g.stride[0]),
                       static_cast<std::int32_t>(distance_w - offset_w * g.stride[1]), offset_h, offset_w,
                       static_cast<std::int32_t>(h), static_cast<std::int32_t>(w), CorrelationRange::kAll});
    }
  }
  return steps;
}

auto pass_key(const RawStep& s, const Cut& cut) {
  return std::make_tuple(s.residue_h, s.plane / cut.planes, cut.by_row ? s.offset_h : 0, cut.by_step ? s.offset_w : 0);
}

/// The passes of one class, appended; x_offset holds the plane until place_steps() knows the stage's shape.
bool append_class(CorrelationPlan& plan, std::vector<RawStep> steps, std::vector<RawStep>& all, const Cut& cut,
                  std::int32_t alignment, int& pass_count) {
  const CorrelationClass* last = plan.classes > 0 ? &plan.class_list[plan.classes - 1] : nullptr;
  std::stable_sort(steps.begin(), steps.end(), [&](const RawStep& a, const RawStep& b) {
    return std::make_pair(pass_key(a, cut), a.range) < std::make_pair(pass_key(b, cut), b.range);
  });
  CorrelationClass& c = plan.class_list[plan.classes++];
  c = {pass_count, 0, 0, 0, last ? last->first_half + last->halves : 0};
  for (std::size_t begin = 0; begin < steps.size();) {
    std::size_t end = begin;
    std::int32_t min_h = steps[begin].offset_h, max_h = min_h, min_w = steps[begin].offset_w, max_w = min_w;
    std::int32_t first_plane = steps[begin].plane, last_plane = first_plane;
    std::int32_t halves = 0;
    std::int32_t of_range[3] = {0, 0, 0};
    for (; end < steps.size() && pass_key(steps[end], cut) == pass_key(steps[begin], cut); ++end) {
      min_h = std::min(min_h, steps[end].offset_h);
      max_h = std::max(max_h, steps[end].offset_h);
      min_w = std::min(min_w, steps[end].offset_w);
      max_w = std::max(max_w, steps[end].offset_w);
      first_plane = std::min(first_plane, steps[end].plane);
      last_plane = std::max(last_plane, steps[end].plane);
      halves += steps[end].range == CorrelationRange::kAll ? 2 : 1;
      ++of_range[static_cast<int>(steps[end].range)];
    }
    if (plan.unit_channels == 2 && plan.in_stride_w % 2 == 0 && cut.planes > 1) {
      first_plane -= first_plane % 2;
      last_plane += 1 - last_plane % 2;
    } else if (plan.unit_channels == 2 && cut.planes == plan.in_stride_w) {
      first_plane = 0;
      last_plane = plan.in_stride_w - 1;
    }
    const auto taps = static_cast<std::int32_t>(end - begin);
    const auto first_tap = static_cast<std::int32_t>(all.size());
    std::int32_t first_step = first_tap;
    if (plan.gathers) {
      // As many whole steps as the taps' units fill, and only such.
      of_range[0] = static_cast<std::int32_t>(ceil_div(taps * plan.stage_units, kChunkUnits));
      halves = 2 * of_range[0];
      first_step = (c.first_half + c.halves) / 2;
    }
    const std::int32_t pass_steps = of_range[0] + of_range[1] + of_range[2];
    if (pass_count == kMaxPasses || first_step + pass_steps > kMaxSteps) return false;
    if (plan.gathers && first_tap + taps > kMaxGatheredTaps) return false;
    const std::int32_t w_base = floor_div(min_w, alignment) * alignment;
    plan.passes[pass_count++] = {first_step,
                                 first_step + of_range[0],
                                 first_step + of_range[0] + of_range[1],
                                 first_step + pass_steps,
                                 halves,
                                 c.halves,
                                 min_h,
                                 w_base,
                                 steps[begin].residue_h,
                                 first_plane,
                                 last_plane - first_plane + 1,
                                 first_tap,
                                 taps};
    c.steps += pass_steps;
    ++c.passes;
    c.halves += halves;
    plan.rows = std::max(plan.rows, max_h - min_h + (1 << plan.log2_tile_h));
    plan.cols = std::max(plan.cols, max_w - w_base + (1 << plan.log2_tile_w));
    plan.stage_planes = std::max(plan.stage_planes, last_plane - first_plane + 1);
    all.insert(all.end(), steps.begin() + static_cast<std::ptrdiff_t>(begin),
               steps.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  return true;
}

/// Columns that a stage's rows begin at and come in multiples of.
std::int32_t column_alignment(const CorrelationPlan& plan) {
  if (plan.in_stride_w == 1) return 4 * plan.unit_channels;
  if (plan.unit_channels == 1) return 1;
  // Rows split by stride: words of two halves, or four words of rows that are long enough not to mind.
  if (plan.in_stride_w == 2 && plan.log2_tile_w >= 6) return 4;
  return plan.in_stride_w % 2 == 0 ? 1 : 2;
}

/// The most elements of a row that every copy of the plan may take; the stage has places for all of them.
std::int32_t copy_elements(const CorrelationPlan& plan, std::int32_t alignment, int pass_count) {
  if (plan.in_stride_w == 1) return alignment;
  if (plan.unit_channels == 1) return 1;
  for (int i = 0; i < pass_count; ++i) {
    const CorrelationPass& pass = plan.passes[i];
    const bool even = pass.first_plane % 2 == 0 && pass.planes % 2 == 0;
    if (plan.in_stride_w % 2 == 0 ? !even : pass.planes != plan.in_stride_w) return 1;
  }
  return plan.in_stride_w == 2 && alignment == 4 ? 8 : 2;
}

/// A pass's steps and taps, once the stage's shape is known.
void place_steps(CorrelationPlan& plan, const CorrelationPass& pass, const std::vector<RawStep>& all,
                 std::int32_t plane_units) {
  const auto place = [&](const RawStep& raw) {
    return CorrelationTap{(raw.plane - pass.first_plane) * plane_units + (raw.offset_h - pass.h_base) * plan.cols +
                              raw.offset_w - pass.w_base,
                          raw.h, raw.w};
  };
  if (plan.gathers) {
    for (std::int32_t t = pass.first_tap; t < pass.first_tap + pass.taps; ++t) {
      plan.taps[t] = place(all[static_cast<std::size_t>(t)]);
    }
  }
  std::int32_t half = 0;
  for (std::int32_t s = pass.first_step; s < pass.end_step; ++s) {
    if (plan.gathers) {
      plan.steps[s] = {{0, 0, 0}, CorrelationRange::kAll, half};
    } else {
      const RawStep& raw = all[static_cast<std::size_t>(s)];
      plan.steps[s] = {place(raw), raw.range, half};
    }
    half += plan.steps[s].halves();
  }
}

bool build_passes(const ConvGeometry& g, CorrelationPlan& plan, const Cut& cut) {
  const std::int32_t alignment = column_alignment(plan);
  std::vector<RawStep> all;
  int pass_count = 0;
  plan.classes = 0;
  plan.rows = plan.cols = plan.stage_planes = 1;
  if (plan.transposed) {
    const auto classes = static_cast<std::int32_t>(ceil_div(g.stride[0], plan.phases_per_class));
    for (std::int32_t c = 0; c < classes; ++c) {
      if (!append_class(plan, transposed_steps(g, plan, c), all, cut, alignment, pass_count)) return false;
    }
  } else if (!append_class(plan, conv_steps(g), all, cut, alignment, pass_count)) {
    return false;
  }
  plan.cols = static_cast<std::int32_t>(ceil_div(plan.cols, alignment) * alignment);
  plan.copy_elements = copy_elements(plan, alignment, pass_count);
  const std::int64_t plane_units64 = (std::int64_t{plan.rows} * plan.cols) << plan.log2_tile_n;
  if (plane_units64 * plan.stage_planes > kMaxStageUnits) return false;
  const auto plane_units = static_cast<std::int32_t>(plane_units64);
  // 8 modulo 32 banks: the four channels that a warp's lanes read at once fall into four groups of eight banks.
  plan.unit_pitch = static_cast<std::int32_t>(ceil_div(plane_units * plan.stage_planes - 8, 32) * 32 + 8);
  for (int i = 0; i < pass_count; ++i) place_steps(plan, plan.passes[i], all, plane_units);
  const CorrelationClass& last = plan.class_list[plan.classes - 1];
  plan.halves_per_group = std::int64_t{last.first_half + last.halves} * plan.tiles_per_class * plan.chunks;
  return true;
}

/// Barriers, a table of columns a consumer, and what gathering steps look up.
std::int64_t table_bytes(const CorrelationPlan& plan) {
  return kCorrelationBarrierBytes + std::int64_t{16} * plan.consumers * plan.tile_columns +
         correlation_gather_bytes(plan);
}

/// Every consumer warp stages columns of its positions on the way out.
std::int64_t staging_bytes(const CorrelationPlan& plan) {
  return std::int64_t{4} * plan.consumers * correlation_staged_columns(plan.tile_columns) * (16 * plan.m_tiles + 4) * 4;
}

/// The loaders' table: eight bytes for every value of a channel's stage, at most.
std::int64_t item_bytes(const CorrelationPlan& plan) { return std::int64_t{8} * plan.unit_pitch; }

std::int64_t stage_bytes(const CorrelationPlan& plan) { return std::int64_t{4} * plan.stage_units * plan.unit_pitch; }

/// Divides shared memory between input stages and filter slots.
bool divide_smem(CorrelationPlan& plan, const CorrelationLimits& limits) {
  const std::int64_t slot = std::int64_t{4} * plan.w_block_units;
  std::int64_t left =
      limits.smem_bytes_per_sm / plan.blocks_per_sm - 1024 - table_bytes(plan) - staging_bytes(plan) - item_bytes(plan);
  const std::int64_t all_blocks = std::int64_t{plan.class_list[0].steps} * plan.chunks;
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
  grow(plan.x_stages, 3, stage_bytes(plan));
  grow(plan.w_slots, 8, slot);
  grow(plan.x_stages, 6, stage_bytes(plan));
  return true;
}

/// Bytes that a tile of a class draws from the L2 or gives to it.
double tile_bytes(const CorrelationPlan& plan, const CorrelationClass& c) {
  double bytes = plan.weights_resident ? 0.0 : c.halves / 2.0 * plan.chunks * plan.w_block_units * 4 / plan.cluster;
  for (int j = c.first_pass; j < c.first_pass + c.passes; ++j) {
    bytes +=
        4.0 * plan.stage_units * plan.chunks * plan.passes[j].planes * ((plan.rows * plan.cols) << plan.log2_tile_n);
  }
  return bytes + 4.0 / plan.unit_channels * plan.m_tiles * plan.consumers * 64 * plan.tile_columns;
}

/// Clocks of a tile of a class on one multiprocessor that works on blocks_per_sm of them at once.
double tile_clocks(const CorrelationPlan& plan, const CorrelationClass& c, bool split) {
  const double m_tiles = plan.m_tiles * plan.consumers, products = split ? 3 : 1;
  const double steps = static_cast<double>(c.steps) * plan.chunks, whole_steps = c.halves / 2.0 * plan.chunks;
  const double tensor = whole_steps * 2 * m_tiles * products * plan.tile_columns / 2;
  const double shared = 2 * m_tiles * (steps * 16 + whole_steps * products * plan.tile_columns / 4);
  // A warp's instructions, which follow one another: those of a step, and of a fragment's reads, addresses and
  // roundings.
  const double fragment = (plan.one_row() ? 18 : 26) + (split ? 29 : 0);
  const double waits = kClocksPerInstruction * (steps * (45 + plan.m_tiles * fragment) +
                                                (split ? whole_steps * plan.m_tiles * plan.tile_columns / 2 : 0.0));
  const double drains = plan.takes_halves && 2 * c.steps != c.halves ? 150.0 * plan.chunks : 0.0;
  const double products_clocks = std::max({tensor, shared, waits}) + drains;
  const double stores = kClocksPerInstruction * (400 + 3.2 * plan.m_tiles * plan.tile_columns);
  const double memory = tile_bytes(plan, c) / kBytesPerClock;
  const double alone = products_clocks + stores;
  // Two blocks hide each other's stores and waits.
  const double busy = plan.blocks_per_sm == 1 ? alone : std::max({tensor, shared, alone / 2});
  return std::max(busy, memory) + 0.15 * std::min(busy, memory);
}

/// Clocks till the last multiprocessor is done, to compare plans by.
double model_clocks(const CorrelationPlan& plan, bool split) {
  double clocks = 0;
  for (int i = 0; i < plan.classes; ++i) clocks += tile_clocks(plan, plan.class_list[i], split) / plan.classes;
  constexpr double kMultiprocessors = 132;  // of an H200; on others the order of plans hardly differs
  const double waves = static_cast<double>(plan.tiles()) / (kMultiprocessors * plan.blocks_per_sm);
  const double tail = 0.5 * std::min(waves, 1.0);
  return (waves + tail) * plan.blocks_per_sm * clocks;
}

/// Tries cuts from the coarsest on; false where none fits.
bool fit_passes(const ConvGeometry& g, CorrelationPlan& plan, const CorrelationLimits& limits) {
  const std::int32_t all_planes = plan.in_stride_w;
  for (const bool by_row : {false, true}) {
    for (std::int32_t planes = all_planes; planes >= 1; planes = planes == 1 ? 0 : (planes + 1) / 2) {
      if (build_passes(g, plan, {by_row, false, planes}) && divide_smem(plan, limits)) return true;
    }
  }
  return build_passes(g, plan, {true, true, 1}) && divide_smem(plan, limits);
}

void set_geometry(const ConvGeometry& g, bool transposed, int unit_channels, CorrelationPlan& p) {
  p = {};
  p.transposed = transposed;
  p.groups = static_cast<std::int32_t>(g.groups);
  p.batch = g.batch;
  p.unit_channels = unit_channels;
  p.k_channels = static_cast<std::int32_t>(transposed ? g.feature_channels_per_group() : g.image_channels_per_group());
  p.n_channels = static_cast<std::int32_t>(transposed ? g.image_channels_per_group() : g.feature_channels_per_group());
  p.chunks = static_cast<std::int32_t>(ceil_div(p.k_channels, kChunkUnits * unit_channels));
  p.stage_units = kChunkUnits;
  const Extent2& in = transposed ? g.feature : g.image;
  const Extent2& out = transposed ? g.image : g.feature;
  p.in_h = static_cast<std::int32_t>(in[0]);
  p.in_w = static_cast<std::int32_t>(in[1]);
  p.out_h = static_cast<std::int32_t>(out[0]);
  p.out_w = static_cast<std::int32_t>(out[1]);
  p.kernel_h = static_cast<std::int32_t>(g.kernel[0]);
  p.kernel_w = static_cast<std::int32_t>(g.kernel[1]);
  p.padding_h = static_cast<std::int32_t>(g.padding[0]);
  p.padding_w = static_cast<std::int32_t>(g.padding[1]);
  p.dilation_h = static_cast<std::int32_t>(g.dilation[0]);
  p.dilation_w = static_cast<std::int32_t>(g.dilation[1]);
  const auto stride_h = static_cast<std::int32_t>(g.stride[0]);
  const auto stride_w = static_cast<std::int32_t>(g.stride[1]);
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
  p.takes_halves = tile.halves;
  p.w_block_units = kChunkUnits * tile.columns * (split ? 2 : 1);
  p.phases_per_class = phases_per_class;
  p.class_columns = p.n_channels * p.out_stride_w * phases_per_class;
  p.tiles_per_class = static_cast<std::int32_t>(ceil_div(p.class_columns, tile.columns));
  p.column_tiles = p.tiles_per_class * static_cast<std::int32_t>(ceil_div(p.out_stride_h, phases_per_class));
}

void set_dividers(CorrelationPlan& p) {
  const auto divider = [](std::int32_t divisor) { return Divider(static_cast<std::uint32_t>(std::max(divisor, 1))); };
  p.cluster_divider = divider(p.cluster);
  p.column_tile_divider = divider(p.column_tiles);
  p.group_divider = divider(p.groups);
  p.tile_w_divider = divider(p.tiles_w);
  p.tile_h_divider = divider(p.tiles_h);
  p.class_divider = divider(p.tiles_per_class);
  p.phase_divider = divider(p.out_stride_w / p.segments);
  p.channel_divider = divider(p.n_channels);
  p.row_divider = divider(p.rows);
  p.col_divider = divider(p.cols);
}

bool supported(const ConvGeometry& g) {
  for (int axis = 0; axis < 2; ++axis) {
    if (g.image[axis] >= kMaxExtent || g.feature[axis] >= kMaxExtent || g.padding[axis] >= kMaxExtent) return false;
    if (g.image_plane() >= kMaxPlane || g.feature_plane() >= kMaxPlane) return false;
    if (g.kernel[axis] > kMaxSteps || g.stride[axis] > 1024) return false;
    if (g.dilation[axis] * g.kernel[axis] >= kMaxExtent) return false;
  }
  if (g.image_channels >= kMaxExtent || g.feature_channels >= kMaxExtent || g.batch >= kMaxExtent) return false;
  return g.taps() <= kMaxSteps && g.stride[0] <= kMaxClasses;
}

}  // namespace

std::int64_t correlation_smem_bytes(const CorrelationPlan& plan) {
  return table_bytes(plan) + staging_bytes(plan) + item_bytes(plan) + plan.x_stages * stage_bytes(plan) +
         std::int64_t{4} * plan.w_slots * plan.w_block_units;
}

bool plan_correlation(const ConvGeometry& g, bool transposed, int unit_channels, bool split,
                      const CorrelationLimits& limits, CorrelationPlan& plan) {
  if (!supported(g)) return false;
  CorrelationPlan candidate;
  set_geometry(g, transposed, unit_channels, candidate);
  double best = std::numeric_limits<double>::infinity();
  const auto try_tile = [&](const CorrelationTile& tile, std::int32_t phases_per_class) {
    set_columns(tile, split, phases_per_class, candidate);
    candidate.blocks_per_sm = std::min(candidate.blocks_per_sm, limits.most_blocks_per_sm);
    if (std::int64_t{candidate.groups} * candidate.column_tiles > kMaxGridY) return;  // packing's grid
    int log2_positions = 0;
    while ((1 << log2_positions) < tile.positions()) ++log2_positions;
    // Of equals, long rows and few images: they lie together in memory.
    for (int w = log2_positions; w >= 3; --w) {
      if (w > 3 && (1 << (w - 1)) >= candidate.q_w) continue;
      for (int h = log2_positions - w; h >= 0; --h) {
        if (h > 0 && (1 << (h - 1)) >= candidate.q_h) continue;
        const int n = log2_positions - w - h;
        candidate.log2_tile_w = w;
        candidate.log2_tile_h = h;
        candidate.log2_tile_n = n;
        candidate.tiles_w = static_cast<std::int32_t>(ceil_div(candidate.q_w, std::int64_t{1} << w));
        candidate.tiles_h = static_cast<std::int32_t>(ceil_div(candidate.q_h, std::int64_t{1} << h));
        candidate.tiles_n = ceil_div(candidate.batch, std::int64_t{1} << n);
        candidate.cluster = 1;
        if (!fit_passes(g, candidate, limits)) continue;
        if (!candidate.weights_resident && candidate.position_tiles() > 1) candidate.cluster = limits.cluster;
        if (candidate.tiles() > std::numeric_limits<std::int32_t>::max()) continue;
        const double clocks = model_clocks(candidate, split);
        if (clocks < best) {
          best = clocks;
          plan = candidate;
        }
      }
    }
  };
  const auto try_tiles = [&](const auto& tiles) {
    for (const CorrelationTile& tile : tiles) {
      if (tile.columns > limits.most_columns) continue;
      if (candidate.gathers && !tile.gathers()) continue;
      try_tile(tile, 1);
      // Few channels: all rows of phases share a tile's columns, and the input is read once for them.
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
  if (best == std::numeric_limits<double>::infinity()) return false;
  set_dividers(plan);
  return true;
}

}  // namespace adjoint::cuda
