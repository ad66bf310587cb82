// The inner loops of the weight gradient if a group has few channels, above all depthwise: each tap's sum is the dot
// product of rows of one image plane and one feature plane, with vectors along the rows. For files that are compiled
// for one instruction set: see ops/matmul/cpu/micro_kernel.h.
#pragma once

#include <adjoint/ops/conv/cpu/gather_tile.h>
#include <adjoint/ops/conv/cpu/kernels.h>

namespace adjoint::cpu {
namespace {

// Sums of products, in several chains because an addition takes several cycles.
template <class T>
struct DotSums {
  Vector<T> chains[4] = {};
  T rest = 0;

  void add(const T* a, const T* b, Index count) {
    constexpr Index n = kLanes<T>;
    Index i = 0;
    for (; i + 4 * n <= count; i += 4 * n) {
#pragma GCC unroll 4
      for (int chain = 0; chain < 4; ++chain) chains[chain] += load(a + i + chain * n) * load(b + i + chain * n);
    }
    for (; i + n <= count; i += n) chains[0] += load(a + i) * load(b + i);
#if defined(__AVX512F__)
    if (i < count) {
      const LaneMask mask = lane_mask<T>(0, count - i);
      chains[1] += static_cast<Vector<T>>(masked_load(a + i, mask)) * static_cast<Vector<T>>(masked_load(b + i, mask));
    }
#else
    for (; i < count; ++i) rest += a[i] * b[i];
#endif
  }

  T total() const {
    const Vector<T> sums = (chains[0] + chains[1]) + (chains[2] + chains[3]);
    T sum = rest;
    for (int i = 0; i < kLanes<T>; ++i) sum += sums[i];
    return sum;
  }
};

inline Index floor_div(Index a, Index b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// Image rows of a tile by residue of their columns modulo stride, so that a tap's columns are neighbours.
template <class T>
struct SplitRows {
  const T* data;
  Index row, residue, first_column;  // elements; data begins with quotient first_column of each residue

  const T* at(Index h, Index quotient, Index of_residue) const {
    return data + h * row + of_residue * residue + quotient - first_column;
  }
};

template <class T>
SplitRows<T> split_rows(const DotTile& tile, const T* image, T* scratch) {
  const Index stride = tile.stride.w, width = tile.image_extent.w;
  if (stride == 1) return {image, width, 0, 0};
  const Index first_h = maximum(0, tile.begin.h * tile.stride.h - tile.padding.h);
  const Index last_h = minimum(tile.image_extent.h, (tile.begin.h + tile.extent.h - 1) * tile.stride.h -
                                                        tile.padding.h + (tile.kernel.h - 1) * tile.dilation.h + 1);
  const Index first = maximum(0, floor_div(tile.begin.w * stride - tile.padding.w, stride));
  const Index last_column =
      (tile.begin.w + tile.extent.w - 1) * stride - tile.padding.w + (tile.kernel.w - 1) * tile.dilation.w;
  const Index last = minimum(ceil_div(width, stride), floor_div(last_column, stride) + 1);
  const Index quotients = maximum(0, last - first);
  T* to = scratch;
  for (Index h = first_h; h < last_h; ++h) {
    for (Index residue = 0; residue < stride; ++residue, to += quotients) {
      const Index present = minimum(quotients, ceil_div(width - residue, stride) - first);
      const T* from = image + h * width + first * stride + residue;
      if (present <= 0) continue;
      switch (stride) {
        case 2: copy_strided<2>(to, from, present, stride); break;
        case 3: copy_strided<3>(to, from, present, stride); break;
        case 4: copy_strided<4>(to, from, present, stride); break;
        default: copy_strided<0>(to, from, present, stride); break;
      }
    }
  }
  return {scratch - first_h * stride * quotients, stride * quotients, quotients, first};
}

template <class T>
void tap_dots(const DotTile& tile, const T* image, const T* feature, T* result, T* scratch) {
  const SplitRows<T> rows = split_rows(tile, image, scratch);
  for (Index kh = 0; kh < tile.kernel.h; ++kh) {
    const Index h0 = tile.begin.h * tile.stride.h - tile.padding.h + kh * tile.dilation.h;
    const Inside valid_h = inside(h0, tile.stride.h, tile.extent.h, tile.image_extent.h);
    for (Index kw = 0; kw < tile.kernel.w; ++kw) {
      const Index w0 = tile.begin.w * tile.stride.w - tile.padding.w + kw * tile.dilation.w;
      const Inside valid_w = inside(w0, tile.stride.w, tile.extent.w, tile.image_extent.w);
      if (valid_w.begin == valid_w.end) continue;
      const Index first = w0 + valid_w.begin * tile.stride.w;
      DotSums<T> sums;
      for (Index h = valid_h.begin; h < valid_h.end; ++h) {
        sums.add(rows.at(h0 + h * tile.stride.h, first / tile.stride.w, first % tile.stride.w),
                 feature + (tile.begin.h + h) * tile.feature_width + tile.begin.w + valid_w.begin,
                 valid_w.end - valid_w.begin);
      }
      result[kh * tile.kernel.w + kw] += sums.total();
    }
  }
}

}  // namespace
}  // namespace adjoint::cpu
