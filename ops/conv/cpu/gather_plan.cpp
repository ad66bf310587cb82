#include <adjoint/ops/conv/cpu/gather_plan.h>

#include <adjoint/core/base/quotients.h>

#include <algorithm>
#include <utility>

namespace adjoint::cpu {
namespace {

struct AxisSlot {
  std::int64_t place;              // of the output at q = 0
  std::vector<std::int64_t> taps;  // of the filter, one for each place of the AxisPlan
};

// One axis of a plan: positions q in [begin, begin + extent) read the input at q * in_step + places[t].
struct AxisPlan {
  std::int64_t begin = 0, extent = 0;
  std::vector<std::int64_t> places;
  std::vector<AxisSlot> slots;
};

struct AxisSteps {
  std::int64_t in, in_extent, out;
};

// The positions q that read inside the input through `place`, clamped to the plan's: [first, second).
std::pair<std::int64_t, std::int64_t> reach(const AxisPlan& plan, std::int64_t place, const AxisSteps& steps) {
  const std::int64_t first = -floor_div(place, steps.in);
  const std::int64_t last = floor_div(steps.in_extent - 1 - place, steps.in) + 1;
  const std::int64_t end = plan.begin + plan.extent;
  return {std::clamp(first, plan.begin, end), std::clamp(last, plan.begin, end)};
}

// Removes the taps that [begin, end) never reaches inside the input.
AxisPlan restricted(const AxisPlan& whole, std::int64_t begin, std::int64_t end, const AxisSteps& steps) {
  AxisPlan part{begin, end - begin, {}, {}};
  for (const AxisSlot& slot : whole.slots) part.slots.push_back({slot.place, {}});
  for (std::size_t t = 0; t < whole.places.size(); ++t) {
    const auto [first, last] = reach(part, whole.places[t], steps);
    if (first >= last) continue;
    part.places.push_back(whole.places[t]);
    for (std::size_t s = 0; s < whole.slots.size(); ++s) part.slots[s].taps.push_back(whole.slots[s].taps[t]);
  }
  return part;
}

// Splits positions where the set of taps that reach inside the input changes.
std::vector<AxisPlan> cut_by_taps(const AxisPlan& whole, const AxisSteps& steps) {
  std::vector<std::int64_t> cuts = {whole.begin, whole.begin + whole.extent};
  for (const std::int64_t place : whole.places) {
    const auto [first, last] = reach(whole, place, steps);
    cuts.insert(cuts.end(), {first, last});
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<AxisPlan> parts;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) parts.push_back(restricted(whole, cuts[i], cuts[i + 1], steps));
  return parts;
}

std::vector<AxisPlan> conv_axis(const ConvGeometry& g, std::size_t axis) {
  AxisPlan plan{0, g.feature[axis], {}, {{0, {}}}};
  for (std::int64_t k = 0; k < g.kernel[axis]; ++k) {
    plan.places.push_back(image_position(0, k, g.stride[axis], g.padding[axis], g.dilation[axis]));
    plan.slots[0].taps.push_back(k);
  }
  return {plan};
}

// One plan per phase that has positions.
std::vector<AxisPlan> conv_transpose_axis(const ConvGeometry& g, std::size_t axis) {
  const std::int64_t stride = g.stride[axis], padding = g.padding[axis], extent = g.image[axis];
  std::vector<AxisPlan> plans;
  for (std::int64_t i = 0; i < std::min(stride, extent); ++i) {
    const std::int64_t phase = (i + padding) % stride;
    const PhaseTaps taps = phase_taps(phase, g.kernel[axis], stride, g.dilation[axis]);
    AxisPlan plan{(i + padding) / stride, (extent - 1 - i) / stride + 1, {}, {{phase - padding, {}}}};
    for (std::int64_t t = 0; t < taps.taps; ++t) {
      plan.places.push_back(-taps.first_offset - t * taps.offset_step);
      plan.slots[0].taps.push_back(taps.first_tap + t * taps.tap_step);
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

// Merges all plans of an axis into one with a slot each, if they read the same inputs and few positions are wasted.
void share_inputs(std::vector<AxisPlan>& plans, std::int64_t rows, std::int64_t block) {
  AxisPlan shared = plans.front();
  std::int64_t end = 0, positions = 0;
  shared.slots.clear();
  for (const AxisPlan& plan : plans) {
    if (plan.places != shared.places) return;
    shared.begin = std::min(shared.begin, plan.begin);
    end = std::max(end, plan.begin + plan.extent);
    positions += plan.extent;
    shared.slots.push_back(plan.slots.front());
  }
  shared.extent = end - shared.begin;
  // Neighbouring slots are neighbouring outputs: gather_tile stores them together.
  std::sort(shared.slots.begin(), shared.slots.end(), [](const auto& a, const auto& b) { return a.place < b.place; });
  const std::int64_t computed = shared.extent * static_cast<std::int64_t>(plans.size());
  // Narrow products gain from every row that shares a gathered tile; wide ones have enough rows.
  const bool worthwhile = rows < 4 * block ? computed <= 2 * positions : computed * 20 <= positions * 21;
  if (worthwhile) plans = {std::move(shared)};
}

struct PlanShape {
  std::int64_t batch, groups, in_channels, out_channels;
  Extents in_extent, out_extent, in_step, out_step;
};

// visit(i, j, k) for each element of the three lists, the last one fastest.
template <class List, class Visit>
void for_each_of_three(const List& d, const List& h, const List& w, Visit&& visit) {
  for (const auto& i : d) {
    for (const auto& j : h) {
      for (const auto& k : w) visit(i, j, k);
    }
  }
}

OwnedGatherPlan combine(const PlanShape& shape, const AxisPlan& d, const AxisPlan& h, const AxisPlan& w,
                        const Extents& kernel, std::int64_t block) {
  OwnedGatherPlan owned;
  for_each_of_three(d.places, h.places, w.places, [&](std::int64_t in_d, std::int64_t in_h, std::int64_t in_w) {
    owned.tap_places.push_back({in_d, in_h, in_w});
  });
  for_each_of_three(d.slots, h.slots, w.slots, [&](const AxisSlot& in_d, const AxisSlot& in_h, const AxisSlot& in_w) {
    owned.slot_places.push_back({in_d.place, in_h.place, in_w.place});
    for_each_of_three(in_d.taps, in_h.taps, in_w.taps, [&](std::int64_t tap_d, std::int64_t tap_h, std::int64_t tap_w) {
      owned.kernel_taps.push_back((tap_d * kernel.h + tap_h) * kernel.w + tap_w);
    });
  });
  const auto place = [](const auto& extent) { return Place{extent.d, extent.h, extent.w}; };
  GatherPlan& plan = owned.plan;
  plan.batch = shape.batch;
  plan.groups = shape.groups;
  plan.in_channels = shape.in_channels;
  plan.out_channels = shape.out_channels;
  plan.in_extent = place(shape.in_extent);
  plan.out_extent = place(shape.out_extent);
  plan.in_step = place(shape.in_step);
  plan.out_step = place(shape.out_step);
  plan.grid_begin = {d.begin, h.begin, w.begin};
  plan.grid_extent = {d.extent, h.extent, w.extent};
  plan.taps = static_cast<std::int64_t>(owned.tap_places.size());
  plan.slots = static_cast<std::int64_t>(owned.slot_places.size());
  plan.tap_places = owned.tap_places.data();
  plan.slot_places = owned.slot_places.data();
  plan.positions = shape.batch * plan.grid_extent.volume();
  plan.inner = plan.taps * plan.in_channels;
  plan.rows = plan.slots * plan.out_channels;
  plan.blocks = ceil_div(plan.rows, block);
  return owned;
}

// Turns the plan into one by shifts if that saves work: the product is narrow, and a slab holds fewer elements than its
// taps would gather.
void use_shifts(OwnedGatherPlan& owned, std::int64_t panel) {
  constexpr std::int64_t kNarrow = 64, kMostInner = 2048, kMostResidues = 16, kEnough = 32;
  constexpr std::int64_t kSlabElements = std::int64_t{1} << 16, kSumElements = std::int64_t{1} << 15;
  const GatherPlan& plan = owned.plan;
  const Place step = plan.in_step;
  if (plan.taps < 2 || plan.rows > kNarrow || plan.in_channels * std::min(plan.taps, kShiftTaps) > kMostInner ||
      std::max({step.d, step.h, step.w}) > kMostResidues || step.volume() > kMostResidues || plan.positions == 0) {
    return;
  }
  ShiftPlan& shifts = owned.shifts;
  shifts.residues = step.volume();
  owned.residue_used = std::make_unique<bool[]>(static_cast<std::size_t>(shifts.residues));
  Place last{};
  std::int64_t used = 0;
  for (const Place& place : owned.tap_places) {
    const Place shift{floor_div(place.d, step.d), floor_div(place.h, step.h), floor_div(place.w, step.w)};
    const std::int64_t residue =
        ((place.d - shift.d * step.d) * step.h + place.h - shift.h * step.h) * step.w + place.w - shift.w * step.w;
    const Place least = owned.shift_taps.empty() ? shift : shifts.shift_begin;
    if (owned.shift_taps.empty()) last = shift;
    shifts.shift_begin = {std::min(least.d, shift.d), std::min(least.h, shift.h), std::min(least.w, shift.w)};
    last = {std::max(last.d, shift.d), std::max(last.h, shift.h), std::max(last.w, shift.w)};
    owned.shift_taps.push_back({residue, shift});
    bool& seen = owned.residue_used[static_cast<std::size_t>(residue)];
    used += seen ? 0 : 1;
    seen = true;
  }
  const auto distance = [&](const Place& to) {
    return Place{to.d - shifts.shift_begin.d, to.h - shifts.shift_begin.h, to.w - shifts.shift_begin.w};
  };
  shifts.shift_extent = distance(last);
  for (ShiftPlan::Tap& tap : owned.shift_taps) tap.shift = distance(tap.shift);
  shifts.taps = owned.shift_taps.data();
  shifts.residue_used = owned.residue_used.get();

  const Place halo = shifts.shift_extent, grid = plan.grid_extent;
  if (std::max({halo.d, halo.h, halo.w}) > kSlabElements) return;
  const auto slab_of = [&](Place extent) { return Place{extent.d + halo.d, extent.h + halo.h, extent.w + halo.w}; };
  const auto fits = [&](Place extent) {
    const Place slab = slab_of(extent);
    const std::int64_t sums = grid.d * grid.h == 1 ? extent.w : slab.h * slab.w * extent.d;
    return slab.volume() <= kSlabElements / (plan.in_channels * shifts.residues) && sums <= kSumElements / plan.rows;
  };
  // A tile's wasted copies and computations must not outweigh its savings.
  const auto saves = [&](Place extent) {
    const Place slab = slab_of(extent);
    const std::int64_t positions = extent.volume();
    const std::int64_t length = ((extent.d - 1) * slab.h + extent.h - 1) * slab.w + extent.w;
    return used * slab.volume() * 3 <= 2 * plan.taps * positions &&
           ceil_div(length, panel) * panel * 4 <= positions * 5;
  };
  Place extent{1, 1, grid.w};
  while (extent.w > panel && !fits(extent)) extent.w = ceil_div(extent.w, 2);
  const std::int64_t columns = ceil_div(grid.w, extent.w);
  const std::int64_t planes = plan.batch * plan.groups * columns * grid.d;
  const std::int64_t most_rows = std::max<std::int64_t>(1, planes * grid.h / kEnough);
  while (extent.h < std::min(grid.h, most_rows) && fits({1, extent.h + 1, extent.w})) ++extent.h;
  const std::int64_t most_planes = planes * ceil_div(grid.h, extent.h) / kEnough;
  for (Place more = extent; more.d < std::min(grid.d, most_planes);) {
    ++more.d;
    if (!fits(more) || !saves(more)) break;
    extent = more;
  }
  if (!fits(extent) || !saves(extent)) return;
  owned.by_shifts = true;
  owned.shift_tile = extent;
}

std::vector<OwnedGatherPlan> make_plans(const PlanShape& shape, std::array<std::vector<AxisPlan>, 3> axes,
                                        const Extents& kernel, const PlanLimits& limits) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const AxisSteps steps{shape.in_step[axis], shape.in_extent[axis], shape.out_step[axis]};
    std::vector<AxisPlan> parts;
    for (const AxisPlan& plan : axes[axis]) {
      if (limits.exact_taps) {
        for (AxisPlan& part : cut_by_taps(plan, steps)) parts.push_back(std::move(part));
      } else {
        parts.push_back(restricted(plan, plan.begin, plan.begin + plan.extent, steps));
      }
    }
    axes[axis] = std::move(parts);
  }
  if (!limits.exact_taps) {
    for (std::size_t axis : {2U, 1U, 0U}) {
      if (axes[axis].size() > 1) share_inputs(axes[axis], shape.out_channels, limits.block);
    }
  }
  std::vector<OwnedGatherPlan> plans;
  for_each_of_three(axes[0], axes[1], axes[2], [&](const AxisPlan& d, const AxisPlan& h, const AxisPlan& w) {
    plans.push_back(combine(shape, d, h, w, kernel, limits.block));
    if (!limits.exact_taps) use_shifts(plans.back(), limits.panel);
  });
  return plans;
}

}  // namespace

std::int64_t OwnedGatherPlan::scratch() const {
  if (!by_shifts) return kTileScratch;
  const std::int64_t pitch = shift_tile.w + shifts.shift_extent.w, rows = shift_tile.h + shifts.shift_extent.h;
  const std::int64_t slab = plan.in_channels * shifts.residues * (shift_tile.d + shifts.shift_extent.d) * rows * pitch;
  const std::int64_t sums = ((shift_tile.d - 1) * rows + shift_tile.h) * pitch;
  return slab + 2 * kShiftPadding + plan.rows * (sums + kShiftPadding);
}

std::vector<OwnedGatherPlan> conv_plans(const ConvGeometry& g, const PlanLimits& limits) {
  const PlanShape shape{
      g.batch,  g.groups, g.image_channels_per_group(), g.feature_channels_per_group(), g.image, g.feature,
      g.stride, {}};
  return make_plans(shape, {conv_axis(g, 0), conv_axis(g, 1), conv_axis(g, 2)}, g.kernel, limits);
}

std::vector<OwnedGatherPlan> conv_transpose_plans(const ConvGeometry& g, const PlanLimits& limits) {
  const PlanShape shape{
      g.batch, g.groups, g.feature_channels_per_group(), g.image_channels_per_group(), g.feature, g.image,
      {},      g.stride};
  return make_plans(shape, {conv_transpose_axis(g, 0), conv_transpose_axis(g, 1), conv_transpose_axis(g, 2)}, g.kernel,
                    limits);
}

}  // namespace adjoint::cpu
