// Packs the operands of the blocked tensor-core kernel: the filter as for every correlation, and the input into a copy
// in channel blocks.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/correlation/cuda/filter/pack.cuh>
#include <adjoint/ops/conv/layouts/cuda/channel_blocks.cuh>

#include <cstdint>

namespace adjoint::cuda::blocked {

/// Blocks of threads for the filter, (group, chunk, part), and for the input's copy: every `period`-th block, from the
/// first on, is of one of the two kinds until that kind ends. The input's copies therefore hide the filter's latencies,
/// which come early. Indices are split without divisions, which would be most of the work.
struct PackGrid {
  int spread;           // blocks of the spread kind
  bool spreads_filter;  // the filter is the spread kind
  std::int64_t blocks;
  Divider period;
  Divider filter_parts, filter_chunks;  // parts of a group's channels, chunks of the filter
  channel_blocks::CopyGrid input;
};

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
  channel_blocks::copy_positions<kArithmetic>(p.copy(), grid.input, number, x, copy);
}

}  // namespace adjoint::cuda::blocked
