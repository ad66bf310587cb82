// Packs the operands of the blocked tensor-core kernel: the filter as every correlation's, and the input into a copy in
// channel blocks, rounded once, split into heads and tails where float32 is, its planes apart by position modulo
// stride, zeros where a block has no channel or a plane no position.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/cuda/correlation_pack.cuh>

#include <cstdint>

namespace adjoint::cuda::blocked {

/// Blocks of threads: every period-th is the filter's, (chunk, column tile, part), as long as it has some, and the
/// others are the input's, (kPackThreads positions of the copy's planes, a group's chunk). So the filter's latencies
/// fall into the input's copies.
struct PackGrid {
  int filter_parts;  // of a column tile
  int filter;        // blocks
  int period;
  int chunks;  // of all groups
  std::int64_t blocks;
};

/// A position of all channels of a group's chunk, which a thread reads before it writes any.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void pack_position(const CorrelationPlan& p,
                                              const typename ArithmeticTraits<kArithmetic>::Element* x, uint4* copy,
                                              std::int64_t index, int group, int chunk) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  constexpr int kBlocks = kChunkUnits / 4, kChannels = 16 / sizeof(T);  // of a chunk, of a block
  const int rows = p.copy_h(), columns = p.copy_w(), width = columns * p.in_stride_w;
  const std::int64_t positions = static_cast<std::int64_t>(rows) * p.in_stride_h * width;  // of an image
  const std::int64_t n = index / positions;
  if (n >= p.batch) return;
  const auto position = static_cast<int>(index - n * positions);
  const int h = position / width, w = position - h * width, first = chunk * kBlocks * kChannels;
  const std::int64_t plane = static_cast<std::int64_t>(p.in_h) * p.in_w;
  const T* from =
      x + ((n * p.groups + group) * p.k_channels + first) * plane + static_cast<std::int64_t>(h) * p.in_w + w;
  const int channels = h < p.in_h && w < p.in_w ? p.k_channels - first : 0;
  T values[kBlocks][kChannels];
#pragma unroll
  for (int c = 0; c < kBlocks * kChannels; ++c) {
    values[c / kChannels][c % kChannels] = c < channels ? from[c * plane] : from_float<T>(0.0F);
  }
  const int row = h / p.in_stride_h, column = w / p.in_stride_w;
  const int block = p.copy_block(group, h - row * p.in_stride_h, w - column * p.in_stride_w, chunk);
  const std::int64_t block_vectors = static_cast<std::int64_t>(rows) * columns;
  uint4* to = copy + (n * p.copy_blocks() + block) * block_vectors + row * columns + column;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    uint4 units, tails;
    pack_vector<Traits::kSplit>(values[i], units, tails);
    to[i * block_vectors] = units;
    if constexpr (Traits::kSplit) to[(kBlocks + i) * block_vectors] = tails;
  }
}

template <Arithmetic kArithmetic>
__global__ void __launch_bounds__(correlation::kPackThreads)
    pack_operands_kernel(const __grid_constant__ CorrelationPlan p, const PackGrid grid, const void* filter,
                         std::uint32_t* filter_blocks, const typename ArithmeticTraits<kArithmetic>::Element* x,
                         uint4* copy) {
  const int index = static_cast<int>(blockIdx.x), part = index / grid.period;
  if (part < grid.filter && index == part * grid.period) {
    const int tile = part / grid.filter_parts;
    correlation::pack_filter<kArithmetic>(p, filter, filter_blocks,
                                          {tile % p.chunks, tile / p.chunks, part % grid.filter_parts,
                                           grid.filter_parts});
    return;
  }
  const int item = index - min(part + 1, grid.filter), place = item / grid.chunks, chunk = item % grid.chunks;
  pack_position<kArithmetic>(p, x, copy, static_cast<std::int64_t>(place) * correlation::kPackThreads + threadIdx.x,
                             chunk / p.chunks, chunk % p.chunks);
}

}  // namespace adjoint::cuda::blocked
