// The layout of a block's shared memory in the pipeline's kernel of conv_weight, and the kernel's arguments.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/pipeline/weight_plan.h>

#include <cstdint>

namespace adjoint::cuda::pipeline_weight {

struct Operands {
  TensorMap image[kMostPipelinePhases], feature;
  float* sums;  // [tap][slice][feature channel][image channel]
};

/// Shared addresses.
struct Shared {
  std::uint32_t full, empty;                        // mbarriers, one for each slot
  std::uint32_t transposed_full, transposed_empty;  // mbarriers, one for each slot of transposed strips
  std::uint32_t transposed;                         // the feature, [row of four][channel][32 positions]
  std::uint32_t slots;                              // the feature's panels, then the image's
};

inline constexpr int kTeam = 128;  // threads: a warpgroup
inline constexpr int kWarpsOfTeam = 4, kTransposingWarps = 3;

__device__ __forceinline__ Shared shared_of(const PipelineWeightPlan& p, std::uint32_t smem) {
  Shared shared;
  shared.full = smem;
  shared.empty = shared.full + 8 * kMostStripSlots;
  shared.transposed_full = shared.empty + 8 * kMostStripSlots;
  shared.transposed_empty = shared.transposed_full + 8 * kWeightTransposedSlots;
  shared.transposed = smem + kPipelineTableBytes;
  shared.slots = shared.transposed + kWeightTransposedSlots * p.transposed_bytes();
  return shared;
}

}  // namespace adjoint::cuda::pipeline_weight
