// Chooses the tiles of the kernels for few channels a group.
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/channelwise/plan.h>

#include <algorithm>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 28;
constexpr std::int64_t kLeastTiles = 1024;  // fewer leave multiprocessors idle

/// For one stage; conv_weight has two.
struct StageBytes {
  std::int64_t most, wanted;  // wanted: for six blocks per multiprocessor
};
constexpr StageBytes kGatherStage{kChannelwiseSmemBytes, 36 * 1024};
constexpr StageBytes kWeightStage{kChannelwiseSmemBytes / 2, 18 * 1024 + 512};
constexpr std::int64_t kWantedThreads = 128;        // per block
constexpr std::int64_t kWantedLinesPerThread = 16;  // so that finding them costs little
// conv_weight: blocks, and tiles that a thread sums in float32 before the sum continues in float64.
constexpr std::int64_t kWantedBlocks = 4096;
constexpr std::int64_t kMostTilesPerSplit = 16;

struct CompiledTaps {
  std::int32_t h, w;
};
constexpr CompiledTaps kCompiledTaps[] = {{1, 2}, {1, 4}, {1, 8}, {1, 16}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {7, 7}};

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

/// The relevant dilation: 1 for a single tap.
std::int64_t dilation_of(const ConvGeometry& g, std::size_t axis) {
  return g.kernel.in_plane(axis) == 1 ? 1 : g.dilation.in_plane(axis);
}

ChannelwiseAxis conv_axis(const ConvGeometry& g, std::size_t axis) {
  ChannelwiseAxis a{};
  a.result = narrow(g.feature.in_plane(axis));
  a.source = narrow(g.image.in_plane(axis));
  a.phases = 1;
  a.period_source = narrow(g.stride.in_plane(axis));
  a.tap_step = 1;
  const std::int64_t dilation = dilation_of(g, axis), common = gcd(g.stride.in_plane(axis), dilation);
  a.tap_spacing = narrow(dilation);
  a.run[0] = {narrow(g.kernel.in_plane(axis)), 0, narrow(-g.padding.in_plane(axis))};
  a.residues = narrow(dilation / common);
  a.shift = narrow(g.stride.in_plane(axis) / common);
  a.most_taps = a.run[0].taps;
  a.first_source = a.last_source = a.run[0].source;
  return a;
}

ChannelwiseAxis transposed_axis(const ConvGeometry& g, std::size_t axis) {
  ChannelwiseAxis a{};
  a.transposed = 1;
  a.result = narrow(g.image.in_plane(axis));
  a.source = narrow(g.feature.in_plane(axis));
  a.phases = narrow(std::min(g.stride.in_plane(axis), std::max<std::int64_t>(g.image.in_plane(axis), 1)));
  a.period_source = 1;
  const std::int64_t dilation = dilation_of(g, axis), common = gcd(g.stride.in_plane(axis), dilation);
  a.tap_step = narrow(-g.stride.in_plane(axis) / common);  // taps in ascending order of their source positions
  a.tap_spacing = a.residues = narrow(dilation / common);
  a.shift = 1;
  bool first = true;
  for (std::int64_t i = 0; i < a.phases; ++i) {
    const std::int64_t position = i + g.padding.in_plane(axis);
    const PhaseTaps taps =
        phase_taps(position % g.stride.in_plane(axis), g.kernel.in_plane(axis), g.stride.in_plane(axis), dilation);
    if (taps.taps == 0) continue;
    const std::int64_t steps = taps.taps - 1;
    a.run[i] = {narrow(taps.taps), narrow(taps.first_tap + steps * taps.tap_step),
                narrow(position / g.stride.in_plane(axis) - taps.first_offset - steps * taps.offset_step)};
    a.most_taps = std::max(a.most_taps, a.run[i].taps);
    a.first_source = first ? a.run[i].source : std::min(a.first_source, a.run[i].source);
    a.last_source = first ? a.run[i].source : std::max(a.last_source, a.run[i].source);
    first = false;
  }
  for (std::int32_t i = 0; i < a.phases; ++i) {
    if (a.run[i].taps == 0) a.run[i].source = a.first_source;
  }
  return a;
}

bool takes_extents(const ConvGeometry& g, bool transposed) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (g.image.in_plane(axis) >= kMaxExtent || g.feature.in_plane(axis) >= kMaxExtent ||
        g.padding.in_plane(axis) >= kMaxExtent)
      return false;
    if (g.kernel.in_plane(axis) * g.dilation.in_plane(axis) >= kMaxExtent ||
        g.stride.in_plane(axis) * g.feature.in_plane(axis) >= kMaxExtent)
      return false;
    if (transposed && g.stride.in_plane(axis) > kChannelwiseMaxStride) return false;
  }
  return g.batch > 0 && g.image_plane() < kMaxExtent && g.feature_plane() < kMaxExtent;
}

/// The compiled kernel with the fewest taps that holds h x w, else the one for any number.
CompiledTaps select_taps(std::int32_t h, std::int32_t w) {
  CompiledTaps best{0, 0};
  for (const CompiledTaps& taps : kCompiledTaps) {
    const bool holds = h <= taps.h && w <= taps.w;
    if (holds && (best.h == 0 || taps.h * taps.w < best.h * best.w)) best = taps;
  }
  // Unused taps cost as much as used ones; a loop over the used ones costs twice as much for each.
  return best.h * best.w > 2 * h * w + 2 ? CompiledTaps{0, 0} : best;
}

void choose_kernel(ChannelwisePlan& p) {
  const CompiledTaps taps = p.w.tap_spacing == 1 ? select_taps(p.h.most_taps, p.w.most_taps) : CompiledTaps{0, 0};
  p.taps_h = taps.h;
  p.taps_w = taps.w;
  const bool overlap = p.h.shift == 1 || (p.h.shift == 2 && p.taps_h >= 3);
  p.walk_shift = p.taps_h == 1 ? 1 : (overlap ? p.h.shift : 0);
  if (p.taps_h == 0) p.walk_shift = 0;
  p.channel_block = p.channel_blocks = 1;
}

/// Several channels of the result together if they share loaded values: few taps in registers, or no taps.
void choose_channel_block(ChannelwisePlan& p) {
  p.channel_block = p.channels >= 3 ? 4 : p.channels;
  p.channel_blocks = narrow(ceil_div(p.channels, p.channel_block));
  if (p.channel_block == 1) return;
  const bool compiled = p.walk_shift == 1 && (p.taps_h == 2 || p.taps_h == 3);
  if (!compiled) p.taps_h = p.taps_w = p.walk_shift = 0;
}

/// Sizes of the stage for the plan's lanes, chunks and units.
void place_stage(ChannelwisePlan& p) {
  const std::int64_t steps = std::int64_t{kChannelwiseWalk} * p.chunks;
  const std::int32_t taps_h = std::max(p.taps_h, p.h.most_taps), taps_w = std::max(p.taps_w, p.w.most_taps);
  const std::int64_t columns = p.along_row != 0 ? p.lanes * steps : p.lanes;
  p.column_tiles = narrow(std::max<std::int64_t>(ceil_div(p.w.result, columns), 1));
  const std::int64_t residue_rows = ceil_div(ceil_div(p.h.result, p.h.phases), p.h.residues);
  p.row_tiles = p.along_row != 0 ? 1 : narrow(std::max<std::int64_t>(ceil_div(residue_rows, steps), 1));
  std::int64_t rows = taps_h + (p.along_row != 0 ? 0 : (steps - 1) * p.h.shift);
  if (p.h.transposed != 0) {
    rows += channelwise_ceil_div(p.h.last_source, p.h.tap_spacing) -
            channelwise_floor_div(p.h.first_source, p.h.tap_spacing);
  }
  const std::int64_t periods = (columns - 1) / p.w.phases + (p.w.phases > 1 && p.column_tiles > 1 ? 1 : 0);
  const std::int64_t wide = periods * p.w.period_source + (p.w.last_source - p.w.first_source) +
                            std::int64_t{taps_w - 1} * p.w.tap_spacing + 1;
  // Congruent to the source modulo a vector, so that aligned elements stay aligned; rows share no vector.
  const auto congruent = [&](std::int64_t least, std::int64_t to) {
    return least + ((to - least) % p.vector + p.vector) % p.vector;
  };
  const std::int64_t pitch = congruent(wide + p.vector - 1, std::int64_t{p.h.tap_spacing} * p.w.source);
  const std::int64_t plane = congruent(rows * pitch, std::int64_t{p.h.source} * p.w.source);
  const std::int64_t unit = congruent(plane * p.stage_channels, p.unit_stride);
  const auto fits = [](std::int64_t value) { return narrow(std::min<std::int64_t>(value, kMaxExtent)); };
  p.stage_rows = fits(rows);
  p.stage_columns = fits(wide);
  p.pitch = fits(pitch);
  p.plane_pitch = fits(plane);
  p.unit_pitch = fits(unit);
  p.stage_floats = fits(ceil_div(p.tile_units * unit + p.vector, p.vector) * p.vector);
  p.row_vectors = fits((wide + 2 * p.vector - 2) / p.vector);
  p.step_pitch = p.along_row != 0 ? p.lanes / p.w.phases * p.w.period_source : fits(p.h.shift * pitch);
  p.result_step = p.along_row != 0 ? p.lanes : std::int64_t{p.h.residues} * p.h.phases * p.w.result;
}

/// Tries a tile; the plan keeps it if its stage has at most `bytes`.
bool try_tile(ChannelwisePlan& p, std::int32_t lanes, std::int32_t chunks, std::int32_t units, std::int64_t bytes) {
  ChannelwisePlan tried = p;
  tried.lanes = lanes;
  tried.chunks = chunks;
  tried.tile_units = units;
  place_stage(tried);
  if (tried.smem_bytes() > bytes) return false;
  p = tried;
  return true;
}

bool choose_lanes(ChannelwisePlan& p, const StageBytes& bytes) {
  std::int64_t lanes = std::max(p.w.result, 1);
  std::int64_t granule = 32;
  if (p.along_row != 0) {
    granule = p.w.phases * (8 / gcd(p.w.phases, 8));
    lanes = ceil_div(ceil_div(lanes, kChannelwiseWalk), granule) * granule;
  }
  if (lanes > kChannelwiseThreads) {
    const std::int64_t tiles = ceil_div(lanes, kChannelwiseThreads);
    lanes = p.along_row != 0 ? kChannelwiseThreads / granule * granule
                             : ceil_div(ceil_div(lanes, tiles), granule) * granule;
  }
  while (!try_tile(p, narrow(lanes), 1, 1, bytes.most)) {
    if (p.along_row != 0 ? lanes <= granule : lanes <= 4) return false;
    lanes = p.along_row != 0 ? lanes / 2 / granule * granule : ceil_div(lanes, 2);
  }
  return true;
}

std::int64_t lines_of_unit(const ChannelwisePlan& p) { return std::int64_t{p.channel_blocks} * p.h.phases * p.chunks; }

void choose_chunks_and_units(ChannelwisePlan& p, std::int64_t least_tiles, const StageBytes& bytes) {
  const std::int64_t steps =
      p.along_row != 0 ? ceil_div(p.w.result, p.lanes) : ceil_div(ceil_div(p.h.result, p.h.phases), p.h.residues);
  const std::int64_t all_chunks = std::max<std::int64_t>(ceil_div(steps, kChannelwiseWalk), 1);
  const std::int64_t thread_lines = std::max(kChannelwiseThreads / p.lanes, 1);
  const std::int64_t wanted = kWantedLinesPerThread * thread_lines;
  // Cuts a row into as few parts as give enough tiles, and few enough chunks per thread, or into more if shared memory
  // does not hold a part. Lines have up to millions of chunks, so equivalent numbers of parts are skipped.
  const std::int64_t part_tiles = p.units * p.h.residues * (p.along_row != 0 ? 1 : p.column_tiles);
  const std::int64_t most_chunks = std::max<std::int64_t>(2 * wanted / (p.channel_blocks * p.h.phases), 1);
  const std::int64_t parts =
      std::max(ceil_div(least_tiles, std::max<std::int64_t>(part_tiles, 1)), ceil_div(all_chunks, most_chunks));
  std::int64_t chunks = ceil_div(all_chunks, std::clamp<std::int64_t>(parts, 1, all_chunks));
  while (!try_tile(p, p.lanes, narrow(chunks), 1, bytes.wanted) && chunks > 1) {
    chunks = ceil_div(all_chunks, ceil_div(all_chunks, chunks - 1));
  }
  if (p.plane_tiles() > 1 || p.h.residues > 1) return;
  const std::int64_t most_units = std::min(p.units / least_tiles, ceil_div(wanted, lines_of_unit(p)));
  for (std::int64_t units = most_units; units > 1; units = units * 3 / 4) {
    if (try_tile(p, p.lanes, p.chunks, narrow(units), bytes.wanted)) break;
  }
}

void set_dividers(ChannelwisePlan& p) {
  const auto divider = [](std::int64_t divisor) { return Divider(static_cast<std::uint32_t>(divisor)); };
  p.lane_divider = divider(p.lanes);
  p.chunk_divider = divider(p.chunks);
  p.phase_divider = divider(p.h.phases);
  p.channel_divider = divider(p.channel_blocks);
  p.group_divider = divider(p.groups);
  p.phase_w_divider = divider(p.w.phases);
  p.vector_threads_divider = divider(p.vector_threads);
  p.stage_rows_divider = divider(p.stage_rows);
  p.stage_channels_divider = divider(p.stage_channels);
  p.column_tile_divider = divider(p.column_tiles);
  p.row_tile_divider = divider(p.row_tiles);
  p.plane_tile_divider = divider(std::min<std::int64_t>(p.plane_tiles(), std::int64_t{1} << 30));
}

/// Chooses tile and dividers for given axes, channels and kernel.
bool choose_tile(ChannelwisePlan& p, std::int64_t least_tiles, const StageBytes& bytes) {
  if (!choose_lanes(p, bytes)) return false;
  choose_chunks_and_units(p, least_tiles, bytes);
  const std::int64_t lines = lines_of_unit(p) * p.tile_units;
  const std::int64_t most = std::min<std::int64_t>(std::max(kChannelwiseThreads / p.lanes, 1), lines);
  const std::int64_t least = std::min<std::int64_t>(ceil_div(kWantedThreads, p.lanes), most);
  p.lines = narrow(std::clamp(ceil_div(lines, kWantedLinesPerThread), least, most));
  p.threads = (p.lanes * p.lines + 31) / 32 * 32;
  p.vector_threads = std::min(p.row_vectors, p.threads);
  p.row_threads = p.threads / p.vector_threads;
  p.by_plane = p.pitch % p.vector == 0 && 2 * p.stage_rows * p.row_vectors >= p.threads;
  set_dividers(p);
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  return p.tiles() < kLimit && p.units < kLimit;
}

bool is_one_row(const ChannelwiseAxis& h) {
  return h.result == 1 && h.source == 1 && h.most_taps == 1 && h.run[0].taps == 1 && h.run[0].source == 0;
}

}  // namespace

bool plan_channelwise(const ConvGeometry& g, bool transposed, Arithmetic arithmetic, ChannelwisePlan& p) {
  if (!takes_extents(g, transposed)) return false;
  p = {};
  p.h = transposed ? transposed_axis(g, 0) : conv_axis(g, 0);
  p.w = transposed ? transposed_axis(g, 1) : conv_axis(g, 1);
  if (p.h.most_taps == 0 || p.w.most_taps == 0) return false;  // no staging: no tap reaches the few results
  const std::int64_t image = g.image_channels_per_group(), feature = g.feature_channels_per_group();
  p.groups = narrow(g.groups);
  p.channels = narrow(transposed ? image : feature);
  p.source_channels = p.stage_channels = narrow(transposed ? feature : image);
  p.kernel_w = narrow(g.kernel.w);
  p.taps = narrow(g.taps());
  p.filter_channel = transposed ? g.taps() : image * g.taps();
  p.filter_source = transposed ? image * g.taps() : g.taps();
  p.units = g.batch * g.groups;
  p.unit_stride = std::int64_t{p.source_channels} * p.h.source * p.w.source;
  p.vector = narrow(16 / element_bytes(arithmetic));
  p.along_row = is_one_row(p.h) && p.w.result > 1;
  choose_kernel(p);
  choose_channel_block(p);
  return choose_tile(p, kLeastTiles, kGatherStage);
}

bool plan_channelwise_weight(const ConvGeometry& g, Arithmetic arithmetic, ChannelwiseWeightPlan& plan) {
  if (!takes_extents(g, false)) return false;
  plan = {};
  ChannelwisePlan& p = plan.walk;
  p.h = conv_axis(g, 0);
  p.w = conv_axis(g, 1);
  p.groups = narrow(g.groups);
  p.channels = p.source_channels = p.stage_channels = 1;
  p.kernel_w = narrow(g.kernel.w);
  p.taps = narrow(g.taps());
  p.units = g.batch;
  p.unit_stride = g.image_channels * p.h.source * p.w.source;
  p.vector = narrow(16 / element_bytes(arithmetic));
  p.along_row = is_one_row(p.h) && p.w.result > 1;
  choose_kernel(p);
  if (p.taps_h == 0) {  // a block computes a few taps of one row of the filter
    p.taps_h = p.walk_shift = 1;
    p.taps_w = g.kernel.w <= 4 ? 4 : 16;
  }
  plan.kernel_h = narrow(g.kernel.h);
  plan.tap_row_blocks = narrow(ceil_div(g.kernel.h, p.taps_h));
  plan.tap_column_blocks = narrow(ceil_div(g.kernel.w, p.taps_w));
  p.h.run[0].taps = p.h.most_taps = p.taps_h;
  p.w.run[0].taps = p.w.most_taps = p.taps_w;
  plan.image_channels = narrow(g.image_channels_per_group());
  plan.feature_channels = narrow(g.feature_channels_per_group());
  plan.pairs = g.feature_channels * plan.image_channels;
  const std::int64_t sums = plan.pairs * plan.tap_row_blocks * plan.tap_column_blocks;
  if (sums == 0 || !choose_tile(p, ceil_div(kLeastTiles, sums), kWeightStage)) return false;
  const std::int64_t least_splits = ceil_div(p.tiles(), kMostTilesPerSplit);
  const std::int64_t splits = std::clamp<std::int64_t>(kWantedBlocks / sums, least_splits, p.tiles());
  plan.tiles_per_split = ceil_div(p.tiles(), std::max<std::int64_t>(splits, 1));
  plan.splits = narrow(ceil_div(p.tiles(), plan.tiles_per_split));
  return sums * plan.splits < std::int64_t{1} << 31;
}

}  // namespace adjoint::cuda
