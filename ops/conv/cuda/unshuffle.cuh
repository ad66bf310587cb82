// Takes planes apart by position modulo stride, and puts them together again. Both sides are read and written along
// their rows, through a tile in shared memory.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/divider.h>
#include <adjoint/ops/conv/rearranged_plan.h>

#include <cstdint>

namespace adjoint::cuda::rearranged {

inline constexpr int kThreads = kUnshuffleThreads;

/// Where a tile's element is, so that elements a power of two apart are in different banks.
constexpr __device__ int skewed(int place) { return place + place / 32; }

/// Where a tile begins.
struct Tile {
  std::int64_t plane, residue_h, residue_w, h, w;
};

template <bool kPlanes>
__device__ __forceinline__ Tile tile_of(const Unshuffle& u, int number) {
  int w = number, h = u.block_tiles[1].split(w), column = u.block_tiles[0].split(h);
  int row = u.residue_tiles[1].split(column);
  const int plane = u.residue_tiles[0].split(row);
  return {kPlanes ? plane * u.tile_planes : plane, row * u.tile_residues[0], column * u.tile_residues[1],
          h * u.tile_blocks[0], w * u.tile_blocks[1]};
}

/// Calls visit(where, place) for every element of the tile as planes have it: where it is in them, negative where they
/// have none there, and its place in the tile, [plane][block of rows][residue][column]. Some lanes, or all, share a
/// row.
template <bool kPlanes, class Visit>
__device__ __forceinline__ void for_planes(const Unshuffle& u, const Tile& tile, const Visit& visit) {
  const int plane_rows = static_cast<int>(u.plane_rows.divisor()), length = static_cast<int>(u.row.divisor());
  const int rows = kPlanes ? static_cast<int>(u.tile_planes) * plane_rows : plane_rows;
  const int lanes = 1 << u.log2_lanes, thread = static_cast<int>(threadIdx.x);
  const auto first_w = static_cast<int>(tile.w * u.stride[1] + tile.residue_w - u.padding[1]);
  const auto width = static_cast<int>(u.extents[1]);
  for (int row = thread >> u.log2_lanes; row < rows; row += kThreads >> u.log2_lanes) {
    int residue = row;
    std::int64_t plane = tile.plane;
    if constexpr (kPlanes) plane += u.plane_rows.split(residue);
    const int block = u.rows.split(residue);
    const std::int64_t h = (tile.h + block) * u.stride[0] + tile.residue_h + residue - u.padding[0];
    // Past the last residue are rows of other tiles.
    const bool inside =
        (!kPlanes || plane < u.planes) && tile.residue_h + residue < u.residues[0] && h >= 0 && h < u.extents[0];
    const std::int64_t begin = (plane * u.extents[0] + h) * width;
#pragma unroll 8
    for (int x = thread & (lanes - 1); x < length; x += lanes) {
      const int w = first_w + x;
      visit(inside && w >= 0 && w < width ? begin + w : -1, row * length + x);
    }
  }
}

/// Calls visit(where, place) for the tile as it is apart, [plane][residue of rows][of columns][block of rows][of
/// columns], for the first of kVector neighbours of every kVector of them. Their places are a stride apart.
template <bool kPlanes, int kVector, class Visit>
__device__ __forceinline__ void for_apart(const Unshuffle& u, const Tile& tile, const Visit& visit) {
  const int rows = static_cast<int>(u.rows.divisor()), length = static_cast<int>(u.row.divisor());
  const auto columns = static_cast<int>(u.residues[1]), stride = static_cast<int>(u.stride[1]);
  const auto blocks_h = static_cast<int>(u.blocks[0]), blocks_w = static_cast<int>(u.blocks[1]);
  // What is left of the planes' parts from the tile's beginning on.
  const auto rows_left = static_cast<int>(u.residues[0] - tile.residue_h);
  const auto columns_left = static_cast<int>(u.residues[1] - tile.residue_w);
  const auto height = static_cast<int>(u.blocks[0] - tile.h), width = static_cast<int>(u.blocks[1] - tile.w);
  const std::int64_t part = (tile.plane * u.residues[0] + tile.residue_h) * columns + tile.residue_w;
  const std::int64_t begin = (part * blocks_h + tile.h) * blocks_w + tile.w;
  int count = rows * static_cast<int>(u.residues_w.divisor() * u.blocks_h.divisor() * u.vectors_w.divisor());
  if constexpr (kPlanes) count *= static_cast<int>(u.tile_planes);
#pragma unroll 4
  for (int number = static_cast<int>(threadIdx.x); number < count; number += kThreads) {
    int w = number, h = u.vectors_w.split(w), column = u.blocks_h.split(h);
    int row = u.residues_w.split(column);
    w *= kVector;
    bool inside = column < columns_left && h < height && w < width;
    std::int64_t where = begin;
    int place = w * stride + column;
    if constexpr (kPlanes) {
      const int plane = u.rows.split(row);
      inside = inside && tile.plane + plane < u.planes;
      where += plane * (u.residues[0] * columns * blocks_h * blocks_w);
      place += plane * static_cast<int>(u.plane_rows.divisor()) * length;
    }
    where += ((row * columns + column) * blocks_h + h) * blocks_w + w;
    visit(inside && row < rows_left ? where : -1, place + (h * rows + row) * length);
  }
}

/// T: an unsigned integer of the elements' size. kBack: from what is apart to planes. kVector: elements that are read
/// or written at once where they are apart. kPlanes: whether a block moves several planes.
template <class T, bool kBack, int kVector, bool kPlanes>
__global__ void __launch_bounds__(kThreads)
    unshuffle_kernel(const __grid_constant__ Unshuffle u, const T* __restrict__ from, T* __restrict__ to) {
  __shared__ T tile_values[kUnshuffleTile + kUnshuffleTile / 32];
  using Vector = Pack<T, kVector>;
  const Tile tile = tile_of<kPlanes>(u, static_cast<int>(blockIdx.x));
  const auto stride = static_cast<int>(u.stride[1]);
  if constexpr (kBack) {
    for_apart<kPlanes, kVector>(u, tile, [&](std::int64_t where, int place) {
      const Vector vector = where >= 0 ? *reinterpret_cast<const Vector*>(from + where) : Vector{};
#pragma unroll
      for (int i = 0; i < kVector; ++i) tile_values[skewed(place + i * stride)] = vector.values[i];
    });
    __syncthreads();
    for_planes<kPlanes>(u, tile, [&](std::int64_t where, int place) {
      if (where >= 0) to[where] = tile_values[skewed(place)];
    });
  } else {
    for_planes<kPlanes>(u, tile, [&](std::int64_t where, int place) {
      tile_values[skewed(place)] = where >= 0 ? from[where] : T{0};
    });
    __syncthreads();
    for_apart<kPlanes, kVector>(u, tile, [&](std::int64_t where, int place) {
      Vector vector;
#pragma unroll
      for (int i = 0; i < kVector; ++i) vector.values[i] = tile_values[skewed(place + i * stride)];
      if (where >= 0) *reinterpret_cast<Vector*>(to + where) = vector;
    });
  }
}

/// The kernel that moves an operand so.
template <class T, bool kBack>
auto unshuffle_kernel_of(const Unshuffle& how) {
  constexpr int kVector = 16 / sizeof(T);
  if (how.vector == 1) return unshuffle_kernel<T, kBack, 1, false>;
  if constexpr (!kBack) {
    if (how.tile_planes > 1) return unshuffle_kernel<T, kBack, kVector, true>;
  }
  return unshuffle_kernel<T, kBack, kVector, false>;
}

/// Each of `count` elements of `from`, `times` times.
template <class T>
__global__ void __launch_bounds__(kThreads) repeat_kernel(const T* from, T* to, int count, Divider times) {
  const int index = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (index < count * static_cast<int>(times.divisor()))
    to[index] = from[times.divide(static_cast<std::uint32_t>(index))];
}

}  // namespace adjoint::cuda::rearranged
