// The arguments of the inner kernels of matrix products, and the table of kernels that each instruction set fills. All
// of it is plain data: code for any x86-64 creates it, and objects that are compiled for one instruction set only read
// it. Internal to the CPU's matrix products and to the convolutions built on them.
#pragma once

#include <cstdint>
#include <type_traits>

namespace adjoint::cpu {

/// One matrix product per group: (rows, positions) = (rows, inner) * (inner, positions).
struct ProductShape {
  std::int64_t groups;
  std::int64_t positions, inner, rows;
  std::int64_t blocks;  // of rows: block i begins at row i * rows / blocks
};

/// One task's share of a product.
struct ProductTile {
  std::int64_t group;
  std::int64_t begin, end;               // positions; at most kTilePositions
  std::int64_t first_block, last_block;  // blocks of rows; at most kTileRows rows
};

/// Bounds of a tile: its panels and its sums stay in a core's second-level cache. kTilePositions is a multiple of every
/// panel's size.
inline constexpr std::int64_t kTilePositions = 192;
inline constexpr std::int64_t kTileRows = 256;
/// Inner rows that are put into panels and multiplied at a time: a packed block, kTileInner long, stays in the
/// first-level cache.
inline constexpr std::int64_t kTileInner = 256;
/// Elements of scratch memory that a tile needs.
inline constexpr std::int64_t kTileScratch = kTilePositions * (kTileInner + kTileRows);

/// result[lane][v] += sum over n, d, h, w of vectors[n, d, h, w][v] * scalars[lane][n, d, h, w].
struct OuterProduct {
  std::int64_t extent[4];       // n, d, h, w
  std::int64_t vector_step[4];  // elements
  std::int64_t scalar_step[4];
  std::int64_t lane_step;
};

/// Vectors of an outer product with a single lane: more than a panel's, or its sums would wait for each other.
inline constexpr std::int64_t kMostLoneVectors = 8;

template <class T>
struct ProductKernels {
  std::int64_t lanes;          // elements of a vector
  std::int64_t panel;          // positions that are multiplied at a time
  std::int64_t block;          // rows, or lanes of an outer product, that are multiplied at a time
  std::int64_t panel_vectors;  // vectors of a panel, or of an outer product

  /// Computes one tile. `right` (groups, inner, positions) and `out` (groups, rows, positions) are whole; `packed` is
  /// the group's blocks, each (inner, rows of the block); `scratch` holds kTileScratch elements, 64-byte aligned.
  void (*matrix_tile)(const ProductShape& shape, const ProductTile& tile, const T* right, const T* packed, T* out,
                      T* scratch);
  /// to[position][channel] = from[channel][position]; channels from `channels` to `pitch` are set to zero.
  void (*transpose)(std::int64_t channels, std::int64_t positions, const T* from, std::int64_t channel_step, T* to,
                    std::int64_t pitch);
  /// result: (lanes, vectors), lanes `pitch` elements apart.
  void (*outer_product)(const OuterProduct& product, int vectors, int lanes, const T* vector_operand,
                        const T* scalar_operand, T* result, std::int64_t pitch);
};

/// The kernels of one instruction set.
template <template <class> class Kernels>
struct KernelTable {
  Kernels<float> float32;
  Kernels<double> float64;

  template <class T>
  const Kernels<T>& of() const {
    if constexpr (std::is_same_v<T, float>) {
      return float32;
    } else {
      static_assert(std::is_same_v<T, double>);
      return float64;
    }
  }
};

namespace baseline {
extern const KernelTable<ProductKernels> product_table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const KernelTable<ProductKernels> product_table;
}
namespace avx512 {
extern const KernelTable<ProductKernels> product_table;
}
#else
namespace avx2 = baseline;
namespace avx512 = baseline;
#endif

}  // namespace adjoint::cpu
