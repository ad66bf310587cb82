// The layout of a pipeline block's shared memory, and the arguments of its kernel.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/pipeline/plan.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/core/cuda/ptx.cuh>

#include <cstdint>

namespace adjoint::cuda::pipeline {

template <class T>
struct Operands {
  TensorMap source[kMostPipelinePhases], result[kMostPipelinePhases];  // of each phase
  TensorMap filter;
  const T* bias;  // may be null
  Activate<float> activate;
};

inline constexpr int kTeam = 128;                         // threads: a warpgroup
inline constexpr int kWarpsOfTeam = 4;                    // in each, one lane reports that a slot has been read
inline constexpr int kTeamsBarrier = kPipelineTeams + 1;  // 1 and on are the teams' own
inline constexpr int kStepsOfLine = kPipelineLineBytes / kPipelineStepBytes;
inline constexpr int kStepUnits = 2;  // of 16 bytes, from one to the next
inline constexpr int kLineUnits = kPipelineLineBytes / 16;

/// Shared addresses.
struct Shared {
  std::uint32_t boxes_full, boxes_empty;      // mbarriers, one for each slot
  std::uint32_t filters_full, filters_empty;  // full and empty barriers of the filters' ring
  std::uint32_t begun;                        // mbarrier: the first warpgroup leads
  std::uint32_t boxes, filters, out;
};

__device__ __forceinline__ Shared shared_of(const PipelinePlan& p) {
  constexpr int kFilterBarriers = kPipelineTeams * kMostPipelineFilterSlots;
  static_assert(8 * (2 * kMostPipelineBoxSlots + 2 * kFilterBarriers + 1) <= kPipelineTableBytes);
  Shared shared;
  shared.boxes_full = ptx::shared_address(ptx::dynamic_smem());
  shared.boxes_empty = shared.boxes_full + 8 * kMostPipelineBoxSlots;
  shared.filters_full = shared.boxes_empty + 8 * kMostPipelineBoxSlots;
  shared.filters_empty = shared.filters_full + 8 * kFilterBarriers;
  shared.begun = shared.filters_empty + 8 * kFilterBarriers;
  shared.boxes = shared.boxes_full + kPipelineTableBytes;
  shared.filters = shared.boxes + p.box_slots * p.box_bytes();
  shared.out = shared.filters + p.filter_rings() * p.filter_slots * kPipelineFilterBytes;
  return shared;
}

__device__ __forceinline__ void init_barriers(const PipelinePlan& p, const Shared& shared) {
  for (int i = 0; i < kMostPipelineBoxSlots; ++i) {
    ptx::mbarrier_init(shared.boxes_full + 8 * i, 1);
    ptx::mbarrier_init(shared.boxes_empty + 8 * i, kPipelineTeams * kWarpsOfTeam);
  }
  for (int i = 0; i < kPipelineTeams * kMostPipelineFilterSlots; ++i) {
    ptx::mbarrier_init(shared.filters_full + 8 * i, 1);
    ptx::mbarrier_init(shared.filters_empty + 8 * i, kWarpsOfTeam * (p.shares_filter ? kPipelineTeams : 1));
  }
  ptx::mbarrier_init(shared.begun, 1);
  ptx::fence_mbarrier_init();
}

/// One thread prefetches each map.
template <class T>
__device__ __forceinline__ void prefetch_maps(const PipelinePlan& p, const Operands<T>& operands) {
  const int thread = static_cast<int>(threadIdx.x), phase = thread - 32;
  if (thread < p.boxes) ptx::prefetch(operands.source[p.box_list[thread].phase]);
  if (phase >= 0 && phase < kMostPipelinePhases && p.first_tap[phase][p.boxes] > 0) {
    ptx::prefetch(operands.result[phase]);
  }
  if (thread == 64) ptx::prefetch(operands.filter);
}

/// A block's tiles: every gridDim'th, or, in slices, the cluster's one.
template <bool kSliced>
__device__ __forceinline__ int first_tile(const PipelinePlan& p) {
  return static_cast<int>(blockIdx.x) / (kSliced ? p.slices : 1);
}
__device__ __forceinline__ int tile_step() { return static_cast<int>(gridDim.x); }

/// The part of its tiles that the block multiplies.
template <bool kSliced>
__device__ __forceinline__ PipelineSlice slice_of(const PipelinePlan& p) {
  if constexpr (kSliced) return pipeline_slice(p, ptx::cluster_rank());
  return {0, 0, p.chunks * p.boxes};
}

}  // namespace adjoint::cuda::pipeline
