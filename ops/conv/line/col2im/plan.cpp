// Chooses tiles of the kernel for few output channels.
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/line/col2im/plan.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kSmemOfMultiprocessor = 233472, kSmemOfSystem = 1024;  // sm_90; the second: of every block
constexpr std::int64_t kMostTiles = std::int64_t{1} << 30;
constexpr std::int32_t kMostColumnTiles = 4096;
constexpr std::int32_t kMostTileColumns = 1 << 16;  // shared memory holds fewer

/// The table of an axis' taps: use(tap, offset, phase).
template <class Use>
void for_taps(const LineAxis& a, const Use& use) {
  for (std::int32_t phase = 0; phase < a.phases; ++phase) {
    for (std::int32_t i = 0; i < a.offsets; ++i) {
      if (a.tap[phase][i] >= 0) use(a.tap[phase][i], a.offset[i], phase);
    }
  }
}

void set_taps(Col2imPlan& p) {
  for_taps(p.h, [&](std::int32_t tap, std::int32_t offset, std::int32_t phase) {
    p.tap_offset_h[tap] = offset;
    p.tap_phase_h[tap] = phase;
  });
  for (auto& taps : p.tap_place) std::fill(std::begin(taps), std::end(taps), kNoCol2imTap);
  std::int32_t counts[kLineMaxPhases] = {};
  for_taps(p.w, [&](std::int32_t tap, std::int32_t offset, std::int32_t phase) {
    p.tap_place[phase][counts[phase]++] = 4 * (tap * p.sum_pitch + offset - p.w.offset[0]);
  });
  p.phase_taps = *std::max_element(std::begin(counts), std::end(counts));
}

/// The stages of a chunk.
bool choose_stages(Col2imPlan& p) {
  const std::int64_t eights = ceil_div(p.source_channels, 8);
  p.depths = kCol2imDepths[1];
  if (eights <= kCol2imDepths[0]) p.depths = kCol2imDepths[0];
  p.stages = static_cast<std::int32_t>(ceil_div(eights, p.depths));
  constexpr std::int32_t kMostEights = 64;  // for more, the filter would not fit into shared memory
  return p.stages * p.depths <= kMostEights;
}

/// As many stages as fit into a block's shared memory, with two blocks a multiprocessor if that leaves enough.
bool fit_smem(Col2imPlan& p) {
  for (p.blocks_per_sm = 2; p.blocks_per_sm >= 1; --p.blocks_per_sm) {
    const std::int64_t bytes = kSmemOfMultiprocessor / p.blocks_per_sm - kSmemOfSystem;
    for (p.source_stages = kMaxCol2imStages; p.source_stages >= 2; --p.source_stages) {
      if (p.smem_bytes() <= bytes) return true;
    }
  }
  return false;
}

/// Clocks of a tile on a multiprocessor, which computes blocks_per_sm tiles concurrently.
double tile_clocks(const Col2imPlan& p) {
  const double split = p.parts > 1 ? 3 : 1;
  // Boxes begin at multiples of four columns.
  const double chunks = std::ceil((std::min(p.tile_columns + p.w.span(), p.w.source) + (p.column_tiles > 1 ? 3 : 0)) /
                                  static_cast<double>(kCol2imChunk));
  const double tensor = split * p.padded_channels() / 8 * p.columns / 2;
  // A warp's instructions: for reading and multiplying, for storing sums, for adding them up, and for storing results.
  const double products = p.padded_channels() / 8 * (6 + 16 * (split - 1)) + 120 + p.used_columns() / 2;
  const double items =
      std::ceil(p.reached_positions() * p.channels * p.kernel_h / static_cast<double>(kCol2imConsumers));
  const double adds = items * (22 + 2 * p.kernel_w + 5 * p.w.phases);
  const double stores = p.channels * p.h.phases *
                        (30 + 15 * std::ceil(static_cast<double>(p.tile_columns) * p.w.phases / kCol2imConsumers));
  constexpr double kClocksPerInstruction = 5.5, kStart = 12000;
  double chunk = std::max(tensor * p.blocks_per_sm, kClocksPerInstruction * (products + adds));
  // Here registers do not suffice, and a chunk's products wait for each other.
  if (p.parts > 1 && p.columns > 64) chunk += 1.5 * tensor * p.blocks_per_sm;
  return kStart + (p.rows + p.h.span()) * chunks * chunk + p.rows * stores * kClocksPerInstruction;
}

bool place_columns(Col2imPlan& p, std::int32_t tiles) {
  p.tile_columns = static_cast<std::int32_t>(ceil_div(p.w.positions, tiles));
  p.column_tiles = static_cast<std::int32_t>(ceil_div(p.w.positions, p.tile_columns));
  if (p.tile_columns > kMostTileColumns) return false;
  // Neighbouring results, which are neighbouring phases, fall into different banks.
  const std::int32_t apart = static_cast<std::int32_t>(ceil_div(32, p.w.phases)) % 32;
  p.result_pitch = static_cast<std::int32_t>(ceil_div(p.tile_columns - apart, 32)) * 32 + apart;
  return fit_smem(p);
}

bool place_tiles(const Machine& machine, Col2imPlan& p) {
  double least = std::numeric_limits<double>::infinity();
  Col2imPlan best = p;
  const std::int32_t most = std::min(kMostColumnTiles, p.w.positions);
  int tried = 0;
  for (std::int32_t tiles = 1; tiles <= most && tried < 32; tiles += std::max(1, tiles / 8)) {
    if (!place_columns(p, tiles)) continue;
    ++tried;
    for (p.rows = 1; p.rows <= std::min(p.h.positions, 128); ++p.rows) {
      p.row_tiles = static_cast<std::int32_t>(ceil_div(p.h.positions, p.rows));
      const double clocks = col2im_clocks(p, machine);
      if (clocks >= least) continue;
      least = clocks;
      best = p;
    }
  }
  p = best;
  return !std::isinf(least) && p.batch * p.row_tiles * p.column_tiles < kMostTiles;
}

}  // namespace

bool plan_col2im(const ConvGeometry& g, bool transposed, Arithmetic arithmetic, const Machine& machine, Col2imPlan& p) {
  p = {};
  if (unit_elements(arithmetic) != 1 || g.groups != 1 || g.kernel.h > kMaxCol2imTaps || g.kernel.w > kMaxCol2imTaps)
    return false;
  if (!plan_line(g, transposed, element_bytes(arithmetic), p) || !unshift_columns(g, p) || p.batch >= kMostTiles)
    return false;
  p.kernel_h = static_cast<std::int32_t>(g.kernel.h);
  p.parts = is_split(arithmetic) ? 2 : 1;
  const std::int64_t used = std::int64_t{p.channels} * p.kernel_h * p.kernel_w;
  for (const int columns : kCol2imColumns) {
    if (columns >= used && p.columns == 0) p.columns = columns;
  }
  if (p.columns == 0 || p.w.span() > kCol2imChunk || !choose_stages(p)) return false;
  p.margin = (p.w.span() + 1) / 2 * 2;
  p.sum_pitch = (kCol2imChunk + 2 * p.margin + 3) / 8 * 8 + 4;
  p.ring_rows = p.h.span() + 1;
  if (p.ring_rows > 64 || !place_tiles(machine, p)) return false;
  set_taps(p);
  p.result_blocks = 1;
  p.line_tiles = static_cast<std::int32_t>(p.batch) * p.row_tiles;
  p.row_tiles_divider = Divider(static_cast<std::uint32_t>(p.row_tiles));
  p.batch_divider = Divider(static_cast<std::uint32_t>(p.batch));
  p.ring_divider = Divider(static_cast<std::uint32_t>(p.ring_rows));
  p.phase_divider = Divider(static_cast<std::uint32_t>(p.w.phases));
  p.reached_divider = Divider(static_cast<std::uint32_t>(p.reached_positions()));
  return true;
}

TensorMapLayout col2im_source_layout(const Col2imPlan& p, const void* source) {
  const std::int64_t row = p.w.source, plane = row * p.h.source, sample = plane * p.source_channels;
  return {.data = source,
          .dtype = kFloat32,
          .extents = {row, p.h.source, p.batch, p.source_channels, 1},
          .strides = {1, row, sample, plane, sample * p.batch},
          .box = {kCol2imBox, 1, 1, p.depths * 8, 1},
          .rounds_to_tf32 = p.parts == 1,
          .swizzled = true};
}

double col2im_clocks(const Col2imPlan& p, const Machine& machine) {
  const double tiles = static_cast<double>(p.batch) * p.row_tiles * p.column_tiles;
  return std::ceil(tiles / (machine.multiprocessors * p.blocks_per_sm)) * tile_clocks(p);
}

}  // namespace adjoint::cuda
