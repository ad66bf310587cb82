// A tile's source rows as float32 in shared memory, zeros outside the source.
#pragma once

#include <adjoint/ops/conv/channelwise_plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace adjoint::cuda::channelwise {

/// Element [unit][channel][row][column] of a stage, rows and columns counted from the tile's source_row and
/// source_column, is at `shift` + unit * unit_pitch + channel * plane_pitch + row * pitch + column.
template <class T>
__device__ __forceinline__ int stage_shift(const ChannelwisePlan& p, const T* first) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(first) / sizeof(T) & static_cast<unsigned>(p.vector - 1));
}

/// Vector `to` of the stage from the source's aligned vector `from`, or zeros.
template <class T>
__device__ __forceinline__ void stage_vector(float* to, const T* from, bool inside, const T* anywhere) {
  if constexpr (std::is_same_v<T, float>) {
    ptx::cp_async_zfill<16>(ptx::shared_address(to), inside ? from : anywhere, inside);
  } else {
    uint4 bits = make_uint4(0, 0, 0, 0);
    if (inside) bits = __ldg(reinterpret_cast<const uint4*>(from));
    T values[8];
    memcpy(values, &bits, sizeof(bits));
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
      *reinterpret_cast<float4*>(to + i) =
          make_float4(to_float(values[i]), to_float(values[i + 1]), to_float(values[i + 2]), to_float(values[i + 3]));
    }
  }
}

/// By all threads of the block; complete after finish_stage() and __syncthreads(). `first`: the source's element at the
/// tile's source_row and source_column in its first plane, inside the source or not.
template <class T>
__device__ __forceinline__ void stage_tile(const ChannelwisePlan& p, const ChannelwiseTile& tile, const T* source,
                                           const T* first, float* stage) {
  constexpr int kVector = 16 / sizeof(T);
  const int shift = stage_shift(p, first);
  const int count = tile.units * p.stage_channels * p.stage_rows * p.row_vectors;
  const int row_stride = p.h.tap_spacing * p.w.source;
#pragma unroll 2
  for (int index = static_cast<int>(threadIdx.x); index < count; index += static_cast<int>(blockDim.x)) {
    const auto row_all = static_cast<int>(p.row_vectors_divider.divide(static_cast<unsigned>(index)));
    const auto plane = static_cast<int>(p.stage_rows_divider.divide(static_cast<unsigned>(row_all)));
    const auto unit = static_cast<int>(p.stage_channels_divider.divide(static_cast<unsigned>(plane)));
    const int channel = plane - unit * p.stage_channels, row = row_all - plane * p.stage_rows;
    const int begin = shift + unit * p.unit_pitch + channel * p.plane_pitch + row * p.pitch;
    const int at = (begin & ~(kVector - 1)) + (index - row_all * p.row_vectors) * kVector;
    if (at >= begin + p.stage_columns) continue;
    const int source_row = tile.source_row + row * p.h.tap_spacing;
    const int source_column = tile.source_column + (at - begin);
    const bool row_inside = source_row >= 0 && source_row < p.h.source;
    const T* from = first + unit * p.unit_stride + static_cast<std::int64_t>(channel) * p.h.source * p.w.source +
                    static_cast<std::int64_t>(row) * row_stride + (at - begin);
    const bool outside = !row_inside || source_column + kVector <= 0 || source_column >= p.w.source;
    if (outside || (source_column >= 0 && source_column + kVector <= p.w.source)) {
      stage_vector(stage + at, from, !outside, source);
    } else {
#pragma unroll 1
      for (int i = 0; i < kVector; ++i) {
        const bool inside = source_column + i >= 0 && source_column + i < p.w.source;
        if constexpr (std::is_same_v<T, float>) {
          ptx::cp_async_zfill<4>(ptx::shared_address(stage + at + i), inside ? from + i : source, inside);
        } else {
          stage[at + i] = inside ? to_float(from[i]) : 0.0F;
        }
      }
    }
  }
}

/// Waits for this thread's part.
__device__ __forceinline__ void finish_stage() {
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
}

}  // namespace adjoint::cuda::channelwise
