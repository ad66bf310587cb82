// The pipeline's epilogue: bias, activation and rounding of a warpgroup's tile, which is transposed into shared memory,
// into lines of 128 bytes of channels; from there the copy engine writes it while the next tile is multiplied. A
// cluster's blocks exchange their slices' sums first, and each finishes and writes some of the rows.
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
  static constexpr int kOnce = kFloats ? 8 : 16;  // positions that are staged together
  static constexpr int kPlaces = 8;               // positions of which a thread has four sums

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

  /// Adds the bias and activates. `sums`: four of every eight positions. Products' own registers must not change here,
  /// or the compiler waits for each product that writes them.
  template <int kCount>
  __device__ __forceinline__ void finish(const float (&bias)[2], const float (&sums)[kCount],
                                         float (&values)[kCount]) const {
    operands.activate.visit([&](const auto& f) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) values[i] = f(sums[i] + bias[i / 2 % 2]);
    });
  }

  /// For 16 positions from `position` on, of halves: matrices of 8 x 8.
  __device__ __forceinline__ void stage_halves(const float* values, int position) const {
    const int row = position + lane % 8 + lane / 16 * 8, chunk = warp * 2 + lane / 8 % 2;
    std::uint32_t units[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Pack<T, 2> pair{{from_float<T>(values[2 * i]), from_float<T>(values[2 * i + 1])}};
      memcpy(&units[i], &pair, sizeof(pair));
    }
    ptx::store_matrices_transposed(out + row * kPipelineLineBytes + (chunk ^ row % 8) * 16, units);
  }

  /// For eight positions, of floats: no two lanes of a warp write to one bank.
  __device__ __forceinline__ void stage_floats(const float* values, int position) const {
    const std::uint32_t panel = out + warp / 2 * kPanelBytes;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = position + lane % 4 * 2 + i % 2, channel = warp % 2 * 16 + lane / 4 + i / 2 * 8;
      const std::uint32_t chunk = (channel / 4 ^ row % 8) * 16 + channel % 4 * 4;
      ptx::store_shared(panel + row * kPipelineLineBytes + chunk, __float_as_uint(values[i]));
    }
  }

  /// For kOnce positions from `position` on.
  __device__ __forceinline__ void stage(const float* values, int position) const {
    if constexpr (kFloats) {
      stage_floats(values, position);
    } else {
      stage_halves(values, position);
    }
  }

  __device__ __forceinline__ bool stores() const { return warp == 0 && lane == 0; }

  __device__ __forceinline__ void operator()(const PipelineTile& tile, const float (&sums)[kColumns / 2]) const {
    float bias[2], values[kColumns / 2];
    read_bias(tile, bias);
    if (stores()) ptx::bulk_wait_read();
    ptx::barrier<kTeam>(barrier());
    finish(bias, sums, values);
#pragma unroll
    for (int i = 0; i < kColumns; i += kOnce) stage(values + i / 2, i);
    write(tile);
  }

  /// The exchange's place for the thread's four sums of eight positions.
  __device__ __forceinline__ std::uint32_t exchanged(std::uint32_t exchange, int position) const {
    return exchange + ((position / kPlaces) * kTeam + warp * 32 + lane) * 16;
  }

  /// Puts the slice's sums where the cluster's blocks read them: in the rings' memory, which all warps have read.
  __device__ __forceinline__ void share(std::uint32_t exchange, const float (&sums)[kColumns / 2]) const {
#pragma unroll
    for (int i = 0; i < kColumns; i += kPlaces) ptx::store_shared_quad(exchanged(exchange, i), sums + i / 2);
  }

  /// Adds the slices' sums in order for the rows that this block, the cluster's `rank`, stores.
  __device__ __forceinline__ void add_slices(PipelineTile tile, std::uint32_t exchange, int rank) const {
    float bias[2];
    read_bias(tile, bias);
    const int positions = p.stored_rows() * kPipelineStrip;
#pragma unroll 1
    for (int i = 0; i < positions; i += kOnce) {
      float sums[kOnce / 2] = {};
#pragma unroll
      for (int slice = 0; slice < kMostPipelineSlices; ++slice) {
        if (slice == p.slices) break;
#pragma unroll
        for (int place = 0; place < kOnce; place += kPlaces) {
          float part[4];
          ptx::load_cluster_quad(part,
                                 ptx::address_in_cluster(exchanged(exchange, rank * positions + i + place), slice));
#pragma unroll
          for (int j = 0; j < 4; ++j) sums[place / 2 + j] += part[j];
        }
      }
      float values[kOnce / 2];
      finish(bias, sums, values);
      stage(values, i);
    }
    tile.at[2] += rank * p.stored_rows();
    write(tile);
  }

  __device__ __forceinline__ void write(const PipelineTile& tile) const {
    constexpr int kLine = kPipelineLineBytes / sizeof(T);
    ptx::fence_async_proxy();
    ptx::barrier<kTeam>(barrier());
    if (!stores()) return;
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      const int at[kTensorMapAxes] = {tile.result + panel * kLine, tile.at[3], tile.at[2], tile.at[1], tile.at[0]};
      if (at[0] < p.result.channels) ptx::tensor_store(&operands.result[tile.phase], at, out + panel * kPanelBytes);
    }
    ptx::bulk_commit();
  }
};

}  // namespace adjoint::cuda::pipeline
