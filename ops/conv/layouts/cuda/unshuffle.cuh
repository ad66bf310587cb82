// Takes planes apart by position modulo stride, and puts them together again. Both sides are read and written along
// their rows, through a tile in shared memory; this version accesses the planes one element at a time.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/layouts/unshuffle.h>
#include <adjoint/ops/conv/layouts/cuda/unshuffle_tile.cuh>
#include <adjoint/ops/conv/layouts/cuda/unshuffle_vectors.cuh>

#include <cstdint>

namespace adjoint::cuda::rearranged {

/// The place of a tile's element, skewed so that elements a power of two apart are in different banks.
constexpr __device__ int skewed(int place) { return place + place / 32; }

/// Calls visit(where, place) for every element of the tile in the planes' order: its offset in the planes, negative if
/// they have no such element, and its place in the tile, [block of rows][residue][column]. Some lanes, or all, share a
/// row.
template <class Visit>
__device__ __forceinline__ void for_planes(const Unshuffle& u, const Tile& tile, const Visit& visit) {
  const int rows = static_cast<int>(u.plane_rows.divisor()), length = static_cast<int>(u.row.divisor());
  const int lanes = 1 << u.log2_lanes, thread = static_cast<int>(threadIdx.x);
  const auto first_w = static_cast<int>(tile.w * u.stride[1] + tile.residue_w - u.padding[1]);
  const auto width = static_cast<int>(u.extents[1]);
  for (int row = thread >> u.log2_lanes; row < rows; row += kThreads >> u.log2_lanes) {
    int residue = row;
    const int block = u.rows.split(residue);
    const std::int64_t h = (tile.h + block) * u.stride[0] + tile.residue_h + residue - u.padding[0];
    // Rows past the last residue belong to other tiles.
    const bool inside = tile.residue_h + residue < u.residues[0] && h >= 0 && h < u.extents[0];
    const std::int64_t begin = (tile.plane * u.extents[0] + h) * width;
#pragma unroll 8
    for (int x = thread & (lanes - 1); x < length; x += lanes) {
      const int w = first_w + x;
      visit(inside && w >= 0 && w < width ? begin + w : -1, row * length + x);
    }
  }
}

/// T: an unsigned integer of the elements' size. kBack: from the parts to planes. kVector: elements of one access to
/// the parts.
template <class T, bool kBack, int kVector>
__global__ void __launch_bounds__(kThreads)
    unshuffle_kernel(const __grid_constant__ Unshuffle u, const T* __restrict__ from, T* __restrict__ to) {
  __shared__ T tile_values[kUnshuffleTile + kUnshuffleTile / 32];
  using Vector = Pack<T, kVector>;
  const Tile tile = tile_of(u, static_cast<int>(blockIdx.x));
  const auto stride = static_cast<int>(u.stride[1]);
  if constexpr (kBack) {
    from += begin_apart(u, tile);
    for_apart<kVector>(u, tile, [&](int offset, int, int place) {
      const Vector vector = offset >= 0 ? *reinterpret_cast<const Vector*>(from + offset) : Vector{};
#pragma unroll
      for (int i = 0; i < kVector; ++i) tile_values[skewed(place + i * stride)] = vector.values[i];
    });
    __syncthreads();
    for_planes(u, tile, [&](std::int64_t where, int place) {
      if (where >= 0) to[where] = tile_values[skewed(place)];
    });
  } else {
    static_assert(kVector == 1, "vectors are unshuffle_vectors_kernel's");
    for_planes(u, tile,
               [&](std::int64_t where, int place) { tile_values[skewed(place)] = where >= 0 ? from[where] : T{0}; });
    __syncthreads();
    to += begin_apart(u, tile);
    for_apart<1>(u, tile, [&](int offset, int, int place) {
      if (offset >= 0) to[offset] = tile_values[skewed(place)];
    });
  }
}

template <class T>
using UnshuffleKernel = void (*)(Unshuffle, const T*, T*);

/// The kernel that rearranges an operand.
template <class T, bool kBack>
UnshuffleKernel<T> unshuffle_kernel_of(const Unshuffle& how) {
  if constexpr (kBack) {
    return how.vector == 1 ? unshuffle_kernel<T, true, 1> : unshuffle_kernel<T, true, 16 / sizeof(T)>;
  } else {
    if (how.vector == 1) return unshuffle_kernel<T, false, 1>;
    const bool all_columns = how.residues[1] == how.stride[1];
    const auto of_planes = [&]<int kStride>(Stride<kStride>) -> UnshuffleKernel<T> {
      if (how.has_whole_planes()) return unshuffle_vectors_kernel<T, kStride, true>;
      return unshuffle_vectors_kernel<T, kStride, false>;
    };
    if (all_columns && how.stride[1] == 1) return of_planes(Stride<1>{});
    if (all_columns && how.stride[1] == 2) return of_planes(Stride<2>{});
    if (all_columns && how.stride[1] == 4) return of_planes(Stride<4>{});
    return of_planes(Stride<0>{});
  }
}

/// Writes each of `count` elements of `from` `times` times.
template <class T>
__global__ void __launch_bounds__(kThreads) repeat_kernel(const T* from, T* to, int count, Divider times) {
  const int index = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (index < count * static_cast<int>(times.divisor()))
    to[index] = from[times.divide(static_cast<std::uint32_t>(index))];
}

}  // namespace adjoint::cuda::rearranged
