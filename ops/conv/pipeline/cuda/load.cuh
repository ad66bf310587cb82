// The pipeline's loads: one thread starts the copies of the boxes of a block's tiles, and one for each ring of filters
// those of its taps.
#pragma once

#include <adjoint/ops/conv/pipeline/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/pipeline/cuda/shared.cuh>

#include <cstdint>

namespace adjoint::cuda::pipeline {

template <bool kSliced, bool kSkips, class T>
__device__ __forceinline__ void copy_boxes(const PipelinePlan& p, const Operands<T>& operands, const Shared& shared) {
  constexpr int kLine = kPipelineLineBytes / sizeof(T);
  Ring ring;
#pragma unroll 1
  for (int index = first_tile<kSliced>(p); index < p.tiles; index += tile_step()) {
    const PipelineTile tile = pipeline_tile(p, index, 0);
#pragma unroll 1
    for (PipelineSlice next = slice_of<kSliced>(p); next.left > 0; next.advance(p.boxes)) {
      if (kSkips && !pipeline_reads(p, tile, next.box)) continue;
      const PipelineBox& box = p.box_list[next.box];
      const std::uint32_t full = shared.boxes_full + 8 * ring.slot;
      const int at[kTensorMapAxes] = {next.chunk * kLine, tile.at[3] + box.first[3], tile.at[2] + box.first[2],
                                      tile.at[1] + box.first[1], tile.at[0] + box.first[0]};
      ptx::mbarrier_wait(shared.boxes_empty + 8 * ring.slot, ring.parity ^ 1);
      ptx::mbarrier_arrive_expect_bytes(full, p.box_copy_bytes());
      ptx::tensor_copy(shared.boxes + ring.slot * p.box_bytes(), &operands.source[box.phase], at, full);
      ring.advance(p.box_slots);
    }
  }
}

/// In the order in which the team multiplies them, or both teams if they share filters.
template <wgmma::Major kFilter, bool kSliced, bool kSkips, class T>
__device__ __forceinline__ void copy_filters(const PipelinePlan& p, const Operands<T>& operands, const Shared& shared,
                                             int team) {
  constexpr int kLine = kPipelineLineBytes / sizeof(T);
  const int first_slot = team * kMostPipelineFilterSlots;
  const std::uint32_t slots = shared.filters + team * p.filter_slots * kPipelineFilterBytes;
  const int bytes = p.filter_lines(kFilter == wgmma::Major::kMN) * kPipelineLineBytes;
  Ring ring;
#pragma unroll 1
  for (int index = first_tile<kSliced>(p); index < p.tiles; index += tile_step()) {
    const PipelineTile tile = pipeline_tile(p, index, team);
#pragma unroll 1
    for (PipelineSlice next = slice_of<kSliced>(p); next.left > 0; next.advance(p.boxes)) {
      if (kSkips && !pipeline_reads(p, tile, next.box)) continue;
      const int end = p.first_tap[tile.phase][next.box + 1];
#pragma unroll 1
      for (int tap = p.first_tap[tile.phase][next.box]; tap < end; ++tap) {
        const std::uint32_t full = shared.filters_full + 8 * (first_slot + ring.slot);
        const int channel = next.chunk * kLine, inner = kFilter == wgmma::Major::kK ? channel : tile.result;
        const int at[kTensorMapAxes] = {inner, p.tap_list[tap].filter, channel + tile.result - inner, 0, 0};
        ptx::mbarrier_wait(shared.filters_empty + 8 * (first_slot + ring.slot), ring.parity ^ 1);
        ptx::mbarrier_arrive_expect_bytes(full, bytes);
        ptx::tensor_copy(slots + ring.slot * kPipelineFilterBytes, &operands.filter, at, full);
        ring.advance(p.filter_slots);
      }
    }
  }
}

}  // namespace adjoint::cuda::pipeline
