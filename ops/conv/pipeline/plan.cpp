// Plans the pipeline: phases, boxes and taps of a geometry, and the tile that a model predicts to be fastest.
#include <adjoint/ops/conv/pipeline/plan.h>

#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/pipeline/parts.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace adjoint::cuda {
namespace {

/// The positions of a block's tile.
PipelineAxes tile_size(const PipelinePlan& plan) {
  return {1, 1, plan.rows(), kPipelineStrip * (plan.shares_filter ? kPipelineTeams : 1)};
}

/// True if the tap reads the plane of the source's phase in which the box lies.
bool is_in(const PlacedTap& tap, const PipelineBox& box) {
  return tap.source_phase == box.phase && tap.shift[0] == box.first[0] && tap.shift[1] == box.first[1];
}

/// Lists the boxes, and sizes them for the taps of any; false if there are too many or they reach too far.
bool list_boxes(const std::vector<PlacedTap>& taps, PipelinePlan& plan) {
  plan.boxes = 0;
  Reach reach[kMostPipelineBoxes][2];  // of rows and columns
  for (const PlacedTap& tap : taps) {
    for (const std::int64_t shift : tap.shift) {
      if (std::abs(shift) > std::numeric_limits<std::int16_t>::max()) return false;
    }
    int box = 0;
    while (box < plan.boxes && !is_in(tap, plan.box_list[box])) ++box;
    if (box == kMostPipelineBoxes) return false;
    if (box == plan.boxes) {
      const PipelineAxes extents = phase_extents(plan.source, tap.source_phase);
      plan.box_list[plan.boxes++] = {.phase = static_cast<std::int16_t>(tap.source_phase),
                                     .first = {static_cast<std::int16_t>(tap.shift[0]),
                                               static_cast<std::int16_t>(tap.shift[1])}};
      for (std::size_t axis = 0; axis < 2; ++axis) {
        plan.box_planes[box][axis] = static_cast<std::int32_t>(extents[axis]);
      }
    }
    for (int side = 0; side < 2; ++side) reach[box][side].add(tap.shift[static_cast<std::size_t>(2 + side)]);
  }
  std::int64_t halo[2] = {};
  for (int box = 0; box < plan.boxes; ++box) {
    for (int side = 0; side < 2; ++side) {
      plan.box_list[box].first[2 + side] = static_cast<std::int16_t>(reach[box][side].first);
      halo[side] = std::max(halo[side], reach[box][side].halo());
    }
  }
  const PipelineAxes size = tile_size(plan);
  if (size[2] + halo[0] > kMostOfTensorBox || size[3] + halo[1] > kMostOfTensorBox) return false;
  plan.box_rows = static_cast<std::int32_t>(size[2] + halo[0]);
  plan.box_width = static_cast<std::int32_t>(size[3] + halo[1]);
  return true;
}

/// Lists each box's taps; false if there are too many, or if a phase of the result has none.
bool list_taps(const std::vector<PlacedTap>& taps, PipelinePlan& plan) {
  int count = 0;
  for (std::int64_t phase = 0; phase < plan.result.phases(); ++phase) {
    const int first = count;
    for (int b = 0; b < plan.boxes; ++b) {
      const PipelineBox& box = plan.box_list[b];
      plan.first_tap[phase][b] = static_cast<std::uint8_t>(count);
      for (const PlacedTap& tap : taps) {
        if (tap.result_phase != phase || !is_in(tap, box)) continue;
        if (count == kMostPipelineTaps) return false;
        const std::int64_t shift = (tap.shift[2] - box.first[2]) * plan.box_width + tap.shift[3] - box.first[3];
        plan.tap_list[count++] = {static_cast<std::uint16_t>(tap.filter), static_cast<std::uint16_t>(shift)};
      }
      plan.first_tap[phase][b + 1] = static_cast<std::uint8_t>(count);
    }
    if (count == first) return false;
  }
  return true;
}

int taps_of(const PipelinePlan& plan, int phase) {
  return plan.first_tap[phase][plan.boxes] - plan.first_tap[phase][0];
}

/// The count of the largest slice.
int most_slice_taps(const PipelinePlan& plan, int phase) {
  int most = 0;
  for (int index = 0; index < plan.slices; ++index) {
    int taps = 0;
    for (PipelineSlice next = pipeline_slice(plan, index); next.left > 0; next.advance(plan.boxes)) {
      taps += pipeline_taps(plan, phase, next.box);
    }
    most = std::max(most, taps);
  }
  return most;
}

/// Fills the rest of shared memory with slots; false if two boxes and four taps do not fit.
bool fill_smem(const Machine& machine, PipelinePlan& plan) {
  constexpr int kFewTaps = 4, kTapsAhead = 6;
  plan.box_slots = 2;
  plan.filter_slots = kFewTaps;
  if (plan.smem_bytes() > machine.smem_bytes) return false;
  plan.filter_slots = kTapsAhead;
  while (plan.box_slots < kMostPipelineBoxSlots) {
    ++plan.box_slots;
    if (plan.smem_bytes() <= machine.smem_bytes) continue;
    --plan.box_slots;
    break;
  }
  plan.filter_slots = kMostPipelineFilterSlots;
  while (plan.smem_bytes() > machine.smem_bytes) --plan.filter_slots;
  return true;
}

/// Returns true if each slice has a box and some rows to store, the sums fit in the rings' memory, and all clusters run
/// concurrently. A cluster runs in one part of the GPU, so some multiprocessors may stay idle: an H200 runs 66 clusters
/// of two blocks concurrently, but not 32 of four.
bool slices_fit(const PipelinePlan& plan, const Machine& machine) {
  if (plan.slices == 1) return true;
  constexpr int kLeastRows = 2;
  const int idle = plan.slices > 2 ? 20 : 0;
  return plan.slices <= plan.chunks * plan.boxes && plan.stored_rows() >= kLeastRows &&
         kPipelineTeams * plan.exchange_bytes() <= plan.ring_bytes() &&
         std::int64_t{plan.tiles} * plan.slices <= machine.multiprocessors - idle;
}

/// The second warpgroup begins when the first is far enough ahead that one stores while the other multiplies. Until
/// then the second frees no box, and no slot of a filter that both read, so the slots must hold all that the first
/// needs.
void set_lead(PipelinePlan& plan) {
  constexpr double kShare = 0.4;  // of a tile, measured
  const int held_boxes = std::min(plan.box_slots, plan.boxes * plan.chunks);
  int lead = plan.slices > 1 ? 0 : std::numeric_limits<int>::max();
  for (int phase = 0; phase < plan.result.phases(); ++phase) {
    int held = 0;
    for (int i = 0; i < held_boxes; ++i) held += pipeline_taps(plan, phase, i % plan.boxes);
    lead = std::min({lead, held, static_cast<int>(kShare * taps_of(plan, phase) * plan.chunks)});
    for (int box = 0; box < plan.boxes; ++box) {
      const int taps = pipeline_taps(plan, phase, box);
      if (taps > 0) lead = std::min(lead, taps);
    }
  }
  plan.lead = plan.shares_filter ? std::min(lead, plan.filter_slots - 1) : lead;
}

/// The share of the products that are in planes outside the source.
double outside_share(const PipelinePlan& plan) {
  double all = 0, inside = 0;
  for (int box = 0; box < plan.boxes; ++box) {
    double taps = 0;
    for (int phase = 0; phase < plan.result.phases(); ++phase) taps += pipeline_taps(plan, phase, box);
    all += taps;
    for (int axis = 0; axis < 2; ++axis) {
      const auto places = static_cast<std::int32_t>(plan.tiles_divider[axis].divisor());
      const std::int32_t first = plan.box_list[box].first[axis];
      const std::int32_t met = std::min(places, plan.box_planes[box][axis] - first) - std::max(0, -first);
      taps *= static_cast<double>(std::max(0, met)) / places;
    }
    inside += taps;
  }
  return 1 - inside / all;
}

/// Makes the plan with tiles of that form; returns false if no such plan fits.
bool plan_tiles(const PipelineGeometry& g, const std::vector<PlacedTap>& taps, const Machine& machine,
                PipelinePlan& plan) {
  const std::int64_t units = plan.result.phases() * plan.result_blocks();
  if (!plan.shares_filter && units % kPipelineTeams != 0) return false;
  const PipelineAxes size = tile_size(plan);
  std::int64_t groups = units / (plan.shares_filter ? 1 : kPipelineTeams), tiles = groups;
  plan.units_divider = Divider(static_cast<std::uint32_t>(groups));
  for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) {
    const std::int64_t count = ceil_div(ceil_div(g.result[axis], plan.result.step[axis]), size[axis]);
    plan.tiles_divider[axis] = Divider(static_cast<std::uint32_t>(count));
    if (tiles > kMostExtent / count) return false;
    tiles *= count;
  }
  plan.tiles = static_cast<std::int32_t>(tiles);
  if (!list_boxes(taps, plan) || !fill_smem(machine, plan) || !list_taps(taps, plan) || !slices_fit(plan, machine)) {
    return false;
  }
  set_lead(plan);
  return true;
}

/// Both warpgroups must have the same phase, so that they leave out the same boxes.
bool may_skip(const PipelinePlan& plan) {
  return plan.slices == 1 && (plan.shares_filter || plan.result.phases() == 1) &&
         (plan.last_steps < kPipelineLineBytes / kPipelineStepBytes || outside_share(plan) > 0);
}

}  // namespace

PipelineGeometry pipeline_geometry(const ConvGeometry& g, bool transposed) {
  const auto of = [](std::int64_t of_samples, const auto& extents) {
    return PipelineAxes{of_samples, extents.d, extents.h, extents.w};
  };
  const auto pitches = [](const PipelineAxes& extents) {
    PipelineAxes pitch{};
    pitch.back() = 1;
    for (std::size_t axis = kPipelineAxes - 1; axis > 0; --axis) pitch[axis - 1] = pitch[axis] * extents[axis];
    return pitch;
  };
  PipelineGeometry result{.source_channels = g.image_channels,
                          .result_channels = g.feature_channels,
                          .source = of(g.batch, g.image),
                          .result = of(g.batch, g.feature),
                          .kernel = of(1, g.kernel),
                          .stride = of(1, g.stride),
                          .padding = of(0, g.padding),
                          .dilation = of(1, g.dilation),
                          .source_pitch = {},
                          .result_pitch = {},
                          .kernel_pitch = {},
                          .transposed = transposed};
  if (transposed) {
    std::swap(result.source_channels, result.result_channels);
    std::swap(result.source, result.result);
  }
  result.source_pitch = pitches(result.source);
  result.result_pitch = pitches(result.result);
  result.kernel_pitch = pitches(result.kernel);
  return result;
}

bool plan_pipeline(const PipelineGeometry& g, Arithmetic arithmetic, const Machine& machine, PipelinePlan& plan) {
  if (is_split(arithmetic)) return false;
  PipelinePlan candidate{};
  candidate.element_bytes = element_bytes(arithmetic);
  if (!is_addressable(source_of(g), candidate.element_bytes) ||
      !is_addressable(result_of(g), candidate.element_bytes)) {
    return false;
  }
  candidate.taps = 1;
  for (const std::int64_t taps : g.kernel) {
    candidate.taps *= taps;
    if (candidate.taps > kMostPipelineTaps) return false;
  }
  const std::int64_t bytes = g.source_channels * candidate.element_bytes;
  candidate.chunks = static_cast<std::int32_t>(ceil_div(bytes, kPipelineLineBytes));
  candidate.last_steps =
      static_cast<std::int32_t>(ceil_div(bytes - (candidate.chunks - 1) * kPipelineLineBytes, kPipelineStepBytes));
  candidate.blocks_divider = Divider(static_cast<std::uint32_t>(ceil_div(g.result_channels, kPipelineResults)));
  LeastClocks least;
  for (const bool shares_filter : {false, true}) {
    for (const int columns : {128, 64}) {
      candidate.shares_filter = shares_filter;
      candidate.columns = columns;
      for (const PipelineGeometry& ordered : axis_orders(g, tile_size(candidate))) {
        candidate.source = source_of(ordered);
        candidate.result = result_of(ordered);
        const std::vector<PlacedTap> placed = placed_taps(ordered);
        for (int slices = 1; slices <= kMostPipelineSlices; slices *= 2) {
          candidate.slices = slices;
          if (!plan_tiles(ordered, placed, machine, candidate)) continue;
          const double share = is_in_memory_order(candidate.result) ? 1.0 : kOtherOrderShare;
          for (const bool skips : {false, true}) {
            if (skips && !may_skip(candidate)) break;
            candidate.skips = skips;
            if (least.take(pipeline_clocks(candidate, machine), share)) plan = candidate;
          }
        }
      }
    }
  }
  return least.found();
}

double pipeline_clocks(const PipelinePlan& plan, const Machine& machine) {
  // Fitted to 23 layers in bf16 and TF32: the time of a product under the power limit, relative to its designed clocks;
  // the latency from asking for a copy to its first byte; and for each column the exposed time of a tile's stores, and
  // of a grid's start.
  constexpr double kPower = 1.15, kSkippingPower = 1.3, kLatency = 2600, kStoredColumn = 2.6, kStart = 2000,
                   kStartedColumn = 123;
  constexpr double kSmemBytes = 128;
  // Not fitted: barriers of a cluster, and bytes of sums that cross it in a clock.
  constexpr double kExchange = 1500, kExchangedBytes = 16;
  double taps = 0;
  for (int phase = 0; phase < plan.result.phases(); ++phase) {
    taps += most_slice_taps(plan, phase) * plan.result_blocks();
  }
  const double groups = plan.units_divider.divisor(), teams = plan.shares_filter ? kPipelineTeams : 1;
  const double inside = plan.skips ? 1 - outside_share(plan) : 1;
  const double tile_taps = inside * taps / groups,
               tile_boxes = inside * ceil_div(plan.chunks * plan.boxes, plan.slices);  // asked for
  const double filter_bytes = plan.filter_lines(false) * kPipelineLineBytes, box_bytes = plan.box_copy_bytes();
  constexpr int kSteps = kPipelineLineBytes / kPipelineStepBytes;
  const double empty = plan.skips ? static_cast<double>(kSteps - plan.last_steps) / plan.chunks : 0;
  const double steps = kSteps - empty;  // of a tap
  const double products = tile_taps * teams * steps * plan.columns / 2 * (plan.skips ? kSkippingPower : kPower);
  const double operands = tile_taps * filter_bytes + tile_boxes * box_bytes;
  const double read = tile_taps * teams * steps * kPipelineStepBytes * (kPipelineResults + plan.columns);
  // The time that `slots` slots need to deliver; each is read for a while and then filled again.
  const auto delivered = [&](double copies, double bytes, int slots) {
    return copies * (products / copies + kLatency + bytes / machine.l2_bytes) / slots;
  };
  const double tile = std::max({products, (read + operands) / kSmemBytes, operands / machine.l2_bytes,
                                delivered(tile_boxes, box_bytes, plan.box_slots),
                                delivered(tile_taps / plan.filter_rings(), filter_bytes, plan.filter_slots)});
  const double rounds = static_cast<double>(ceil_div(plan.tiles * plan.slices, machine.multiprocessors));
  const double exchange = plan.slices > 1 ? kExchange + kPipelineTeams * plan.exchange_bytes() / kExchangedBytes : 0;
  return kStart + kStartedColumn * plan.columns + rounds * (tile + kStoredColumn * plan.columns) + exchange;
}

TensorMapLayout pipeline_source_layout(const PipelinePlan& plan, int phase, const void* data, DType dtype) {
  TensorMapLayout layout = pipeline_layout(plan.source, phase, data, dtype);
  layout.box[0] = kPipelineLineBytes / plan.element_bytes;
  layout.box[1] = plan.box_width;
  layout.box[2] = plan.box_rows;
  layout.box[3] = layout.box[4] = 1;
  layout.rounds_to_tf32 = dtype == kFloat32;
  return layout;
}

TensorMapLayout pipeline_filter_layout(const PipelinePlan& plan, bool results_innermost, const void* data,
                                       DType dtype) {
  const std::int64_t taps = plan.taps, all = plan.source.channels * plan.result.channels * taps;
  const std::int64_t inner = results_innermost ? plan.result.channels : plan.source.channels,
                     outer = results_innermost ? plan.source.channels : plan.result.channels;
  // In halves a line has as many channels as a tile results, so the box is the same both ways.
  return {.data = data,
          .dtype = dtype,
          .extents = {inner, taps, outer, 1, 1},
          .strides = {1, inner, inner * taps, all, all},
          .box = {kPipelineLineBytes / plan.element_bytes, 1, plan.filter_lines(results_innermost), 1, 1},
          .rounds_to_tf32 = dtype == kFloat32,
          .swizzled = true};
}

TensorMapLayout pipeline_result_layout(const PipelinePlan& plan, int phase, void* data, DType dtype) {
  TensorMapLayout layout = pipeline_layout(plan.result, phase, data, dtype);
  layout.box[0] = kPipelineLineBytes / plan.element_bytes;
  layout.box[1] = kPipelineStrip;
  layout.box[2] = plan.stored_rows();
  layout.box[3] = layout.box[4] = 1;
  return layout;
}

}  // namespace adjoint::cuda
