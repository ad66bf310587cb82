// The schedule of the CUDA kernels for short sums: few products a result, for example in a network's first layer, or a
// 1 x 1 layer with few channels. Plain C++ for host and device, tested without a GPU; README.md describes the division
// of work.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kShortThreads = 128;    // of a block
inline constexpr int kShortMostTerms = 128;  // products of a sum: a thread stages one
inline constexpr int kShortAtOnce = 8;       // products of a sum whose operands are in flight together

/// conv, and conv_transpose of stride 1. A thread computes `positions` columns of a row for `channel_block` channels;
/// threads form one line: samples, rows, columns.
struct ShortSumsPlan {
  std::int32_t source[2], result[2];                      // extents
  std::int32_t batch, groups, channels, source_channels;  // channels: a group's
  std::int32_t kernel_w, taps, terms;                     // terms: source_channels * taps
  // On each axis, position i reads tap k at source position first + i * step + k * tap_step, inside or not.
  std::int32_t first[2], step[2], tap_step[2];
  std::int32_t filter_channel, filter_source, filter_group;  // the filter's strides
  std::int32_t packed;              // a thread's positions are neighbours in the source, none outside: 1 x 1 taps
  std::int32_t positions, columns;  // columns: threads of a row
  std::int32_t channel_block, channel_blocks;
  std::int32_t total, tiles;  // threads for one block of channels, and their blocks
  Divider column_divider, row_divider, taps_divider, kernel_w_divider;

  std::int64_t blocks() const { return std::int64_t{tiles} * groups * channel_blocks; }
  /// A block's terms, and the weights of each.
  std::int64_t smem_bytes() const { return std::int64_t{terms} * (16 + 4 * channel_block); }
};

/// The results that a thread computes.
struct ShortSumsPlace {
  std::int32_t sample, row, column;        // of the result: the first column
  std::int32_t source_row, source_column;  // of tap 0
};

ADJOINT_HD inline ShortSumsPlace short_sums_place(const ShortSumsPlan& p, std::int32_t n) {
  std::int32_t column = n;
  std::int32_t row = p.column_divider.split(column);
  const std::int32_t sample = p.row_divider.split(row);
  column *= p.positions;
  return {sample, row, column, p.first[0] + row * p.step[0], p.first[1] + column * p.step[1]};
}

/// One product of each sum: a source element, by its distance from tap 0 of channel 0, and a weight's place in the
/// filter of a group and result channel.
struct alignas(16) ShortSumsTerm {
  std::int32_t offset, row, column, weight;
};

ADJOINT_HD inline ShortSumsTerm short_sums_term(const ShortSumsPlan& p, std::int32_t n) {
  std::int32_t tap = n;
  const std::int32_t channel = p.taps_divider.split(tap), weight = channel * p.filter_source + tap;
  std::int32_t column = tap;
  const std::int32_t row = p.kernel_w_divider.split(column) * p.tap_step[0], width = p.source[1];
  column *= p.tap_step[1];
  return {(channel * p.source[0] + row) * width + column, row, column, weight};
}

/// A plan of conv, or of conv_transpose. False for more products a result than kShortMostTerms, for a stride of
/// conv_transpose, for batch 0, and for problems too large to count in 30 bits.
ADJOINT_API bool plan_short_sums(const ConvGeometry& geometry, bool transposed, const Machine& machine,
                                 ShortSumsPlan& plan);

}  // namespace adjoint::cuda
