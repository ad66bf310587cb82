// One tile of a matrix product: inputs in panels, multiplied by packed blocks of the other operand. The caller fills
// the panels: with rows of a matrix here, with a convolution's taps in ops/conv/cpu. For files that are compiled for
// one instruction set: see micro_kernel.h.
#pragma once

#include <adjoint/ops/matmul/cpu/kernels.h>
#include <adjoint/ops/matmul/cpu/micro_kernel.h>

namespace adjoint::cpu {
namespace {

// The part of a row of positions that exists; the rest of a panel is zero.
struct Inside {
  Index begin = 0, end = 0;
};

template <Index bytes>
inline void move_bytes(char*& to, const char*& from) {
  __builtin_memcpy(to, from, bytes);
  to += bytes;
  from += bytes;
}

// Copies short and odd lengths in ever smaller moves, without a call.
template <class T>
inline void copy_elements(T* to, const T* from, Index count) {
  const Index bytes = count * static_cast<Index>(sizeof(T));
  char* target = reinterpret_cast<char*>(to);
  const char* source = reinterpret_cast<const char*>(from);
  for (Index i = kVectorBytes; i <= bytes; i += kVectorBytes) move_bytes<kVectorBytes>(target, source);
  if constexpr (kVectorBytes > 32) {
    if (bytes & 32) move_bytes<32>(target, source);
  }
  if constexpr (kVectorBytes > 16) {
    if (bytes & 16) move_bytes<16>(target, source);
  }
  if (bytes & 8) move_bytes<8>(target, source);
  if (bytes & 4) move_bytes<4>(target, source);
}

template <class T>
inline void zero_elements(T* to, Index count) {
  for (Index i = 0; i < count; ++i) to[i] = T{};
}

// A row of `length` with zeros for positions that do not exist. `from` is the address of its first position, existing
// or not.
template <class T>
inline void copy_row(const T* from, Inside valid, Index length, T* to) {
  if (valid.begin > 0) zero_elements(to, valid.begin);
  copy_elements(to + valid.begin, from + valid.begin, valid.end - valid.begin);
  if (valid.end < length) zero_elements(to + valid.end, length - valid.end);
}

#if defined(__AVX512F__)
// copy_rows in at most kPanelVectors masked moves a row: lanes that are not loaded are zero.
template <int vectors, class T>
void copy_rows_masked(Index rows, const T* from, Index step, Inside valid, Index length, T* to, Index pitch) {
  LaneMask loaded[vectors], stored[vectors];
  for (int v = 0; v < vectors; ++v) {
    loaded[v] = lane_mask<T>(valid.begin - v * kLanes<T>, valid.end - v * kLanes<T>);
    stored[v] = lane_mask<T>(0, length - v * kLanes<T>);
  }
  for (Index row = 0; row < rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      masked_store(to + v * kLanes<T>, stored[v], masked_load(from + v * kLanes<T>, loaded[v]));
    }
    from += step;
    to += pitch;
  }
}
#endif

#if !defined(__AVX512F__)
// `count` elements of each row, whose number the compiler knows.
template <Index count, class T>
inline void copy_short_rows(Index rows, const T* from, Index step, T* to, Index pitch) {
  for (Index row = 0; row < rows; ++row) __builtin_memcpy(to + row * pitch, from + row * step, count * sizeof(T));
}

// copy_rows for short rows, as small images have: one decision for all rows, whose copies need no loop of their own.
template <class T>
void copy_rows_of_at_most_8(Index rows, const T* from, Index step, Inside valid, Index length, T* to, Index pitch) {
  for (Index i = 0; i < length; ++i) {
    if (i >= valid.begin && i < valid.end) continue;
    for (Index row = 0; row < rows; ++row) to[row * pitch + i] = T{};
  }
  from += valid.begin;
  to += valid.begin;
  switch (valid.end - valid.begin) {
    case 1: return copy_short_rows<1>(rows, from, step, to, pitch);
    case 2: return copy_short_rows<2>(rows, from, step, to, pitch);
    case 3: return copy_short_rows<3>(rows, from, step, to, pitch);
    case 4: return copy_short_rows<4>(rows, from, step, to, pitch);
    case 5: return copy_short_rows<5>(rows, from, step, to, pitch);
    case 6: return copy_short_rows<6>(rows, from, step, to, pitch);
    case 7: return copy_short_rows<7>(rows, from, step, to, pitch);
    case 8: return copy_short_rows<8>(rows, from, step, to, pitch);
    default: return;
  }
}
#endif

// Rows of a panel, `pitch` apart, from rows `step` apart.
template <class T>
void copy_rows(Index rows, const T* from, Index step, Inside valid, Index length, T* to, Index pitch) {
#if defined(__AVX512F__)
  if (length <= kLanes<T>) return copy_rows_masked<1>(rows, from, step, valid, length, to, pitch);
  if (length <= 2 * kLanes<T>) return copy_rows_masked<2>(rows, from, step, valid, length, to, pitch);
  copy_rows_masked<3>(rows, from, step, valid, length, to, pitch);
#else
  if (length <= 8) return copy_rows_of_at_most_8(rows, from, step, valid, length, to, pitch);
  for (Index row = 0; row < rows; ++row) copy_row(from + row * step, valid, length, to + row * pitch);
#endif
}

template <class T>
struct Panels {
  T* data;
  Index inner;  // rows gathered
  Index count, last_width;

  Index width(Index panel) const { return panel + 1 < count ? kPanel<T> : last_width; }
  T* panel(Index index) const { return data + index * kPanel<T> * inner; }
};

// Fills the last panel's extra positions: they are multiplied too, so they must be defined.
template <class T>
void zero_tail(const Panels<T>& panels, Index positions) {
  const Index used = positions - (panels.count - 1) * kPanel<T>;
  for (Index row = 0; row < panels.inner; ++row) {
    zero_elements(panels.panel(panels.count - 1) + row * panels.last_width + used, panels.last_width - used);
  }
}

template <class T>
void multiply(const ProductShape& shape, const ProductTile& tile, const Panels<T>& panels, const T* packed_group,
              Index first, T* sums) {
  const Index first_row = tile.first_block * shape.rows / shape.blocks;
  for (Index block = tile.first_block; block < tile.last_block; ++block) {
    const Index row = block * shape.rows / shape.blocks, rows = (block + 1) * shape.rows / shape.blocks - row;
    const T* packed = packed_group + row * shape.inner + first * rows;
    T* to = sums + (row - first_row) * kTilePositions;
    for (Index panel = 0; panel < panels.count; ++panel) {
      const int vectors = static_cast<int>(panels.width(panel) / kLanes<T>);
      panel_multiplier<T>(vectors, static_cast<int>(rows))(panels.inner, panels.panel(panel), packed,
                                                           to + panel * kPanel<T>, kTilePositions, first > 0);
    }
  }
}

// The tile's sums, in `scratch`: rows of kTilePositions. `fill(first, panels)` puts the inner rows from `first` on into
// the panels.
template <class T, class Fill>
const T* product_tile(const ProductShape& shape, const ProductTile& tile, const T* packed, T* scratch, Fill&& fill) {
  const Index positions = tile.end - tile.begin;
  T* sums = scratch + kTilePositions * kTileInner;
  Panels<T> panels{scratch, 0, ceil_div(positions, kPanel<T>), 0};
  panels.last_width = ceil_div(positions - (panels.count - 1) * kPanel<T>, kLanes<T>) * kLanes<T>;
  Index first = 0;
  do {  // runs once even for an empty sum, which is zero
    panels.inner = minimum(kTileInner, shape.inner - first);
    fill(first, panels);
    zero_tail(panels, positions);
    multiply(shape, tile, panels, packed, first, sums);
    first += kTileInner;
  } while (first < shape.inner);
  return sums;
}

template <class T>
void matrix_tile(const ProductShape& shape, const ProductTile& tile, const T* right, const T* packed, T* out,
                 T* scratch) {
  const Index pitch = shape.positions, count = tile.end - tile.begin;
  const T* const from = right + tile.group * shape.inner * pitch + tile.begin;
  const T* sums = product_tile<T>(shape, tile, packed, scratch, [&](Index first, const Panels<T>& panels) {
    for (Index panel = 0; panel < panels.count; ++panel) {
      const Index at = panel * kPanel<T>, length = minimum(kPanel<T>, count - at);
      copy_rows(panels.inner, from + first * pitch + at, pitch, {0, length}, length, panels.panel(panel),
                panels.width(panel));
    }
  });
  const Index first_row = tile.first_block * shape.rows / shape.blocks,
              last_row = tile.last_block * shape.rows / shape.blocks;
  T* to = out + (tile.group * shape.rows + first_row) * pitch + tile.begin;
  for (Index row = first_row; row < last_row; ++row, sums += kTilePositions, to += pitch) {
    for (Index i = 0; i < count; ++i) to[i] = sums[i] + T{};  // turns -0 into +0
  }
}

}  // namespace
}  // namespace adjoint::cpu
