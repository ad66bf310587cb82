// Separates planes if rows of the parts are whole vectors of 16 bytes. The planes' rows, which may begin anywhere, are
// read by the aligned vectors that hold them; elements are put one by one into a tile in shared memory in the parts'
// order, filled up with zeros; and the tile is written in that order, by vectors.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/layouts/unshuffle.h>
#include <adjoint/ops/conv/layouts/cuda/unshuffle_tile.cuh>

#include <cstdint>

namespace adjoint::cuda::rearranged {

/// The columns' stride: 1, 2 or 4, with all residues kept; or 0 for any stride.
template <int kStride>
struct Stride {};

/// The unit of a move, for elements of any type.
using Words = Pack<std::uint32_t, 4>;

template <class T>
constexpr __device__ T element(const Words& vector, int index) {
  constexpr int kPerWord = 4 / sizeof(T);
  return static_cast<T>(vector.values[index / kPerWord] >> 32 / kPerWord * (index % kPerWord));
}

/// Puts a vector's elements, the first of which is the tile's column x, into a row of the parts. `kept`: a bit for each
/// wanted element. part: elements of a residue of columns in the tile. x may be negative, by less than a vector.
template <class T, int kStride>
__device__ __forceinline__ void put_apart(const Unshuffle& u, const Words& vector, int x, unsigned kept, int part,
                                          T* row) {
  constexpr int kVector = 16 / sizeof(T);
  if constexpr (kStride != 0) {
    // Every kStride-th element has the same residue; these have neighbouring places.
    const auto from = static_cast<unsigned>(x + kVector);  // kVector is a multiple of the stride
    const int column = static_cast<int>(from % kStride);
    T* to = row + (column * part + static_cast<int>(from / kStride) - kVector / kStride);
#pragma unroll
    for (int first = 0; first < kStride; ++first) {
#pragma unroll
      for (int i = first; i < kVector; i += kStride) {
        if ((kept >> i & 1) != 0) to[i / kStride] = element<T>(vector, i);
      }
      to += column + first + 1 == kStride ? 1 - (kStride - 1) * part : part;
    }
  } else {
    const auto stride = static_cast<int>(u.stride[1]), unkept = stride - static_cast<int>(u.residues[1]);
    int column = x + kVector * stride;
    const int block = u.columns.split(column) - kVector;
    T* to = row + (block + column * part);
    int next = stride - column;  // the element that begins the next block
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i == next) {
        to += 1 - stride * part;
        next += stride;
      }
      if ((kept >> i & 1) != 0 && i < next - unkept) *to = element<T>(vector, i);
      to += part;
    }
  }
}

/// The part of a tile that is in the planes. Rows and columns are counted from the tile's first ones.
struct TileRows {
  std::int64_t begin;        // offset of its first column inside the planes, in its first row
  std::int64_t begin_apart;  // offset of the tile in the parts
  std::int32_t begin_h, end_h, begin_w, end_w;
  std::int32_t residues;     // of rows
  std::int32_t vectors;      // vectors that hold the rows
  std::int32_t first, last;  // the vectors, counted from `begin`, that are wholly inside the planes
  std::uint32_t misaligned;  // elements from some multiple of 16 bytes to `begin`
};

template <class T>
__device__ __forceinline__ TileRows rows_of(const Unshuffle& u, const Tile& tile, const T* from) {
  constexpr std::int64_t kFar = std::int64_t{1} << 30;  // farther than a tile's rows are apart
  const auto between = [](std::int64_t low, std::int64_t value, std::int64_t high) {
    return static_cast<std::int32_t>(value < low ? low : value > high ? high : value);
  };
  const std::int64_t first_h = tile.h * u.stride[0] + tile.residue_h - u.padding[0];
  const std::int64_t first_w = tile.w * u.stride[1] - u.padding[1];
  const auto length = static_cast<int>(u.row.divisor());
  TileRows rows;
  rows.begin_h = between(0, -first_h, kFar);
  rows.end_h = between(0, u.extents[0] - first_h, kFar);
  rows.begin_w = between(0, -first_w, length);
  rows.end_w = between(0, u.extents[1] - first_w, length);
  rows.residues = between(0, u.residues[0] - tile.residue_h, u.tile_residues[0]);
  const int planes = between(0, u.planes - tile.plane, u.tile_planes);
  const auto row_vectors = static_cast<int>(u.plane_rows.divisor() * u.row_vectors.divisor());
  rows.vectors = rows.begin_w < rows.end_w ? planes * row_vectors : 0;
  rows.begin = (tile.plane * u.extents[0] + first_h) * u.extents[1] + first_w + rows.begin_w;
  rows.begin_apart = begin_apart(u, tile);
  rows.first = between(-kFar, -rows.begin, kFar);
  constexpr int kVector = 16 / sizeof(T);
  rows.last = between(-kFar, u.planes * u.extents[0] * u.extents[1] - kVector - rows.begin, kFar);
  rows.misaligned = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(from + rows.begin) / sizeof(T));
  return rows;
}

/// Brings the part of a tile that is in the planes into shared memory.
template <class T, int kStride, bool kPlanes>
__device__ __forceinline__ void bring_rows(const Unshuffle& u, const TileRows& rows, const T* __restrict__ from,
                                           T* tile_values) {
  constexpr int kVector = 16 / sizeof(T), kPerWord = 4 / sizeof(T);
  constexpr int kAtOnce = 2;  // vectors of a thread that are in flight
  const auto stride_h = static_cast<int>(u.stride[0]);
  const auto extent_h = static_cast<int>(u.extents[0]), extent_w = static_cast<int>(u.extents[1]);
  // Of the tile, in the parts.
  const auto blocks_w = static_cast<int>(u.tile_blocks[1]), part = static_cast<int>(u.blocks_h.divisor()) * blocks_w;
  const T* const planes = from + rows.begin;
  const int row_part = static_cast<int>(u.residues_w.divisor()) * part;
  for (int number = static_cast<int>(threadIdx.x); number < rows.vectors; number += kAtOnce * kThreads) {
    Words vectors[kAtOnce]{};
    int first[kAtOnce],
        places[kAtOnce];  // its first element's column in the tile; the row's place in the parts, or negative
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      int vector = number + i * kThreads, residue = u.row_vectors.split(vector), plane = 0;
      if constexpr (kPlanes) plane = u.plane_rows.split(residue);
      const int block = u.rows.split(residue), h = block * stride_h + residue;
      const int offset = (plane * extent_h + h) * extent_w;  // from `begin`, of the row
      const int ahead =
          vector * kVector - static_cast<int>((rows.misaligned + static_cast<unsigned>(offset)) % kVector);
      first[i] = rows.begin_w + ahead;
      places[i] = (plane * static_cast<int>(u.rows.divisor()) + residue) * row_part + block * blocks_w;
      if (number + i * kThreads >= rows.vectors || residue >= rows.residues || h < rows.begin_h || h >= rows.end_h ||
          first[i] >= rows.end_w) {
        places[i] = -1;
        continue;
      }
      const T* const source = planes + (offset + ahead);
      if (offset + ahead >= rows.first && offset + ahead <= rows.last) {
        vectors[i] = *reinterpret_cast<const Words*>(source);
      } else {
#pragma unroll
        for (int j = 0; j < kVector; ++j) {
          if (first[i] + j >= rows.begin_w && first[i] + j < rows.end_w)
            vectors[i].values[j / kPerWord] |= std::uint32_t{source[j]} << 32 / kPerWord * (j % kPerWord);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (places[i] < 0) continue;
      const int before = rows.begin_w - first[i], left = rows.end_w - first[i];
      const unsigned kept = (~0U << (before > 0 ? before : 0)) & ~(~0U << (left < kVector ? left : kVector));
      put_apart<T, kStride>(u, vectors[i], first[i], kept, part, tile_values + places[i]);
    }
  }
}

/// T: an unsigned integer of the elements' size. kStride: as Stride's. kPlanes: true if a tile is whole planes.
template <class T, int kStride, bool kPlanes>
__global__ void __launch_bounds__(kThreads, kStride == 0 ? 5 : 6)  // without spills
    unshuffle_vectors_kernel(const __grid_constant__ Unshuffle u, const T* __restrict__ from, T* __restrict__ to) {
  constexpr int kVector = 16 / sizeof(T);
  alignas(16) __shared__ T tile_values[kUnshuffleBytes / sizeof(T)];
  __shared__ TileRows tile_rows;  // computed by one thread: it costs as much as the rest of a thread's work
  auto* const vectors = reinterpret_cast<Words*>(tile_values);
  const auto block = static_cast<int>(blockIdx.x);
  const Tile tile = kPlanes ? Tile{.plane = block * u.tile_planes} : tile_of(u, block);
  const int thread = static_cast<int>(threadIdx.x);
  const auto plane_vectors = static_cast<int>(u.plane_rows.divisor() * u.residues_w.divisor() * u.vectors_w.divisor());
  const int count = kPlanes ? plane_vectors * static_cast<int>(u.tile_planes) : plane_vectors;
  for (int number = thread; number < count; number += kThreads) vectors[number] = Words{};
  if (thread == 0) tile_rows = rows_of(u, tile, from);
  __syncthreads();
  const TileRows rows = tile_rows;  // a copy, as writes to the tile do not change it
  bring_rows<T, kStride, kPlanes>(u, rows, from, tile_values);
  __syncthreads();
  T* const out = to + tile_rows.begin_apart;
  if constexpr (kPlanes) {
    const std::int64_t planes_left = u.planes - tile.plane;
    const int written = planes_left < u.tile_planes ? static_cast<int>(planes_left) * plane_vectors : count;
    for (int number = thread; number < written; number += kThreads)
      reinterpret_cast<Words*>(out)[number] = vectors[number];
  } else {
    for_apart<kVector>(u, tile, [&](int offset, int number, int) {
      if (offset >= 0) *reinterpret_cast<Words*>(out + offset) = vectors[number];
    });
  }
}

}  // namespace adjoint::cuda::rearranged
