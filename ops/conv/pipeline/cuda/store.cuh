// The pipeline's epilogue: bias, activation and rounding of a warpgroup's tile, which is transposed on its way to
// shared memory, into lines of 128 bytes of channels; from there the copy engine writes it while the next tile is
// multiplied.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/pipeline/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/pipeline/cuda/shared.cuh>

#include <cstdint>
#include <cstring>

namespace adjoint::cuda::pipeline {

/// A thread holds the sums of results lane / 4 and lane / 4 + 8 of the warp's 16 at two neighbouring positions in every
/// eight.
template <class T, int kColumns>
struct Store {
  static constexpr bool kFloats = sizeof(T) == 4;
  static constexpr int kPanels = kPipelineResults * sizeof(T) / kPipelineLineBytes;  // of lines of channels
  static constexpr int kPanelBytes = kColumns * kPipelineLineBytes;

  const PipelinePlan& p;
  const Operands<T>& operands;
  std::uint32_t out;  // the team's
  int team, warp, lane;

  __device__ __forceinline__ int barrier() const { return team + 1; }

  /// Reads the values to add to the thread's two results.
  __device__ __forceinline__ void read_bias(const PipelineTile& tile, float (&bias)[2]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int result = tile.result + warp * 16 + lane / 4 + i * 8;
      const bool has = operands.bias != nullptr && result < p.result.channels;
      bias[i] = has ? to_float(operands.bias[result]) : 0.0F;
    }
  }

  /// For eight positions.
  __device__ __forceinline__ void finish(const float* sums, const float (&bias)[2], float (&values)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = sums[i] + bias[i / 2];
    if (!operands.activate.is_none()) operands.activate(values);
  }

  /// For 16 positions from `position` on, of halves: matrices of 8 x 8.
  __device__ __forceinline__ void stage_halves(const float* sums, const float (&bias)[2], int position) const {
    const int row = position + lane % 8 + lane / 16 * 8, chunk = warp * 2 + lane / 8 % 2;
    std::uint32_t units[4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float values[4];
      finish(sums + 4 * half, bias, values);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Pack<T, 2> pair{{from_float<T>(values[2 * i]), from_float<T>(values[2 * i + 1])}};
        memcpy(&units[2 * half + i], &pair, sizeof(pair));
      }
    }
    ptx::store_matrices_transposed(out + row * kPipelineLineBytes + (chunk ^ row % 8) * 16, units);
  }

  /// For eight positions, of floats: no two lanes of a warp write to one bank.
  __device__ __forceinline__ void stage_floats(const float* sums, const float (&bias)[2], int position) const {
    const std::uint32_t panel = out + warp / 2 * kPanelBytes;
    float values[4];
    finish(sums, bias, values);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = position + lane % 4 * 2 + i % 2, channel = warp % 2 * 16 + lane / 4 + i / 2 * 8;
      const std::uint32_t chunk = (channel / 4 ^ row % 8) * 16 + channel % 4 * 4;
      ptx::store_shared(panel + row * kPipelineLineBytes + chunk, __float_as_uint(values[i]));
    }
  }

  __device__ __forceinline__ void operator()(const PipelineTile& tile, const float (&sums)[kColumns / 2]) const {
    float bias[2];
    read_bias(tile, bias);
    const bool stores = warp == 0 && lane == 0;
    if (stores) ptx::bulk_wait_read();
    ptx::barrier<kTeam>(barrier());
    constexpr int kOnce = kFloats ? 8 : 16;
#pragma unroll
    for (int i = 0; i < kColumns; i += kOnce) {
      if constexpr (kFloats) {
        stage_floats(sums + i / 2, bias, i);
      } else {
        stage_halves(sums + i / 2, bias, i);
      }
    }
    ptx::fence_async_proxy();
    ptx::barrier<kTeam>(barrier());
    if (stores) write(tile);
  }

  __device__ __forceinline__ void write(const PipelineTile& tile) const {
    constexpr int kLine = kPipelineLineBytes / sizeof(T);
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      const int at[kTensorMapAxes] = {tile.result + panel * kLine, tile.at[2], tile.at[1], tile.at[0], tile.sample};
      if (at[0] < p.result.channels) ptx::tensor_store(&operands.result[tile.phase], at, out + panel * kPanelBytes);
    }
    ptx::bulk_commit();
  }
};

}  // namespace adjoint::cuda::pipeline
