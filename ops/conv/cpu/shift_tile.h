// One tile of conv or conv_transpose for a narrow product: one zero-padded copy of the tile's inputs serves every tap,
// as a shift. For files that are compiled for one instruction set: see ops/matmul/cpu/micro_kernel.h.
#pragma once

#include <adjoint/ops/conv/cpu/gather_tile.h>

namespace adjoint::cpu {
namespace {

struct Slab {
  Index planes, rows, pitch;  // of a residue
  Index channel;              // elements
};

inline Slab slab_of(const ShiftPlan& shifts, const ShiftTile& tile) {
  const Index planes = tile.extent.d + shifts.shift_extent.d, rows = tile.extent.h + shifts.shift_extent.h;
  const Index pitch = tile.extent.w + shifts.shift_extent.w;
  return {planes, rows, pitch, shifts.residues * planes * rows * pitch};
}

// A row of one residue, of one channel.
template <class T>
void fill_row(const GatherPlan& plan, const T* volume, Place place, Index length, T* to) {
  const auto [d, h, w] = place;
  const bool row_exists = d >= 0 && d < plan.in_extent.d && h >= 0 && h < plan.in_extent.h;
  const Inside valid = row_exists ? inside(w, plan.in_step.w, length, plan.in_extent.w) : Inside{};
  const T* from = row_exists ? volume + (d * plan.in_extent.h + h) * plan.in_extent.w + w : volume;
  switch (plan.in_step.w) {
    case 1: return copy_row<1>(from, 1, valid, length, to);
    case 2: return copy_row<2>(from, 2, valid, length, to);
    case 3: return copy_row<3>(from, 3, valid, length, to);
    default: return copy_row<0>(from, plan.in_step.w, valid, length, to);
  }
}

template <class T>
void fill_slab(const GatherPlan& plan, const ShiftPlan& shifts, const ShiftTile& tile, const Slab& slab, const T* in,
               T* to) {
  const Index volume = plan.in_extent.volume();
  const Index d0 = plan.grid_begin.d + tile.begin.d + shifts.shift_begin.d;
  const Index h0 = plan.grid_begin.h + tile.begin.h + shifts.shift_begin.h;
  const Index w0 = plan.grid_begin.w + tile.begin.w + shifts.shift_begin.w;
  for (Index c = 0; c < plan.in_channels; ++c) {
    const T* from = in + ((tile.n * plan.groups + tile.group) * plan.in_channels + c) * volume;
    for (Index residue = 0; residue < shifts.residues; ++residue) {
      T* target = to + c * slab.channel + residue * slab.planes * slab.rows * slab.pitch;
      if (!shifts.residue_used[residue]) continue;
      const Index residue_d = residue / (plan.in_step.h * plan.in_step.w);
      const Index residue_h = residue / plan.in_step.w % plan.in_step.h, residue_w = residue % plan.in_step.w;
      for (Index depth = 0; depth < slab.planes; ++depth) {
        for (Index row = 0; row < slab.rows; ++row, target += slab.pitch) {
          fill_row(plan, from,
                   {(d0 + depth) * plan.in_step.d + residue_d, (h0 + row) * plan.in_step.h + residue_h,
                    w0 * plan.in_step.w + residue_w},
                   slab.pitch, target);
        }
      }
    }
  }
}

// A sum over some of a plan's taps.
struct ShiftedTaps {
  Index channels, channel_step;  // elements of a slab
  Index first, count, all;
  const Index* offsets;  // (count)
};

// c (rows, vectors * lanes; rows `pitch` apart) = the sum over channels and taps of a[channel][offset of tap] *
// b[channel][tap], added to c after the first taps.
template <class T, int vectors, int rows>
void multiply_shifted(const ShiftedTaps& taps, const T* __restrict a, const T* __restrict b, T* __restrict c,
                      Index pitch) {
  Vector<T> sums[rows][vectors] = {};
  b += taps.first * rows;
  for (Index channel = 0; channel < taps.channels; ++channel) {
    for (Index tap = 0; tap < taps.count; ++tap) {
      const T* from = a + taps.offsets[tap];
      Vector<T> left[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) left[v] = load(from + v * kLanes<T>);
#pragma GCC unroll 8
      for (int j = 0; j < rows; ++j) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[j][v] += left[v] * b[j];
      }
      b += rows;
    }
    b += (taps.all - taps.count) * rows;
    a += taps.channel_step;
  }
#pragma GCC unroll 8
  for (int j = 0; j < rows; ++j) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      T* const to = c + j * pitch + v * kLanes<T>;
      store(to, taps.first > 0 ? load(to) + sums[j][v] : sums[j][v]);
    }
  }
}

template <class T, int rows>
void multiply_shifted_rows(int wanted, const ShiftedTaps& taps, const T* a, const T* b, T* c, Index pitch) {
  if constexpr (rows > 1) {
    if (wanted < rows) return multiply_shifted_rows<T, rows - 1>(wanted, taps, a, b, c, pitch);
  }
  multiply_shifted<T, kPanelVectors, rows>(taps, a, b, c, pitch);
}

template <class T>
void shift_tile(const GatherPlan& plan, const ShiftPlan& shifts, const ShiftTile& tile, const T* in, const T* filter,
                const T* bias, T* out, T* scratch) {
  const Slab slab = slab_of(shifts, tile);
  fill_slab(plan, shifts, tile, slab, in, scratch);
  const Index length = ((tile.extent.d - 1) * slab.rows + tile.extent.h - 1) * slab.pitch + tile.extent.w;
  const Index panels = ceil_div(length, kPanel<T>), pitch = panels * kPanel<T>;
  T* sums = scratch + plan.in_channels * slab.channel + kShiftPadding;
  Index offsets[kShiftTaps];
  for (Index first = 0; first < plan.taps; first += kShiftTaps) {
    const Index count = minimum(kShiftTaps, plan.taps - first);
    const ShiftedTaps taps{plan.in_channels, slab.channel, first, count, plan.taps, offsets};
    for (Index t = 0; t < count; ++t) {
      const ShiftPlan::Tap& tap = shifts.taps[first + t];
      offsets[t] = ((tap.residue * slab.planes + tap.shift.d) * slab.rows + tap.shift.h) * slab.pitch + tap.shift.w;
    }
    for (Index panel = 0; panel < panels; ++panel) {
      for (Index block = 0; block < plan.blocks; ++block) {
        const Index row = block * plan.rows / plan.blocks, rows = (block + 1) * plan.rows / plan.blocks - row;
        multiply_shifted_rows<T, kMaxBlock>(static_cast<int>(rows), taps, scratch + panel * kPanel<T>,
                                            filter + row * plan.inner, sums + row * pitch + panel * kPanel<T>, pitch);
      }
    }
  }
  for (Index d = 0; d < tile.extent.d; ++d) {
    for (Index h = 0; h < tile.extent.h; ++h) {
      const Run run{(d * slab.rows + h) * slab.pitch,
                    0,
                    0,
                    tile.extent.w,
                    tile.n,
                    plan.grid_begin.d + tile.begin.d + d,
                    plan.grid_begin.h + tile.begin.h + h,
                    plan.grid_begin.w + tile.begin.w};
      store_sums(plan, tile.group, 0, plan.rows, &run, 1, sums, pitch, bias, out);
    }
  }
}

}  // namespace
}  // namespace adjoint::cpu
