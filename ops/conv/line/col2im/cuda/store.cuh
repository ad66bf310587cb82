// Stores the results of the kernel for few output channels (kernel.cuh), a row of positions at a time.
#pragma once

#include <adjoint/ops/conv/line/col2im/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/line/col2im/cuda/load.cuh>
#include <adjoint/ops/conv/line/cuda/line.cuh>

#include <cstdint>

namespace adjoint::cuda::col2im {

/// Stores the results of a row of positions, and replaces them by zeros. kPhases of the columns, or 0 for any number.
template <int kPhases, bool kPlain>
__device__ __forceinline__ void store_row(const Col2imPlan& p, const Operands& operands, const Shared& shared,
                                          const Col2imTile& tile, int row, int thread) {
  int slot = row;
  p.ring_divider.split(slot);
  const int phases = kPhases > 0 ? kPhases : p.w.phases, count = tile.columns * phases;
  const int first = tile.column * phases;  // of results: the plan's columns have no shift
  const int end = min(count, p.w.result - first);
  std::uint32_t from = ptx::shared_address(shared.results + slot * p.h.phases * p.row_results());
  const int y = (tile.row + row) * p.h.phases - p.h.shift;
  const std::int64_t plane = static_cast<std::int64_t>(p.h.result) * p.w.result;
  const std::int64_t sample = tile.sample * static_cast<std::int64_t>(p.channels) * plane;
#pragma unroll 1
  for (int phase_h = 0; phase_h < p.h.phases; ++phase_h) {
    const bool is_result = static_cast<unsigned>(y + phase_h) < static_cast<unsigned>(p.h.result);
    std::int64_t place = sample + static_cast<std::int64_t>(y + phase_h) * p.w.result + first;
#pragma unroll 1
    for (int channel = 0; channel < p.channels; ++channel, from += 4 * phases * p.result_pitch, place += plane) {
      const float bias = line::bias_of(p, 0, operands, channel);
      float* const to = operands.result + place;
#pragma unroll 2
      for (int i = thread; i < count; i += kCol2imConsumers) {
        int phase = i, position;
        if constexpr (kPhases > 0) {
          position = static_cast<int>(static_cast<unsigned>(i) / kPhases);
          phase -= position * kPhases;
        } else {
          position = p.phase_divider.split(phase);
        }
        const std::uint32_t at = from + 4 * (phase * p.result_pitch + position);
        const float value = __uint_as_float(ptx::load_shared(at)) + bias;
        ptx::store_shared(at, 0);
        if (!is_result || i >= end) continue;
        if constexpr (kPlain) {
          to[i] = value;
        } else {
          line::store_result(operands, place + i, value);
        }
      }
    }
  }
}

__device__ __forceinline__ void store_row(const Col2imPlan& p, const Operands& operands, const Shared& shared,
                                          const Col2imTile& tile, int row, int thread) {
  const bool plain = operands.activate.is_none() && operands.linear == nullptr;
  switch (plain ? p.w.phases : 0) {
    case 1: return store_row<1, true>(p, operands, shared, tile, row, thread);
    case 2: return store_row<2, true>(p, operands, shared, tile, row, thread);
    case 3: return store_row<3, true>(p, operands, shared, tile, row, thread);
    case 4: return store_row<4, true>(p, operands, shared, tile, row, thread);
    default: return store_row<0, false>(p, operands, shared, tile, row, thread);
  }
}

/// A block's rows of results, tile by tile, in the order in which they are stored.
struct Rows {
  const Col2imPlan& p;
  const Operands& operands;
  const Shared& shared;
  int index;
  Col2imTile tile;
  int row = 0;  // the tile's next row

  __device__ __forceinline__ Rows(const Col2imPlan& plan, const Operands& of_launch, const Shared& of_block)
      : p(plan), operands(of_launch), shared(of_block), index(static_cast<int>(blockIdx.x)) {
    enter_tile();
  }
  /// Stores the results, of that tile and those before, that no source row from `source_row` on reaches.
  __device__ __forceinline__ void store_before(int tile_index, int source_row, int thread) {
#pragma unroll 1
    while (index < tile_index ||
           (index == tile_index && row < tile.rows && tile.row + row + p.h.offset[p.h.offsets - 1] < source_row)) {
      store_row(p, operands, shared, tile, row, thread);
      if (++row < tile.rows) continue;
      index += static_cast<int>(gridDim.x);
      enter_tile();
    }
  }

 private:
  __device__ __forceinline__ void enter_tile() {
    row = 0;
    if (index < static_cast<int>(p.blocks())) tile = col2im_tile(p, index);
  }
};

}  // namespace adjoint::cuda::col2im
