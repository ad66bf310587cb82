// Copies with samples behind positions, for conv_weight, which sums over samples as over positions.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kSamplesTile = 4096;  // elements that a block of threads moves, positions times samples

/// Moves samples behind positions: [sample][channel][row][column] to [channel][row's residue][column's residue][row's
/// block][column's][sample].
struct SamplesLast {
  std::int64_t samples = 0, padded_samples = 0;  // 0 if nothing moves; with zeros, a multiple of 16 bytes
  std::int64_t channels = 0;
  Extent2 extents{}, padding{}, stride{1, 1}, residues{1, 1}, blocks{};
  std::int32_t log2_tile_samples = 6;  // 3 to 6: the fewest that hold all samples, to leave room for positions
  Divider position_tiles, channel_count;
  Divider blocks_w, blocks_h, residues_w;

  ADJOINT_HD constexpr std::int64_t positions() const { return residues[0] * residues[1] * blocks[0] * blocks[1]; }
  std::int64_t numel() const { return channels * positions() * padded_samples; }
  std::int64_t tiles() const {
    const std::int64_t tile_samples = std::int64_t{1} << log2_tile_samples;
    return channels * position_tiles.divisor() * ((padded_samples + tile_samples - 1) / tile_samples);
  }
};

/// A block's tile: its channel, its first position and its first sample.
struct SamplesTile {
  std::int32_t channel, position, sample;
};
ADJOINT_HD inline SamplesTile samples_tile(const SamplesLast& s, std::int32_t block) {
  SamplesTile tile{};
  tile.channel = s.position_tiles.split(block);
  tile.sample = s.channel_count.split(tile.channel) << s.log2_tile_samples;
  tile.position = block * (kSamplesTile >> s.log2_tile_samples);
  return tile;
}

/// The time of the copy.
double samples_last_clocks(const SamplesLast& copy, std::int64_t element_size);

}  // namespace adjoint::cuda
