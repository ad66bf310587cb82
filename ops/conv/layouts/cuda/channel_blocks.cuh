// Copies images in channel blocks (channel_blocks.h), rounded once; float32 may be split into heads and tails.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/layouts/channel_blocks.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda::channel_blocks {

inline constexpr int kCopyThreads = 256;
inline constexpr int kChunksOfThread = 2;  // chunks of which a thread copies a position

/// Blocks of threads: kCopyThreads positions of the copy's planes, kChunksOfThread chunks of a group. Indices are
/// decomposed without divisions, which would dominate the time.
struct CopyGrid {
  std::int64_t blocks;
  Divider chunk_sets, group_sets;                      // sets of chunks, of all groups and of one
  Divider image_positions, width, stride_h, stride_w;  // of the copy's planes together
};

inline CopyGrid copy_grid(const ChannelBlocks& c) {
  const std::int64_t width = std::int64_t{c.columns()} * c.stride_w, positions = width * c.rows() * c.stride_h;
  const std::int64_t group_sets = ceil_div(c.chunks, kChunksOfThread), sets = c.groups * group_sets;
  const auto divider = [](std::int64_t divisor) { return Divider(static_cast<std::uint32_t>(divisor)); };
  return {.blocks = ceil_div(c.images * positions, std::int64_t{kCopyThreads}) * sets,
          .chunk_sets = divider(sets),
          .group_sets = divider(group_sets),
          .image_positions = divider(positions),
          .width = divider(width),
          .stride_h = divider(c.stride_h),
          .stride_w = divider(c.stride_w)};
}

/// Copies one position, in the input's order, of some chunks of a group. A thread reads all channels of a chunk before
/// it writes any.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void copy_position(const ChannelBlocks& c, const CopyGrid& grid,
                                              const typename ArithmeticTraits<kArithmetic>::Element* x, uint4* copy,
                                              int w, int group, int first_chunk) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  constexpr int kBlocks = kChunkBlocks, kChannels = 16 / sizeof(T);  // of a chunk, of a block
  const std::int64_t n = grid.image_positions.split(w);
  if (n >= c.images) return;
  const int h = grid.width.split(w);
  const bool inside = h < c.h && w < c.w;
  const std::int64_t plane = static_cast<std::int64_t>(c.h) * c.w;
  const int first = first_chunk * kBlocks * kChannels;
  const T* from = x + ((n * c.groups + group) * c.channels + first) * plane + static_cast<std::int64_t>(h) * c.w + w;
  int plane_h = h, plane_w = w;
  const int row = grid.stride_h.split(plane_h), column = grid.stride_w.split(plane_w);
  const std::int64_t block_vectors = c.block_step();
  uint4* to = copy + n * c.image_step() + c.block(group, plane_h, plane_w, first_chunk) * block_vectors +
              row * c.columns() + column;
  const int end = min(first_chunk + kChunksOfThread, c.chunks);
#pragma unroll 1
  for (int chunk = first_chunk; chunk < end; ++chunk) {
    const int channels = inside ? c.channels - chunk * kBlocks * kChannels : 0;
    T values[kBlocks][kChannels];
#pragma unroll
    for (int i = 0; i < kBlocks * kChannels; ++i) {
      values[i / kChannels][i % kChannels] = i < channels ? from[i * plane] : from_float<T>(0.0F);
    }
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      uint4 units, tails;
      pack_vector<Traits::kSplit>(values[i], units, tails);
      to[i * block_vectors] = units;
      if constexpr (Traits::kSplit) to[(kBlocks + i) * block_vectors] = tails;
    }
    from += kBlocks * kChannels * plane;
    to += c.chunk_blocks * block_vectors;
  }
}

/// The work of the index-th block of the grid.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void copy_positions(const ChannelBlocks& c, const CopyGrid& grid, int index,
                                               const typename ArithmeticTraits<kArithmetic>::Element* x, uint4* copy) {
  int set = index;
  const int place = grid.chunk_sets.split(set) * kCopyThreads + static_cast<int>(threadIdx.x);
  const int group = grid.group_sets.split(set);
  copy_position<kArithmetic>(c, grid, x, copy, place, group, set * kChunksOfThread);
}

}  // namespace adjoint::cuda::channel_blocks
