// Cuts conv and conv_transpose with few products a result.
#include <adjoint/ops/conv/base/counted.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/short_sums/plan.h>

#include <cstddef>

namespace adjoint::cuda {
namespace {

constexpr int kPackPositions = 4, kPositions = 2;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 30;

std::int32_t to_int(std::int64_t value) { return static_cast<std::int32_t>(value); }
Divider divider(std::int64_t divisor) { return Divider(static_cast<std::uint32_t>(divisor)); }

/// The compiled size that computes the fewest channels past the last, or the smallest if the machine would otherwise
/// not be full: sums are as long, but a thread has fewer.
std::int32_t channel_block_of(std::int64_t channels, std::int64_t tiles, std::int64_t multiprocessors) {
  constexpr std::int64_t kLeast = 4;
  std::int64_t best = kLeast;
  for (const std::int64_t block : {8, 12}) {
    if (ceil_div(channels, block) * block <= ceil_div(channels, best) * best) best = block;
  }
  return to_int(ceil_div(channels, best) * tiles < 2 * multiprocessors ? kLeast : best);
}

}  // namespace

bool plan_short_sums(const ConvGeometry& g, bool transposed, const Machine& machine, ShortSumsPlan& p) {
  p = {};
  const std::int64_t channels = transposed ? g.image_channels_per_group() : g.feature_channels_per_group();
  const std::int64_t sources = transposed ? g.feature_channels_per_group() : g.image_channels_per_group();
  if (sources * g.taps() > kShortMostTerms || !is_counted(g)) return false;
  if (transposed && (g.stride.h != 1 || g.stride.w != 1)) return false;
  p.batch = to_int(g.batch);
  p.groups = to_int(g.groups);
  p.channels = to_int(channels);
  p.source_channels = to_int(sources);
  p.kernel_w = to_int(g.kernel.w);
  p.taps = to_int(g.taps());
  p.terms = to_int(sources * g.taps());
  bool same = g.taps() == 1;  // a result's place is its source's
  for (std::size_t axis = 0; axis < 2; ++axis) {
    p.source[axis] = to_int((transposed ? g.feature : g.image).in_plane(axis));
    p.result[axis] = to_int((transposed ? g.image : g.feature).in_plane(axis));
    p.first[axis] = to_int(transposed ? g.padding.in_plane(axis) : -g.padding.in_plane(axis));
    p.step[axis] = to_int(g.stride.in_plane(axis));
    p.tap_step[axis] = to_int(transposed ? -g.dilation.in_plane(axis) : g.dilation.in_plane(axis));
    same = same && p.source[axis] == p.result[axis] && p.step[axis] == 1 && p.first[axis] == 0;
  }
  const std::int64_t feature_filter = g.image_channels_per_group() * g.taps();
  p.filter_channel = to_int(transposed ? g.taps() : feature_filter);
  p.filter_source = to_int(transposed ? feature_filter : g.taps());
  p.filter_group = to_int(g.feature_channels_per_group() * feature_filter);
  p.packed = same && p.result[1] % kPackPositions == 0 ? 1 : 0;
  p.positions = p.packed != 0 ? kPackPositions : kPositions;
  p.columns = to_int(ceil_div(p.result[1], p.positions));
  p.total = to_int(g.batch * p.result[0] * p.columns);
  p.tiles = to_int(ceil_div(p.total, kShortThreads));
  p.channel_block = channel_block_of(channels, std::int64_t{p.tiles} * p.groups, machine.multiprocessors);
  p.channel_blocks = to_int(ceil_div(channels, p.channel_block));
  p.column_divider = divider(p.columns);
  p.row_divider = divider(p.result[0]);
  p.taps_divider = divider(p.taps);
  p.kernel_w_divider = divider(p.kernel_w);
  return p.blocks() < kMostBlocks;
}

}  // namespace adjoint::cuda
