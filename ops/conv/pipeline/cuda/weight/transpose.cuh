// conv_weight in TF32, whose products need positions contiguous: warps that transpose the feature's strips in shared
// memory, and warpgroups that read the image's operand from its box into registers. Any tap may begin at any position
// there, which an operand in shared memory could not.
#pragma once

#include <adjoint/ops/conv/pipeline/weight_plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/pipeline/cuda/weight/shared.cuh>

#include <cstdint>

namespace adjoint::cuda::pipeline_weight {

inline constexpr int kChunk = 16, kChunksOfLine = kPipelineLineBytes / kChunk;  // bytes that swizzles move as one
inline constexpr int kChunkFloats = 4;

/// The contents of shared memory at a shared address.
template <class T>
__device__ __forceinline__ T& shared_value(std::uint32_t address) {
  unsigned char* const smem = ptx::dynamic_smem();
  return *reinterpret_cast<T*>(smem + (address - ptx::shared_address(smem)));
}

/// Transposes the strips of the block's tiles; the threads of kTransposingWarps. Each moves squares of four positions
/// by four channels. Eight neighbours move squares of a diagonal, so that neither reads nor writes meet in a bank.
template <int kColumns>
__device__ __forceinline__ void transpose_strips(const PipelineWeightPlan& p, const Shared& shared, int thread) {
  constexpr int kSquares = kColumns * kPipelineStrip * kWeightSteps / (kChunkFloats * kChunkFloats);
  Ring strips, out;
#pragma unroll 1
  for (int index = static_cast<int>(blockIdx.x); index < p.tiles; index += static_cast<int>(gridDim.x)) {
    const PipelineWeightTile tile = pipeline_weight_tile(p, index);
#pragma unroll 1
    for (int number = tile.strip; number < tile.end; ++number) {
      const std::uint32_t from = shared.slots + strips.slot * p.slot_bytes(),
                          to = shared.transposed + out.slot * p.transposed_bytes();
      ptx::mbarrier_wait(shared.full + 8 * strips.slot, strips.parity);
      ptx::mbarrier_wait(shared.transposed_empty + 8 * out.slot, out.parity ^ 1);
#pragma unroll 1
      for (int i = thread; i < kSquares; i += kTransposingWarps * 32) {
        const int chunk = i % 8, along = (i + i / 8) % 8, half = i / 64 % 2, panel = i / 128;
        float4 rows[kChunkFloats];
#pragma unroll
        for (int row = 0; row < kChunkFloats; ++row) {
          const int position = half * 32 + along * kChunkFloats + row;
          rows[row] = shared_value<float4>(from + panel * p.panel_bytes() + position * kPipelineLineBytes +
                                           (chunk ^ position % 8) * kChunk);
        }
        const float4 columns[kChunkFloats] = {{rows[0].x, rows[1].x, rows[2].x, rows[3].x},
                                              {rows[0].y, rows[1].y, rows[2].y, rows[3].y},
                                              {rows[0].z, rows[1].z, rows[2].z, rows[3].z},
                                              {rows[0].w, rows[1].w, rows[2].w, rows[3].w}};
#pragma unroll
        for (int column = 0; column < kChunkFloats; ++column) {
          const int channel = (panel * kChunksOfLine + chunk) * kChunkFloats + column;
          shared_value<float4>(to + (half * kColumns + channel) * kPipelineLineBytes + (along ^ channel % 8) * kChunk) =
              columns[column];
        }
      }
      ptx::fence_async_proxy();
      __syncwarp();
      if (thread % 32 == 0) {
        ptx::mbarrier_arrive(shared.transposed_full + 8 * out.slot);
        ptx::mbarrier_arrive(shared.empty + 8 * strips.slot);
      }
      strips.advance(p.slots);
      out.advance(kWeightTransposedSlots);
    }
  }
}

/// A lane's part of an operand: 64 image channels by eight positions. Of each warp's sixteen channels a lane's first is
/// in one chunk of the box's line and its second in the next, and lanes 16 to 31 read four chunks further, so that
/// eight channels of four positions are in 32 banks.
struct ImageFragment {
  std::uint32_t line;  // of the warp's 32 channels, at position 0 of the box in slot 0
  int position, chunk, within;

  __device__ ImageFragment(const PipelineWeightPlan& p, const Shared& shared, int team, int warp, int lane)
      : line(shared.slots + p.feature_panels() * p.panel_bytes() +
             ((p.shares_taps ? team * 2 : 0) + warp / 2) * p.box_bytes()),
        position(lane % 4),
        chunk(warp % 2 * 2 + lane / 16 * 4),
        within(lane / 4 % 4 * 4) {}

  /// `first`: the first of eight positions, from the first slot's box on. Slots are multiples of eight positions apart.
  __device__ __forceinline__ void load(int first, std::uint32_t (&a)[4]) const {
    const int at = first + position;
    const std::uint32_t own = line + at * kPipelineLineBytes + (chunk ^ at % 8) * kChunk + within;
    // Four positions on, the swizzle selects the chunk four places away.
    const std::uint32_t on = (own ^ 4 * kChunk) + 4 * kPipelineLineBytes;
    a[0] = shared_value<std::uint32_t>(own);
    a[1] = shared_value<std::uint32_t>(own ^ kChunk);
    a[2] = shared_value<std::uint32_t>(on);
    a[3] = shared_value<std::uint32_t>(on ^ kChunk);
  }
  /// The channel of the lane's row, or of the row eight below, among the team's 64.
  __device__ __forceinline__ int channel(int warp, int second) const {
    return warp / 2 * 32 + (chunk + second) * kChunkFloats + within / 4;
  }
};

/// A team's products of a strip: groups of products that follow each other, each of its image operands. Without shared
/// rows a group is a step's taps, or one of them if registers hold no more operands.
template <int kColumns, int kTaps, int kSharedRows>
struct StripGroups {
  static constexpr bool kShares = kSharedRows > 0;
  static constexpr int kOperands = kShares || kColumns * kTaps > 256 ? 1 : kTaps, kGroupsOfStep = kTaps / kOperands;
  static constexpr int kRows = kShares ? kSharedRows : kWeightSteps, kImageRows = kRows + kTaps - 1;  // of a sample
  static constexpr int kGroups = kShares ? kWeightSteps / kRows * kImageRows : kWeightSteps * kGroupsOfStep;
  static_assert(kGroups % 2 == 0);  // operands alternate between two sets of registers

  /// The step whose row of the feature the group's tap i multiplies, or -1: no row.
  static constexpr int step(int group, int i) {
    if (!kShares) return group / kGroupsOfStep;
    const int row = group % kImageRows - i;
    return row >= 0 && row < kRows ? group / kImageRows * kRows + row : -1;
  }
  static constexpr int first_tap(int group) { return kShares ? 0 : group % kGroupsOfStep * kOperands; }
  static constexpr int taps() { return kShares ? kTaps : kOperands; }
  /// The row of the box that the group's first operand begins at, before its tap's shift.
  __device__ static int row(const PipelineWeightPlan& p, int group) {
    if (!kShares) return p.step_rows[group / kGroupsOfStep];
    return p.step_rows[group / kImageRows * kRows] + group % kImageRows;
  }
};

/// Multiplies a team's taps of every tile of the block, and stores their sums. A group of products is in flight while
/// the next one's operands are read.
template <int kColumns, int kTaps, int kSharedRows>
__device__ __forceinline__ void multiply_transposed(const PipelineWeightPlan& p, const Operands& operands,
                                                    const Shared& shared, int team) {
  using Groups = StripGroups<kColumns, kTaps, kSharedRows>;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32 % kWarpsOfTeam, lane = thread % 32;
  const int pitch = p.box_extents[kPipelineAxes - 1];
  const ImageFragment fragment(p, shared, team, warp, lane);
  const std::uint64_t feature = wgmma::swizzled_descriptor(shared.transposed);
  Ring strips, transposed;
#pragma unroll 1
  for (int index = static_cast<int>(blockIdx.x); index < p.tiles; index += static_cast<int>(gridDim.x)) {
    const PipelineWeightTile tile = pipeline_weight_tile(p, index);
    const WeightSetTap* const taps = p.set_list[tile.set].taps + (p.shares_taps ? 0 : team * kTaps);
    int shift[kTaps];
#pragma unroll
    for (int i = 0; i < kTaps; ++i) shift[i] = taps[i].shift;
    float sums[kTaps][kColumns / 2] = {};
    std::uint32_t a[2][Groups::kOperands][4];
    std::uint32_t used = 0;  // the barrier of the transposed strip that products in flight read; 0: no barrier
#pragma unroll
    for (int i = 0; i < kTaps; ++i) wgmma::pin(sums[i]);
#pragma unroll 1
    for (int strip = tile.strip; strip < tile.end; ++strip) {
      const int slot = strips.slot * (p.slot_bytes() / kPipelineLineBytes);
      const auto load = [&](int group) {
        const int row = slot + Groups::row(p, group) * pitch;
#pragma unroll
        for (int i = 0; i < Groups::kOperands; ++i) {
          fragment.load(row + shift[Groups::first_tap(group) + i], a[group % 2][i]);
        }
      };
      ptx::mbarrier_wait(shared.full + 8 * strips.slot, strips.parity);
      load(0);
      ptx::mbarrier_wait(shared.transposed_full + 8 * transposed.slot, transposed.parity);
      const std::uint64_t b = wgmma::moved(feature, transposed.slot * p.transposed_bytes() / 16);
#pragma unroll
      for (int group = 0; group < Groups::kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < Groups::kOperands; ++i) wgmma::pin(a[group % 2][i]);
        wgmma::fence();
#pragma unroll
        for (int i = 0; i < Groups::taps(); ++i) {
          const int step = Groups::step(group, i);
          if (step < 0) continue;
          const int at = step / 4 * (kColumns * kPipelineLineBytes / 16) + step % 4 * (kWeightStepBytes / 16);
          wgmma::multiply<wgmma::Operand::kTF32, kColumns>(sums[Groups::first_tap(group) + i],
                                                           a[group % 2][Groups::kShares ? 0 : i], wgmma::moved(b, at));
        }
        wgmma::commit();
        wgmma::wait<1>();  // the other operands are free
        if (group == 0 && used != 0 && lane == 0) ptx::mbarrier_arrive(used);
        if (group + 1 < Groups::kGroups) load(group + 1);
      }
      __syncwarp();
      if (lane == 0) ptx::mbarrier_arrive(shared.empty + 8 * strips.slot);
      used = shared.transposed_empty + 8 * transposed.slot;
      strips.advance(p.slots);
      transposed.advance(kWeightTransposedSlots);
    }
    wgmma::wait<0>();
    if (used != 0 && lane == 0) ptx::mbarrier_arrive(used);
#pragma unroll
    for (int i = 0; i < kTaps; ++i) wgmma::pin(sums[i]);
    const auto images = static_cast<std::int64_t>(p.image.channels), features = p.feature.channels;
    const std::int64_t image = tile.image + (p.shares_taps ? team * kPipelineResults : 0);
    const std::int64_t column = tile.feature + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      if (taps[i].filter < 0) continue;
      float* const to = operands.sums + taps[i].filter * p.gather.tap_stride + tile.slice * p.gather.slice_stride;
#pragma unroll
      for (int number = 0; number < kColumns / 2; ++number) {
        const std::int64_t row = column + number / 4 * 8 + number % 2;
        const std::int64_t channel = image + fragment.channel(warp, number / 2 % 2);
        if (row < features && channel < images) to[row * images + channel] = sums[i][number];
      }
    }
  }
}

}  // namespace adjoint::cuda::pipeline_weight
