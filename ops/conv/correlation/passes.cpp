#include <adjoint/ops/conv/correlation/passes.h>

#include <adjoint/ops/conv/base/numbers.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxStageUnits = 1 << 14;  // of one channel; more never fits shared memory

/// A step before it has a place in a stage: its plane and its offset from the position.
struct RawStep {
  std::int32_t residue_h, plane, offset_h, offset_w;
  std::int32_t h, w;
  CorrelationRange range = CorrelationRange::kAll;
  std::int32_t planes = 0, row = 0, step = 0;  // by which passes are cut, besides residue_h
};

std::int32_t floor_div(std::int64_t a, std::int64_t b) {
  return static_cast<std::int32_t>(a >= 0 ? a / b : -((-a + b - 1) / b));
}

/// Distinct offsets from q to the feature over phases [begin, end) of an axis, ascending.
std::vector<std::int32_t> transposed_offsets(const ConvGeometry& g, std::size_t axis, std::int64_t begin,
                                             std::int64_t end) {
  const std::int64_t stride = g.stride.in_plane(axis);
  std::vector<std::int32_t> offsets;
  for (std::int64_t phase = begin; phase < std::min(end, stride); ++phase) {
    const std::int64_t place = phase + g.padding.in_plane(axis);
    const PhaseTaps taps = phase_taps(place % stride, g.kernel.in_plane(axis), stride, g.dilation.in_plane(axis));
    for (std::int64_t t = 0; t < taps.taps; ++t) {
      offsets.push_back(static_cast<std::int32_t>(place / stride - taps.first_offset - t * taps.offset_step));
    }
  }
  std::sort(offsets.begin(), offsets.end());
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
  return offsets;
}

/// The half of a tile's columns that alone holds phases of a step, if there is one: `lower` and `upper` are the offsets
/// of either half's phases.
CorrelationRange step_range(const std::vector<std::int32_t>& lower, const std::vector<std::int32_t>& upper,
                            std::int32_t offset) {
  if (!std::binary_search(upper.begin(), upper.end(), offset)) return CorrelationRange::kLower;
  return std::binary_search(lower.begin(), lower.end(), offset) ? CorrelationRange::kAll : CorrelationRange::kUpper;
}

/// The same steps, each of half of a tile's columns.
std::vector<RawStep> in_halves(const std::vector<RawStep>& steps) {
  std::vector<RawStep> halves;
  for (const RawStep& step : steps) {
    for (const CorrelationRange range : {CorrelationRange::kLower, CorrelationRange::kUpper}) {
      if (step.range != CorrelationRange::kAll && step.range != range) continue;
      halves.push_back(step);
      halves.back().range = range;
    }
  }
  return halves;
}

/// Makes as many steps multiply only the lower half as only the upper half; the others multiply all columns, with
/// zeros.
void balance_halves(std::vector<RawStep>& steps) {
  const auto count = [&](CorrelationRange range) {
    return std::count_if(steps.begin(), steps.end(), [&](const RawStep& step) { return step.range == range; });
  };
  auto excess = count(CorrelationRange::kLower) - count(CorrelationRange::kUpper);
  const CorrelationRange longer = excess > 0 ? CorrelationRange::kLower : CorrelationRange::kUpper;
  for (excess = std::abs(excess); excess > 0; --excess) {
    std::find_if(steps.begin(), steps.end(), [&](const RawStep& step) { return step.range == longer; })->range =
        CorrelationRange::kAll;
  }
}

/// The steps of one row of taps, which all classes and rows share.
std::vector<RawStep> row_of_steps(const ConvGeometry& g, const CorrelationPlan& plan, const CorrelationCut& cut) {
  // Steps of other passes make no pair.
  const bool parted = plan.pairs_halves && cut.by_step;
  const bool halves = plan.segments == 2 && plan.takes_halves && !plan.gathers && (plan.blocked || !parted);
  std::vector<std::int32_t> lower, upper;
  if (halves) {
    lower = transposed_offsets(g, 1, 0, g.stride.w / 2);
    upper = transposed_offsets(g, 1, g.stride.w / 2, g.stride.w);
  }
  std::vector<RawStep> row;
  for (const std::int32_t w : transposed_offsets(g, 1, 0, g.stride.w)) {
    row.push_back({0, 0, 0, w, 0, w, halves ? step_range(lower, upper, w) : CorrelationRange::kAll});
  }
  if (plan.pairs_halves) {
    // Leftovers are slow to multiply if positions are read into registers.
    if (!plan.blocked) balance_halves(row);
    const bool any =
        std::any_of(row.begin(), row.end(), [](const RawStep& step) { return step.range != CorrelationRange::kAll; });
    if (any) row = in_halves(row);
  }
  return row;
}

std::vector<RawStep> transposed_steps(const ConvGeometry& g, const CorrelationPlan& plan,
                                      const std::vector<RawStep>& row, std::int32_t class_index) {
  const std::int64_t first_phase = std::int64_t{class_index} * plan.phases_per_class;
  std::vector<RawStep> steps;
  for (const std::int32_t h : transposed_offsets(g, 0, first_phase, first_phase + plan.phases_per_class)) {
    for (RawStep step : row) {
      step.h = step.offset_h = h;
      steps.push_back(step);
    }
  }
  return steps;
}

/// `stride_w`: the stride by which columns are split.
std::vector<RawStep> conv_steps(const ConvGeometry& g, std::int64_t stride_w) {
  std::vector<RawStep> steps;
  steps.reserve(static_cast<std::size_t>(g.taps()));
  for (std::int64_t h = 0; h < g.kernel.h; ++h) {
    for (std::int64_t w = 0; w < g.kernel.w; ++w) {
      const std::int64_t distance_h = h * g.dilation.h - g.padding.h;
      const std::int64_t distance_w = w * g.dilation.w - g.padding.w;
      const std::int32_t offset_h = floor_div(distance_h, g.stride.h);
      const std::int32_t offset_w = floor_div(distance_w, stride_w);
      steps.push_back({static_cast<std::int32_t>(distance_h - offset_h * g.stride.h),
                       static_cast<std::int32_t>(distance_w - offset_w * stride_w), offset_h, offset_w,
                       static_cast<std::int32_t>(h), static_cast<std::int32_t>(w), CorrelationRange::kAll});
    }
  }
  return steps;
}

auto pass_key(const RawStep& s) { return std::tie(s.residue_h, s.planes, s.row, s.step); }

/// Reorders steps of a pass, lower ones before upper ones, with pairs of both first. Returns the number of pairs.
std::int32_t pair_halves(std::vector<RawStep>::iterator begin, std::vector<RawStep>::iterator upper,
                         std::vector<RawStep>::iterator end) {
  const std::vector<RawStep> lowers(begin, upper), uppers(upper, end);
  const std::size_t pairs = std::min(lowers.size(), uppers.size());
  for (std::size_t i = 0; i < pairs; ++i) {
    *begin++ = lowers[i];
    *begin++ = uppers[i];
  }
  const std::vector<RawStep>& longer = lowers.size() > uppers.size() ? lowers : uppers;
  std::copy(longer.begin() + static_cast<std::ptrdiff_t>(pairs), longer.end(), begin);
  return static_cast<std::int32_t>(pairs);
}

/// The values besides the cut on which passes depend: all but the tile's shape and the stage's.
struct PassKey {
  Extents kernel, stride;
  Margins padding;
  Extents dilation;
  std::int32_t transposed, unit_channels, stage_units, gathers, blocked, boxed, flat_w;
  std::int32_t phases_per_class, segments, takes_halves, pairs_halves;
  CorrelationCut cut;

  friend bool operator==(const PassKey&, const PassKey&) = default;
};

/// A pass whose w_base is its steps' least column, not aligned yet, and the largest distance between its steps.
struct CutPass {
  CorrelationPass pass;
  std::int32_t span_h, last_w;
};

/// The passes of all classes, which tiles of every shape share.
struct CutSteps {
  PassKey key{};
  bool fits = false;           // into a plan
  std::vector<RawStep> steps;  // of all passes, one after the other
  std::vector<CutPass> passes;
  std::vector<CorrelationClass> classes;
};

/// Appends the passes of one class; returns false if there are too many.
bool append_class(const CorrelationPlan& plan, const CorrelationCut& cut, std::vector<RawStep>& steps, CutSteps& all) {
  for (RawStep& step : steps) {
    step.planes = step.plane / cut.planes;
    step.row = cut.by_row ? step.offset_h : 0;
    if (plan.flat()) {
      step.offset_w += step.offset_h * plan.flat_w;
      step.offset_h = 0;
    }
    step.step = cut.by_step ? step.offset_w : 0;
  }
  const auto before = [](const RawStep& a, const RawStep& b) {
    return std::tuple_cat(pass_key(a), std::tie(a.range)) < std::tuple_cat(pass_key(b), std::tie(b.range));
  };
  std::stable_sort(steps.begin(), steps.end(), before);
  const std::int32_t first_half = all.classes.empty() ? 0 : all.classes.back().first_half + all.classes.back().halves;
  CorrelationClass c{static_cast<std::int32_t>(all.passes.size()), 0, 0, 0, 0, first_half};
  for (std::size_t begin = 0; begin < steps.size();) {
    std::size_t end = begin;
    std::int32_t min_h = steps[begin].offset_h, max_h = min_h, min_w = steps[begin].offset_w, max_w = min_w;
    std::int32_t first_plane = steps[begin].plane, last_plane = first_plane;
    std::int32_t halves = 0;
    std::int32_t of_range[3] = {0, 0, 0};
    for (; end < steps.size() && pass_key(steps[end]) == pass_key(steps[begin]); ++end) {
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
    const auto first_tap = static_cast<std::int32_t>(all.steps.size());
    std::int32_t first_step = first_tap;
    if (plan.gathers) {
      // As many whole steps as the taps' units fill, and only whole ones.
      of_range[0] = static_cast<std::int32_t>(ceil_div(taps * plan.stage_units, kChunkUnits));
      halves = 2 * of_range[0];
      first_step = (c.first_half + c.halves) / 2;
    }
    const std::int32_t pass_steps = of_range[0] + of_range[1] + of_range[2];
    std::int32_t upper_step = first_step + of_range[0] + of_range[1], pairs = 0;
    if (plan.pairs_halves && of_range[0] == 0) {
      const auto first = steps.begin() + static_cast<std::ptrdiff_t>(begin);
      pairs = pair_halves(first, first + of_range[1], first + pass_steps);
      upper_step = first_step + 2 * pairs;
    }
    if (all.passes.size() == kMaxPasses || first_step + pass_steps > kMaxSteps) return false;
    if (plan.gathers && first_tap + taps > kMaxGatheredTaps) return false;
    static_assert(2 * kMaxSteps <=
                  std::numeric_limits<std::int16_t>::max());  // all are halves, and no number is larger
    const auto number = [](std::int32_t value) { return static_cast<std::int16_t>(value); };
    all.passes.push_back(
        {.pass = {number(first_step), number(first_step + of_range[0]), number(upper_step),
                  number(first_step + pass_steps), number(halves), number(c.halves), min_h, min_w,
                  steps[begin].residue_h, first_plane, last_plane - first_plane + 1, number(first_tap), number(taps)},
         .span_h = max_h - min_h,
         .last_w = max_w});
    c.steps += pass_steps;
    c.slots += pass_steps - pairs;
    ++c.passes;
    c.halves += halves;
    all.steps.insert(all.steps.end(), steps.begin() + static_cast<std::ptrdiff_t>(begin),
                     steps.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  all.classes.push_back(c);
  return true;
}

bool cut_steps(const ConvGeometry& g, const CorrelationPlan& plan, const CorrelationCut& cut, CutSteps& all) {
  std::vector<RawStep> steps;
  if (!plan.transposed) {
    steps = conv_steps(g, plan.boxed ? 1 : g.stride.w);
    return append_class(plan, cut, steps, all);
  }
  const auto classes = static_cast<std::int32_t>(ceil_div(g.stride.h, plan.phases_per_class));
  const std::vector<RawStep> row = row_of_steps(g, plan, cut);
  for (std::int32_t c = 0; c < classes; ++c) {
    steps = transposed_steps(g, plan, row, c);
    if (!append_class(plan, cut, steps, all)) return false;
  }
  return true;
}

/// Kept, because planning tries some hundred shapes of tiles, and some numbers of slices of the channels, which share
/// them.
const CutSteps& find_cut_steps(const ConvGeometry& g, const CorrelationPlan& plan, const CorrelationCut& cut) {
  constexpr std::size_t kMostKept = 32;  // the cuts of both kinds of tiles, classes and boxes
  thread_local std::array<CutSteps, kMostKept> kept;
  thread_local std::size_t made = 0;
  const PassKey key{g.kernel,        g.stride,           g.padding,         g.dilation,
                    plan.transposed, plan.unit_channels, plan.stage_units,  plan.gathers,
                    plan.blocked,    plan.boxed,         plan.flat_w,       plan.phases_per_class,
                    plan.segments,   plan.takes_halves,  plan.pairs_halves, cut};
  for (std::size_t back = 1; back <= std::min(made, kMostKept); ++back) {
    const CutSteps& one = kept[(made - back) % kMostKept];
    if (one.key == key) return one;
  }
  CutSteps& one = kept[made++ % kMostKept];
  one.key = {};  // memory may run out before it is made
  one.steps.clear();
  one.passes.clear();
  one.classes.clear();
  one.fits = cut_steps(g, plan, cut, one);
  one.key = key;
  return one;
}

/// The alignment of a stage's rows, in columns, for start and length.
std::int32_t column_alignment(const CorrelationPlan& plan) {
  if (plan.blocked) return 1;
  if (plan.boxed || plan.in_stride_w == 1) return 4 * plan.unit_channels;
  if (plan.unit_channels == 1) return 1;
  // Rows split by stride: words of two halves, or four words if rows are long enough.
  if (plan.in_stride_w == 2 && plan.log2_tile_w >= 6) return 4;
  return plan.in_stride_w % 2 == 0 ? 1 : 2;
}

/// The most elements of a row that every copy of the plan may move; the stage has places for all of them.
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
    plan.steps[s] = {CorrelationRange::kAll, static_cast<std::int16_t>(half)};
    if (!plan.gathers) {
      const RawStep& raw = all[static_cast<std::size_t>(s)];
      plan.steps[s].range = raw.range;
      plan.taps[s] = place(raw);
    }
    half += plan.steps[s].halves();
  }
}

/// Returns true if a stage's box must have fewer positions.
bool exceeds_box(const CorrelationPlan& plan) {
  const std::int32_t positions = 1 << plan.log2_box;
  if (plan.blocked) return positions > kBoxPositions;
  if (!plan.boxed) return false;
  // Only for one image, because several images' rows often have no padding that pad_box() supports.
  if (plan.unit_columns == 2 &&
      (plan.log2_stage_n() > 0 || plan.stage_stride_w << plan.log2_stage_w() > kPairedColumns))
    return true;
  if (!plan.gathers) return positions * plan.stage_stride_w > kBoxedPositions;
  return plan.stage_stride_w << plan.log2_stage_w() > kBoxedColumns;
}

/// Sizes a boxed plan's rows and columns so that channels are 8 modulo 16 units apart, and no larger than a box.
bool pad_box(CorrelationPlan& plan) {
  const std::int32_t rows = plan.rows, cols = plan.cols;
  for (plan.rows = rows; plan.rows <= rows + 1; ++plan.rows) {
    for (plan.cols = cols; plan.cols < cols + 16; plan.cols += 4) {
      const std::int64_t units = (std::int64_t{plan.rows} * plan.cols) << plan.log2_stage_n();
      if (units % 16 == 8) {
        return plan.rows * plan.in_stride_h <= kMostOfTensorBox && plan.cols * plan.unit_columns <= kMostOfTensorBox;
      }
    }
  }
  return false;
}

}  // namespace

bool build_correlation_passes(const ConvGeometry& g, const CorrelationCut& cut, CorrelationPlan& plan) {
  const std::int32_t log2_positions = plan.log2_tile_n + plan.log2_tile_h + plan.log2_tile_w;
  plan.stage_stride_w = plan.boxed ? plan.in_stride_w : 1;
  plan.log2_box = log2_positions;
  while (exceeds_box(plan)) --plan.log2_box;
  plan.boxes = 1 << (log2_positions - plan.log2_box);
  const std::int32_t alignment = column_alignment(plan);
  const CutSteps& all = find_cut_steps(g, plan, cut);
  if (!all.fits) return false;
  plan.classes = static_cast<std::int32_t>(all.classes.size());
  std::copy(all.classes.begin(), all.classes.end(), plan.class_list);
  const auto pass_count = static_cast<int>(all.passes.size());
  plan.rows = plan.cols = plan.stage_planes = 1;
  for (int i = 0; i < pass_count; ++i) {
    const CutPass& one = all.passes[static_cast<std::size_t>(i)];
    CorrelationPass& pass = plan.passes[i] = one.pass;
    pass.w_base = floor_div(pass.w_base, alignment) * alignment;
    plan.rows = std::max(plan.rows, one.span_h + (1 << plan.log2_stage_h()));
    plan.cols =
        std::max(plan.cols, one.last_w - pass.w_base + ((1 << plan.log2_stage_w()) - 1) * plan.stage_stride_w + 1);
    plan.stage_planes = std::max(plan.stage_planes, pass.planes);
  }
  plan.cols = static_cast<std::int32_t>(ceil_div(plan.cols, alignment) * alignment);
  plan.copy_elements = copy_elements(plan, alignment, pass_count);
  if (plan.boxed && !pad_box(plan)) return false;
  const std::int64_t plane_units64 = (std::int64_t{plan.rows} * plan.cols) << plan.log2_stage_n();
  if (plane_units64 * plan.stage_planes > kMaxStageUnits) return false;
  const auto plane_units = static_cast<std::int32_t>(plane_units64);
  if (plan.blocked) {
    constexpr std::int32_t kMostBox = 128;  // rows, and columns, that the copy engine supports
    if (plan.box_step() == 0 || plan.rows > kMostBox || plan.cols > kMostBox) return false;
    plan.box_positions = plane_units;
    plan.box_vectors = static_cast<std::int32_t>(ceil_div(plan.box_blocks * plane_units, 8) * 8);
    plan.unit_pitch = plan.m_tiles * plan.consumers * plan.box_vectors * 4 / kChunkUnits;
  } else if (plan.boxed) {
    plan.unit_pitch = plane_units;
  } else {
    // 8 modulo 32 banks: the four channels that a warp's lanes read together use four groups of eight banks.
    plan.unit_pitch = static_cast<std::int32_t>(ceil_div(plane_units * plan.stage_planes - 8, 32) * 32 + 8);
  }
  plan.box_units = plan.stage_units * plan.unit_pitch;
  if (plan.boxed) plan.box_units = static_cast<std::int32_t>(ceil_div(plan.box_units, 32) * 32);  // of 128 bytes
  plan.stage_size = plan.box_units * (plan.boxed ? plan.boxes : 1);
  const CorrelationClass& last = plan.class_list[plan.classes - 1];
  plan.halves_per_group = std::int64_t{last.first_half + last.halves} * plan.tiles_per_class * plan.chunks;
  return true;
}

void place_correlation_steps(const ConvGeometry& g, const CorrelationCut& cut, CorrelationPlan& plan) {
  const CutSteps& all = find_cut_steps(g, plan, cut);
  const std::int32_t plane_units = (plan.rows * plan.cols) << plan.log2_stage_n();
  for (std::size_t i = 0; i < all.passes.size(); ++i) place_steps(plan, plan.passes[i], all.steps, plane_units);
}

}  // namespace adjoint::cuda
