// Plans conv_weight in the pipeline: the sets of taps, and the job that a model predicts to be fastest.
#include <adjoint/ops/conv/pipeline/weight_plan.h>

#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/pipeline/parts.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace adjoint::cuda {
namespace {

constexpr std::size_t kRowAxis = kPipelineAxes - 2, kStripAxis = kPipelineAxes - 1;

PipelineAxes strip_size(const PipelineWeightPlan& plan) {
  return {plan.strip_planes, 1, plan.strip_rows, kPipelineStrip};
}

/// At most team_taps taps that differ along one axis. Those that share rows read each a row below the one before.
using TapRun = std::vector<PlacedTap>;

/// The axis of a plan's runs: the last one with several taps, or that of the rows, if taps share them.
std::size_t axis_of_runs(const PipelineGeometry& g, bool shares_rows) {
  if (shares_rows) return kRowAxis;
  for (std::size_t axis = kPipelineAxes; axis-- > 0;) {
    if (g.kernel[axis] > 1) return axis;
  }
  return kStripAxis;
}

/// The runs of each phase of the image.
std::vector<std::vector<TapRun>> runs_of(const PipelineGeometry& g, const PipelineWeightPlan& plan) {
  const std::size_t along = axis_of_runs(g, plan.shares_rows), length = static_cast<std::size_t>(plan.team_taps);
  std::vector<std::vector<TapRun>> phases(static_cast<std::size_t>(plan.image.phases()));
  for (const PlacedTap& tap : placed_taps(g, along)) {
    std::vector<TapRun>& runs = phases[static_cast<std::size_t>(tap.source_phase)];
    const auto continues = [&](const PlacedTap& before) {
      for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) {
        if (axis != along && tap.shift[axis] != before.shift[axis]) return false;
      }
      return !plan.shares_rows || before.shift[along] + 1 == tap.shift[along];
    };
    if (runs.empty() || runs.back().size() == length || !continues(runs.back().back())) runs.emplace_back();
    runs.back().push_back(tap);
  }
  return phases;
}

/// Lists the sets, each of `teams` runs of a phase, or of one if teams share it, and sizes the box that holds any;
/// false if there are too many or they reach too far.
bool list_sets(const std::vector<std::vector<TapRun>>& phases, PipelineWeightPlan& plan) {
  const std::size_t set_runs = plan.shares_taps ? 1 : static_cast<std::size_t>(plan.teams);
  std::int32_t sets = 0;
  PipelineAxes halo{};
  std::vector<PipelineAxes> first;
  for (const std::vector<TapRun>& runs : phases) {
    for (std::size_t run = 0; run < runs.size(); run += set_runs) {
      if (sets++ == kMostWeightSets) return false;
      std::array<Reach, kPipelineAxes> reach;
      for (std::size_t i = run; i < std::min(run + set_runs, runs.size()); ++i) {
        for (const PlacedTap& tap : runs[i]) {
          for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) reach[axis].add(tap.shift[axis]);
        }
        // Rows of the image are read for all taps that a run may have.
        if (plan.shares_rows) reach[kRowAxis].add(runs[i].front().shift[kRowAxis] + kRowTaps - 1);
      }
      for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) halo[axis] = std::max(halo[axis], reach[axis].halo());
      PipelineAxes& begin = first.emplace_back();
      for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) begin[axis] = reach[axis].first;
    }
  }
  for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) {
    const std::int64_t extent = strip_size(plan)[axis] + halo[axis];
    if (extent > kMostOfTensorBox) return false;
    plan.box_extents[axis] = static_cast<std::int32_t>(extent);
  }
  for (std::int32_t step = 0; step < kWeightSteps; ++step) {
    const std::int32_t row = step * plan.step_depth() / kPipelineStrip, plane = row / plan.strip_rows;
    plan.step_rows[step] = plane * plan.box_extents[1] * plan.box_extents[2] + row % plan.strip_rows;
  }
  plan.sets_divider = Divider(static_cast<std::uint32_t>(sets));
  std::size_t number = 0;
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    for (std::size_t run = 0; run < phases[phase].size(); run += set_runs) {
      WeightSet& set = plan.set_list[number];
      set = {.box = {.phase = static_cast<std::int16_t>(phase), .first = {}}, .taps = {}};
      const PipelineAxes& begin = first[number++];
      for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) {
        if (std::abs(begin[axis]) > std::numeric_limits<std::int16_t>::max()) return false;
        set.box.first[axis] = static_cast<std::int16_t>(begin[axis]);
      }
      for (std::size_t i = 0; i < set_runs && run + i < phases[phase].size(); ++i) {
        WeightSetTap* to = set.taps + i * static_cast<std::size_t>(plan.team_taps);
        for (const PlacedTap& tap : phases[phase][run + i]) {
          std::int64_t shift = 0;
          for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) {
            shift = shift * plan.box_extents[axis] + tap.shift[axis] - begin[axis];
          }
          *to++ = {static_cast<std::int16_t>(tap.filter), static_cast<std::uint16_t>(shift)};
        }
      }
    }
  }
  return true;
}

/// The number of slices with the fewest modelled clocks.
void cut_slices(std::int32_t jobs, const Machine& machine, PipelineWeightPlan& plan) {
  double best = std::numeric_limits<double>::infinity();
  PipelineWeightPlan chosen = plan;
  const std::int32_t most = std::min(plan.strips, std::max(1, 2 * machine.multiprocessors / jobs));
  for (std::int32_t slices = 1; slices <= most; ++slices) {
    plan.slice_strips = ceil_div(plan.strips, slices);
    plan.slices = ceil_div(plan.strips, plan.slice_strips);  // those that have a strip
    plan.tiles = jobs * plan.slices;
    const double clocks = pipeline_weight_clocks(plan, machine);
    if (clocks >= best) continue;
    best = clocks;
    chosen.slice_strips = plan.slice_strips;
    chosen.slices = plan.slices;
    chosen.tiles = plan.tiles;
  }
  plan = chosen;
  plan.gather.slices = plan.slices;
  plan.gather.slice_stride = plan.gather.count;
  plan.gather.tap_stride = plan.gather.count * plan.slices;
}

/// Makes the plan with jobs of that form; returns false if no such plan fits.
bool plan_jobs(const std::vector<std::vector<TapRun>>& phases, const Machine& machine, PipelineWeightPlan& plan) {
  if (!list_sets(phases, plan)) return false;
  plan.slots = 0;
  plan.slots = static_cast<std::int32_t>(
      std::min<std::int64_t>(kMostStripSlots, (machine.smem_bytes - plan.smem_bytes()) / plan.slot_bytes()));
  if (plan.slots < 2) return false;
  const std::int64_t images = ceil_div(plan.image.channels, std::int64_t{plan.image_channels()}),
                     features = ceil_div(plan.feature.channels, std::int64_t{plan.feature_channels()});
  plan.image_divider = Divider(static_cast<std::uint32_t>(images));
  plan.feature_divider = Divider(static_cast<std::uint32_t>(features));
  const std::int64_t jobs = plan.sets_divider.divisor() * images * features;
  std::int64_t strips = 1;
  for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) {
    const std::int64_t count = ceil_div(plan.feature.extents[axis], strip_size(plan)[axis]);
    plan.strip_divider[axis] = Divider(static_cast<std::uint32_t>(count));
    if (strips > kMostExtent / count) return false;
    strips *= count;
  }
  if (jobs > kMostExtent / (2 * machine.multiprocessors)) return false;
  plan.strips = static_cast<std::int32_t>(strips);
  cut_slices(static_cast<std::int32_t>(jobs), machine, plan);
  return true;
}

}  // namespace

bool plan_pipeline_weight(const PipelineGeometry& g, Arithmetic arithmetic, const Machine& machine,
                          PipelineWeightPlan& plan) {
  if (g.transposed || is_split(arithmetic)) return false;
  PipelineWeightPlan candidate{};
  candidate.element_bytes = element_bytes(arithmetic);
  if (!is_addressable(source_of(g), candidate.element_bytes) ||
      !is_addressable(result_of(g), candidate.element_bytes)) {
    return false;
  }
  const std::int64_t taps = g.kernel[1] * g.kernel[2] * g.kernel[3];
  if (taps > kMostPipelineTaps) return false;
  candidate.taps = static_cast<std::int32_t>(taps);
  candidate.gather = tap_gather(g.source_channels * g.result_channels, candidate.taps, candidate.element_bytes, true);
  struct Form {
    std::int32_t teams, columns;
    bool shares_taps;
  };
  // wgmma's 64 columns need fewer registers, so a third warpgroup has room.
  constexpr Form kForms[] = {{2, 128, true}, {2, 128, false}, {3, 64, true}, {3, 64, false}};
  LeastClocks least;
  for (std::int32_t rows = candidate.step_depth(); rows >= 4; rows /= 2) {
    candidate.strip_rows = rows;
    candidate.strip_planes = candidate.step_depth() / rows;
    for (const PipelineGeometry& ordered : axis_orders(g, strip_size(candidate))) {
      candidate.image = source_of(ordered);
      candidate.feature = result_of(ordered);
      for (int team_taps = 1; team_taps <= kMostTeamTaps; ++team_taps) {
        candidate.team_taps = team_taps;
        for (const bool shares_rows : {false, true}) {
          if (shares_rows && (candidate.element_bytes != 4 || team_taps != kRowTaps)) continue;
          candidate.shares_rows = shares_rows;
          const std::vector<std::vector<TapRun>> phases = runs_of(ordered, candidate);
          for (const Form& form : kForms) {
            // Its sums alone need 192 registers a thread, and the image's operand needs some too.
            if (form.columns == 128 && team_taps == 3 && candidate.is_transposed()) continue;
            candidate.teams = form.teams;
            candidate.columns = form.columns;
            candidate.shares_taps = form.shares_taps;
            if (!plan_jobs(phases, machine, candidate)) continue;
            const double share = is_in_memory_order(candidate.feature) ? 1.0 : kOtherOrderShare;
            if (least.take(pipeline_weight_clocks(candidate, machine), share)) plan = candidate;
          }
        }
      }
    }
  }
  return least.found();
}

double pipeline_weight_clocks(const PipelineWeightPlan& plan, const Machine& machine) {
  // pipeline_clocks' power limit and latency; the clocks to begin and to store a tile, and to start the second kernel.
  constexpr double kPower = 1.15, kLatency = 2600, kStart = 2000, kStoredSum = 0.1, kAdd = 4000;
  constexpr double kSmemBytes = 128, kL2Bytes = 2500;  // of all multiprocessors, per clock
  const double products = plan.teams * plan.team_taps * kWeightSteps, sums = kPipelineResults * plan.columns;
  const double bytes = plan.slot_bytes();
  const double image_rows =
      plan.shares_rows ? plan.teams * plan.strip_planes * (plan.strip_rows + kRowTaps - 1) : products;
  const double read = kWeightStepBytes * (image_rows * kPipelineResults + products * plan.columns);
  const double busy = products * plan.columns / 2 * kPower, transposed = 2.0 * plan.transposed_bytes();
  const double strip = std::max({busy, (read + bytes + transposed) / kSmemBytes, bytes / machine.l2_bytes,
                                 (busy + kLatency + bytes / machine.l2_bytes) / plan.slots});
  const double stored = kStoredSum * plan.teams * plan.team_taps * sums;
  const auto rounds = static_cast<double>(ceil_div(plan.tiles, machine.multiprocessors));
  const double added = static_cast<double>(plan.sums_bytes()) / kL2Bytes;
  return kStart + rounds * (plan.slice_strips * strip + stored) + kAdd + added;
}

TensorMapLayout weight_image_layout(const PipelineWeightPlan& plan, int phase, const void* data, DType dtype) {
  TensorMapLayout layout = pipeline_layout(plan.image, phase, data, dtype);
  layout.box[0] = plan.line();
  layout.rounds_to_tf32 = dtype == kFloat32;
  for (int axis = 0; axis < kPipelineAxes; ++axis) layout.box[kPipelineAxes - axis] = plan.box_extents[axis];
  return layout;
}

TensorMapLayout weight_feature_layout(const PipelineWeightPlan& plan, const void* data, DType dtype) {
  TensorMapLayout layout = pipeline_layout(plan.feature, 0, data, dtype);
  layout.box[0] = plan.line();
  layout.rounds_to_tf32 = dtype == kFloat32;
  for (int axis = 0; axis < kPipelineAxes; ++axis) {
    layout.box[kPipelineAxes - axis] = static_cast<std::int32_t>(strip_size(plan)[static_cast<std::size_t>(axis)]);
  }
  return layout;
}

}  // namespace adjoint::cuda
