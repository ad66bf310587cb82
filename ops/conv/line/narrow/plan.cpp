// Chooses results a thread and stages of the kernel for few results a position.
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/line/narrow/plan.h>

#include <algorithm>
#include <iterator>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxSmemBytes = 80 * 1024;  // two blocks on an A100's multiprocessor
constexpr std::int32_t kMostStageChannels = 4;

/// Chooses the number of results a thread that wastes least: fewest blocks, then fewest results of a block.
void choose_results(NarrowPlan& p) {
  const std::int32_t all = p.group_results();
  constexpr std::int32_t kMost = kNarrowResults[std::size(kNarrowResults) - 1];
  const std::int64_t blocks = ceil_div(all, kMost);
  p.results = *std::lower_bound(std::begin(kNarrowResults), std::end(kNarrowResults), ceil_div(all, blocks));
  p.result_blocks = static_cast<std::int32_t>(ceil_div(all, p.results));
}

bool choose_stage(NarrowPlan& p) {
  for (p.stage_channels = std::min(kMostStageChannels, p.source_channels); p.stage_channels > 0; --p.stage_channels) {
    if (p.smem_bytes() <= kMaxSmemBytes) return true;
  }
  return false;
}

}  // namespace

bool plan_narrow(const ConvGeometry& g, bool transposed, Arithmetic arithmetic, NarrowPlan& p) {
  p = {};
  if (!plan_line(g, transposed, element_bytes(arithmetic), p)) return false;
  choose_results(p);
  p.tile_positions = kNarrowThreads * narrow_positions(p.results);
  return place_line(kMaxSmemBytes / 12, p) && choose_stage(p);  // two stages of a channel, and a table
}

double narrow_clocks(const NarrowPlan& p, Arithmetic arithmetic, const Machine& machine) {
  // Instructions of a warp for one source channel and offset, of which 85 fill 100 issue slots; and for staging an
  // element (slower for halves, which are waited for). Fitted to times measured on an H200.
  constexpr double kSlots = 4 * 0.85, kOverhead = 3, kStage = 0.15, kStageHalf = 0.4;
  const int positions = narrow_positions(p.results);
  const double instructions = positions * (p.results + 1.0) + std::max(narrow_row(p.results) / 4, 1) + kOverhead;
  const double channel = kNarrowThreads / 32 * p.offsets() * instructions / kSlots +
                         (unit_elements(arithmetic) == 1 ? kStage : kStageHalf) * p.length;
  // The cost of storing a result; results of phases are apart.
  constexpr double kStoreNeighbour = 0.1, kStorePhase = 0.35;
  const double store = p.w.phases > 1 ? kStorePhase : kStoreNeighbour;
  return line_block_clocks(p, p.source_channels * channel + store * p.tile_positions * p.results, machine);
}

}  // namespace adjoint::cuda
