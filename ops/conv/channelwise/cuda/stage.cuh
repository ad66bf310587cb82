// A tile's source rows in shared memory, with zeros outside the source: as float32, or unconverted, to be widened
// later.
#pragma once

#include <adjoint/ops/conv/channelwise/plan.h>
#include <adjoint/ops/conv/base/cuda/stage_copy.cuh>

#include <cstdint>

namespace adjoint::cuda::channelwise {

/// Element [unit][channel][row][column] of a stage, with rows and columns counted from the tile's source_row and
/// source_column, is at `shift` + unit * unit_pitch + channel * plane_pitch + row * pitch + column.
template <class T>
__device__ __forceinline__ int stage_shift(const ChannelwisePlan& p, const T* first) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(first) / sizeof(T) & static_cast<unsigned>(p.vector - 1));
}

/// The stage's vector that begins at `column` of the source's row `row`, which is at `from`.
template <class T, class Staged>
__device__ __forceinline__ void stage_part(const ChannelwisePlan& p, Staged* to, const T* from, int row, int column,
                                           const T* anywhere) {
  constexpr int kVector = 16 / sizeof(T);
  const bool row_inside = static_cast<unsigned>(row) < static_cast<unsigned>(p.h.source);
  const bool whole = column >= 0 && column + kVector <= p.w.source;
  if (whole || !row_inside || column + kVector <= 0 || column >= p.w.source) {
    stage_vector(to, from, row_inside && whole, anywhere);
    return;
  }
#pragma unroll 1
  for (int i = 0; i < kVector; ++i) {
    const bool inside = column + i >= 0 && column + i < p.w.source;
    stage_element(to + i, from + i, inside, anywhere);
  }
}

/// One plane, whose rows are all aligned alike: a thread has the same columns in all of its rows. `begin`: the plane's
/// start in the stage.
template <class T, class Staged>
__device__ __forceinline__ void stage_plane(const ChannelwisePlan& p, const ChannelwiseTile& tile, const T* source,
                                            const T* first, Staged* stage, int begin, int first_row, int vector) {
  constexpr int kVector = 16 / sizeof(T);
  const int row_stride = p.h.tap_spacing * p.w.source;
  for (; vector < p.row_vectors; vector += p.vector_threads) {
    const int at = (begin & ~(kVector - 1)) + vector * kVector, past = at - begin;
    if (past >= p.stage_columns) return;
    const int column = tile.source_column + past;
    const bool whole = column >= 0 && column + kVector <= p.w.source;
    const bool mixed = !whole && column + kVector > 0 && column < p.w.source;
    Staged* to = stage + at + first_row * p.pitch;
    const T* from = first + (first_row * row_stride + past);
    int source_row = tile.source_row + first_row * p.h.tap_spacing;
    const auto next_row = [&] {
      to += p.row_threads * p.pitch;
      from += p.row_threads * row_stride;
      source_row += p.row_threads * p.h.tap_spacing;
    };
    if (mixed) {
#pragma unroll 1
      for (int row = first_row; row < p.stage_rows; row += p.row_threads, next_row()) {
        stage_part(p, to, from, source_row, column, source);
      }
    } else {
#pragma unroll 4
      for (int row = first_row; row < p.stage_rows; row += p.row_threads, next_row()) {
        stage_vector(to, from, whole && static_cast<unsigned>(source_row) < static_cast<unsigned>(p.h.source), source);
      }
    }
  }
}

/// Called by all threads of the block; complete after finish_stage() and __syncthreads(). `first`: the source's element
/// at the tile's source_row and source_column in its first plane, inside the source or not.
template <class T, class Staged>
__device__ __forceinline__ void stage_tile(const ChannelwisePlan& p, const ChannelwiseTile& tile, const T* source,
                                           const T* first, Staged* stage) {
  constexpr int kVector = 16 / sizeof(T);
  const auto first_row = static_cast<int>(p.vector_threads_divider.divide(threadIdx.x));
  const int first_vector = static_cast<int>(threadIdx.x) - first_row * p.vector_threads;
  if (first_row >= p.row_threads) return;
  const int shift = stage_shift(p, first), planes = tile.units * p.stage_channels;
  const auto find_plane = [&](int plane, int& begin) {
    const auto unit = static_cast<int>(p.stage_channels_divider.divide(static_cast<unsigned>(plane)));
    const int channel = plane - unit * p.stage_channels;
    begin = shift + unit * p.unit_pitch + channel * p.plane_pitch;
    return first + unit * p.unit_stride + static_cast<std::int64_t>(channel) * (p.h.source * p.w.source);
  };
  if (p.by_plane != 0) {
    for (int plane = 0; plane < planes; ++plane) {
      int begin;
      const T* plane_first = find_plane(plane, begin);
      stage_plane(p, tile, source, plane_first, stage, begin, first_row, first_vector);
    }
    return;
  }
  for (int index = first_row; index < planes * p.stage_rows; index += p.row_threads) {
    const auto plane = static_cast<int>(p.stage_rows_divider.divide(static_cast<unsigned>(index)));
    const int row = index - plane * p.stage_rows;
    int begin;
    const T* row_first = find_plane(plane, begin) + row * p.h.tap_spacing * p.w.source;
    begin += row * p.pitch;
    for (int vector = first_vector; vector < p.row_vectors; vector += p.vector_threads) {
      const int at = (begin & ~(kVector - 1)) + vector * kVector, past = at - begin;
      if (past >= p.stage_columns) break;
      stage_part(p, stage + at, row_first + past, tile.source_row + row * p.h.tap_spacing, tile.source_column + past,
                 source);
    }
  }
}

/// Called by all threads of the block: converts a stage of halves to float32.
template <class T>
__device__ __forceinline__ void widen_stage(const ChannelwisePlan& p, const T* halves, float* floats) {
  for (int i = 8 * static_cast<int>(threadIdx.x); i < p.stage_floats; i += 8 * static_cast<int>(blockDim.x)) {
    store_widened<T>(floats + i, *reinterpret_cast<const uint4*>(halves + i));
  }
}

/// Waits for this thread's copies.
__device__ __forceinline__ void finish_stage() {
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
}

}  // namespace adjoint::cuda::channelwise
