// Packs the operands of the blocked tensor-core kernel: the filter as every correlation's, and the input into a copy in
// channel blocks, rounded once, split into heads and tails where float32 is, its planes apart by position modulo
// stride, zeros where a block has no channel or a plane no position.
#pragma once

#include <adjoint/core/divider.h>
#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/cuda/correlation_pack.cuh>

#include <cstdint>

namespace adjoint::cuda::blocked {

/// Chunks that a thread copies a position of.
inline constexpr int kChunksOfThread = 2;

/// Blocks of threads, the filter's, (group, chunk, part), and the input's, (kPackThreads positions of the copy's
/// planes, kChunksOfThread chunks of a group): of one of the two kinds there is a block every `period`, from the first
/// on, as long as there are some. So the filter's latencies fall into the input's copies, and come early. Indices are
/// taken apart without divisions, which would be most of the work.
struct PackGrid {
  int spread;           // blocks of the kind that is spread
  bool spreads_filter;  // whether that is the filter's
  std::int64_t blocks;
  Divider period;
  Divider filter_parts, filter_chunks;                 // parts of a group's channels, chunks of the filter
  Divider chunk_sets, group_sets;                      // sets of chunks, of all groups and of one
  Divider image_positions, width, stride_h, stride_w;  // of the copy's planes together
};

/// One position, in the input's order, of some chunks of a group. A thread reads all channels of a chunk before it
/// writes any.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void pack_position(const CorrelationPlan& p, const PackGrid& grid,
                                              const typename ArithmeticTraits<kArithmetic>::Element* x, uint4* copy,
                                              int w, int group, int first_chunk) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  constexpr int kBlocks = kChunkUnits / 4, kChannels = 16 / sizeof(T);  // of a chunk, of a block
  const std::int64_t n = grid.image_positions.split(w);
  if (n >= p.batch) return;
  const int h = grid.width.split(w);
  const bool inside = h < p.in_h && w < p.in_w;
  const std::int64_t plane = static_cast<std::int64_t>(p.in_h) * p.in_w;
  const int first = first_chunk * kBlocks * kChannels;
  const T* from =
      x + ((n * p.groups + group) * p.k_channels + first) * plane + static_cast<std::int64_t>(h) * p.in_w + w;
  int plane_h = h, plane_w = w;
  const int row = grid.stride_h.split(plane_h), column = grid.stride_w.split(plane_w);
  const std::int64_t block_vectors = p.copy_block_step();
  uint4* to = copy + n * p.copy_image_step() + p.copy_block(group, plane_h, plane_w, first_chunk) * block_vectors +
              row * p.copy_w() + column;
  const int end = min(first_chunk + kChunksOfThread, p.chunks);
#pragma unroll 1
  for (int chunk = first_chunk; chunk < end; ++chunk) {
    const int channels = inside ? p.k_channels - chunk * kBlocks * kChannels : 0;
    T values[kBlocks][kChannels];
#pragma unroll
    for (int c = 0; c < kBlocks * kChannels; ++c) {
      values[c / kChannels][c % kChannels] = c < channels ? from[c * plane] : from_float<T>(0.0F);
    }
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      uint4 units, tails;
      pack_vector<Traits::kSplit>(values[i], units, tails);
      to[i * block_vectors] = units;
      if constexpr (Traits::kSplit) to[(kBlocks + i) * block_vectors] = tails;
    }
    from += kBlocks * kChannels * plane;
    to += p.box_blocks * block_vectors;
  }
}

template <Arithmetic kArithmetic>
__global__ void __launch_bounds__(correlation::kPackThreads)
    pack_operands_kernel(const __grid_constant__ CorrelationPlan p, const __grid_constant__ PackGrid grid,
                         const void* filter, std::uint32_t* filter_blocks,
                         const typename ArithmeticTraits<kArithmetic>::Element* x, uint4* copy) {
  int rest = static_cast<int>(blockIdx.x);
  const int turn = grid.period.split(rest);
  const bool is_spread = rest == 0 && turn < grid.spread;
  const int number = is_spread ? turn : static_cast<int>(blockIdx.x) - min(rest == 0 ? turn : turn + 1, grid.spread);
  if (is_spread == grid.spreads_filter) {
    int part = number, chunk = grid.filter_parts.split(part);
    const int group = grid.filter_chunks.split(chunk);
    correlation::pack_filter<kArithmetic>(p, filter, filter_blocks, {chunk, group, part});
    return;
  }
  int set = number;
  const int place = grid.chunk_sets.split(set) * correlation::kPackThreads + static_cast<int>(threadIdx.x);
  const int group = grid.group_sets.split(set);
  pack_position<kArithmetic>(p, grid, x, copy, place, group, set * kChunksOfThread);
}

}  // namespace adjoint::cuda::blocked
