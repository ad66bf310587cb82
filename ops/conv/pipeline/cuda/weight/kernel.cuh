// conv_weight of channels_last tensors in half precision and TF32 (pipeline/weight_plan.h describes how the work is
// cut). A block stays on its multiprocessor and computes every gridDim'th tile. A thread of the last warpgroup starts
// the copies of strips and boxes, through a ring with a full and an empty mbarrier for each slot; in TF32 its other
// warps transpose the feature into a second ring (transpose.cuh). The other warpgroups multiply, each its taps, and
// write their sums straight from registers. No sum depends on the grid.
//
// A strip reaches past the feature's edges, where it is zero. A NaN or an infinity of the image that meets it there
// makes NaN of taps that do not meet it in the plain kernel.
#pragma once

#include <adjoint/ops/conv/base/cuda/register_split.h>
#include <adjoint/ops/conv/pipeline/weight_plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/base/cuda/wgmma_operand.cuh>
#include <adjoint/ops/conv/pipeline/cuda/weight/shared.cuh>
#include <adjoint/ops/conv/pipeline/cuda/weight/transpose.cuh>

#include <cstdint>

namespace adjoint::cuda::pipeline_weight {

/// wgmma's operand whose eights of positions are `eight_bytes` apart, and its panels of 64 channels `panel_bytes`.
__device__ __forceinline__ std::uint64_t panel_descriptor(std::uint32_t shared_address, int eight_bytes,
                                                          int panel_bytes) {
  return (wgmma::swizzled_descriptor(shared_address, eight_bytes) & ~(std::uint64_t{0x3fff} << 16)) |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(panel_bytes) >> 4) << 16;
}

/// Starts the copies of the block's tiles; one thread.
__device__ __forceinline__ void copy_strips(const PipelineWeightPlan& p, const Operands& operands,
                                            const Shared& shared) {
  const int bytes = p.feature_panels() * p.panel_bytes() + p.image_panels() * p.box_copy_bytes();
  Ring ring;
#pragma unroll 1
  for (int index = static_cast<int>(blockIdx.x); index < p.tiles; index += static_cast<int>(gridDim.x)) {
    const PipelineWeightTile tile = pipeline_weight_tile(p, index);
    const PipelineBox& box = p.set_list[tile.set].box;
#pragma unroll 1
    for (int number = tile.strip; number < tile.end; ++number) {
      const PipelineWeightStrip strip = pipeline_weight_strip(p, number);
      const std::uint32_t full = shared.full + 8 * ring.slot;
      std::uint32_t to = shared.slots + ring.slot * p.slot_bytes();
      ptx::mbarrier_wait(shared.empty + 8 * ring.slot, ring.parity ^ 1);
      ptx::mbarrier_arrive_expect_bytes(full, bytes);
#pragma unroll 1
      for (int panel = 0; panel < p.feature_panels(); ++panel) {
        const int at[kTensorMapAxes] = {tile.feature + panel * p.line(), strip.at[3], strip.at[2], strip.at[1],
                                        strip.at[0]};
        ptx::tensor_copy(to, &operands.feature, at, full);
        to += p.panel_bytes();
      }
#pragma unroll 1
      for (int panel = 0; panel < p.image_panels(); ++panel) {
        const int at[kTensorMapAxes] = {tile.image + panel * p.line(), strip.at[3] + box.first[3],
                                        strip.at[2] + box.first[2], strip.at[1] + box.first[1],
                                        strip.at[0] + box.first[0]};
        ptx::tensor_copy(to, &operands.image[box.phase], at, full);
        to += p.box_bytes();
      }
      ring.advance(p.slots);
    }
  }
}

/// Stores a tap's sums, which lanes hold in the order of wgmma.cuh. `to`: the tap's sums of the tile's slice.
template <int kColumns>
__device__ __forceinline__ void store_sums(const PipelineWeightPlan& p, int feature, int image,
                                           const float (&sums)[kColumns / 2], float* to, int warp, int lane) {
  const auto channels = static_cast<std::int64_t>(p.image.channels), features = p.feature.channels;
  const std::int64_t row = feature + 16 * warp + lane / 4, column = image + lane % 4 * 2;
  to += row * channels + column;
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
    if (column + 8 * j >= channels) break;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (row + 8 * i >= features) continue;
      *reinterpret_cast<float2*>(to + 8 * i * channels + 8 * j) =
          make_float2(sums[4 * j + 2 * i], sums[4 * j + 2 * i + 1]);
    }
  }
}

/// Multiplies a team's taps of every tile of the block, in halves.
template <Arithmetic kArithmetic, int kColumns, int kTaps>
__device__ __forceinline__ void multiply_and_store(const PipelineWeightPlan& p, const Operands& operands,
                                                   const Shared& shared, int team) {
  constexpr wgmma::Operand kOperand = kWgmmaOperand<kArithmetic>;
  constexpr wgmma::Major kChannels = wgmma::Major::kMN;
  constexpr int kLineUnits = kPipelineLineBytes / 16, kEight = kPipelineStrip * kPipelineLineBytes;
  const int warp = static_cast<int>(threadIdx.x) / 32 % kWarpsOfTeam, lane = static_cast<int>(threadIdx.x) % 32;
  const int panel = p.shares_taps ? team : 0, pitch = p.box_extents[kPipelineAxes - 1];
  const std::uint64_t feature = panel_descriptor(shared.slots + panel * p.panel_bytes(), kEight, p.panel_bytes());
  const std::uint64_t image =
      panel_descriptor(shared.slots + p.feature_panels() * p.panel_bytes(), pitch * kPipelineLineBytes, p.box_bytes());
  Ring ring;
#pragma unroll 1
  for (int index = static_cast<int>(blockIdx.x); index < p.tiles; index += static_cast<int>(gridDim.x)) {
    const PipelineWeightTile tile = pipeline_weight_tile(p, index);
    const WeightSetTap* const taps = p.set_list[tile.set].taps + (p.shares_taps ? 0 : team * kTaps);
    std::uint64_t of_tap[kTaps];
#pragma unroll
    for (int i = 0; i < kTaps; ++i) of_tap[i] = wgmma::moved(image, taps[i].shift * kLineUnits);
    float sums[kTaps][kColumns / 2] = {};
    std::uint32_t used = 0;  // the barrier of the slot that products in flight read; 0: no barrier
    int accumulate = 0;
#pragma unroll
    for (int i = 0; i < kTaps; ++i) wgmma::pin(sums[i]);
    wgmma::fence();
#pragma unroll 1
    for (int strip = tile.strip; strip < tile.end; ++strip) {
      ptx::mbarrier_wait(shared.full + 8 * ring.slot, ring.parity);
      const int slot = ring.slot * (p.slot_bytes() / 16);
#pragma unroll
      for (int step = 0; step < kWeightSteps; ++step) {
        const std::uint64_t a = wgmma::moved(feature, slot + step * p.step_depth() * kLineUnits);
        const int row = slot + p.step_rows[step] * pitch * kLineUnits;
#pragma unroll
        for (int i = 0; i < kTaps; ++i) {
          wgmma::multiply_blocks<kOperand, kChannels, kChannels, kColumns>(sums[i], a, wgmma::moved(of_tap[i], row),
                                                                           accumulate);
        }
        accumulate = 1;
      }
      wgmma::commit();
      wgmma::wait<1>();
      if (used != 0 && lane == 0) ptx::mbarrier_arrive(used);
      used = shared.empty + 8 * ring.slot;
      ring.advance(p.slots);
    }
    wgmma::wait<0>();
    if (used != 0 && lane == 0) ptx::mbarrier_arrive(used);
#pragma unroll
    for (int i = 0; i < kTaps; ++i) wgmma::pin(sums[i]);
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      if (taps[i].filter < 0) continue;
      float* const to = operands.sums + taps[i].filter * p.gather.tap_stride + tile.slice * p.gather.slice_stride;
      store_sums<kColumns>(p, tile.feature + panel * kPipelineResults, tile.image, sums[i], to, warp, lane);
    }
  }
}

/// kSharedRows: the rows of a sample's strip whose image rows a team's taps share; 0: no shared rows.
template <Arithmetic kArithmetic, int kTeams, int kColumns, int kTaps, int kSharedRows>
__global__ void __launch_bounds__((kTeams + 1) * kTeam, 1)
    pipeline_weight_kernel(const __grid_constant__ PipelineWeightPlan p, const __grid_constant__ Operands operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which is never launched
  const std::uint32_t smem = ptx::shared_address(ptx::dynamic_smem());
  constexpr bool kTransposes = kArithmetic == Arithmetic::kTF32;
  const Shared shared = shared_of(p, smem);
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.slots; ++i) {
      ptx::mbarrier_init(shared.full + 8 * i, 1);
      ptx::mbarrier_init(shared.empty + 8 * i, kTeams * kWarpsOfTeam + (kTransposes ? kTransposingWarps : 0));
    }
    for (int i = 0; kTransposes && i < kWeightTransposedSlots; ++i) {
      ptx::mbarrier_init(shared.transposed_full + 8 * i, kTransposingWarps);
      ptx::mbarrier_init(shared.transposed_empty + 8 * i, kTeams * kWarpsOfTeam);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  constexpr int kThreads = (kTeams + 1) * kTeam, kLoaderRegisters = kTransposes ? 56 : 40;
  constexpr int kRegisters = multiplier_registers(kThreads, kTeam, kLoaderRegisters);
  if (threadIdx.x < p.sets_divider.divisor()) ptx::prefetch(operands.image[p.set_list[threadIdx.x].box.phase]);
  if (threadIdx.x == 64) ptx::prefetch(operands.feature);
  ptx::wait_for_earlier_kernels();
  const int team = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / kTeam, 0);
  if (team == kTeams) {
    ptx::lower_register_limit<kLoaderRegisters>();
    const int thread = static_cast<int>(threadIdx.x) - kTeams * kTeam;
    if (thread == 0) copy_strips(p, operands, shared);
    if (kTransposes && thread >= 32) transpose_strips<kColumns>(p, shared, thread - 32);
  } else {
    ptx::raise_register_limit<kRegisters>();
    if constexpr (kTransposes) {
      multiply_transposed<kColumns, kTaps, kSharedRows>(p, operands, shared, team);
    } else {
      multiply_and_store<kArithmetic, kColumns, kTaps>(p, operands, shared, team);
    }
  }
#endif
}

}  // namespace adjoint::cuda::pipeline_weight
