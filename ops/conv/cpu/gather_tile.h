// One tile of conv or conv_transpose: gathers its inputs into panels, multiplies them by the packed filter, and stores
// the sums. For files that are compiled for one instruction set: see ops/matmul/cpu/micro_kernel.h.
#pragma once

#include <adjoint/ops/conv/cpu/kernels.h>
#include <adjoint/ops/matmul/cpu/product_tile.h>

namespace adjoint::cpu {
namespace {

// Neighbouring positions of one panel that lie in one row of the grid.
struct Run {
  Index sums;  // its first position's place in a row of the tile's sums
  Index panel;
  Index at, length;  // within the panel
  Index n, d, h, w;  // of its first position
};

// j in [0, length) with 0 <= first + j * step < extent.
inline Inside inside(Index first, Index step, Index length, Index extent) {
  const Index begin = first >= 0 ? 0 : minimum(length, (-first + step - 1) / step);
  const Index end = first >= extent ? 0 : minimum(length, (extent - 1 - first) / step + 1);
  return {begin, maximum(begin, end)};
}

template <class T>
Index find_runs(const GatherPlan& plan, const ProductTile& tile, Run* runs) {
  const Index width = plan.grid_extent.w, plane = plan.grid_extent.h * width, volume = plan.grid_extent.d * plane;
  Index count = 0, position = tile.begin;
  while (position < tile.end) {
    const Index n = position / volume, d = position % volume / plane, h = position % plane / width,
                w = position % width;
    const Index at = position - tile.begin, in_panel = at % kPanel<T>;
    const Index length = minimum(minimum(tile.end - position, width - w), kPanel<T> - in_panel);
    runs[count++] = {
        at, at / kPanel<T>, in_panel, length, n, plan.grid_begin.d + d, plan.grid_begin.h + h, plan.grid_begin.w + w};
    position += length;
  }
  return count;
}

template <int step, class T>
inline void copy_strided(T* to, const T* from, Index count, Index any_step) {
  const Index distance = step == 0 ? any_step : step;
  for (Index i = 0; i < count; ++i) to[i] = from[i * distance];
}

// A row of `length` with zeros for positions outside. `from` is the address of its first position, inside or not.
template <int step, class T>
inline void copy_row(const T* from, Index any_step, Inside valid, Index length, T* to) {
  if constexpr (step == 1) {
    copy_row(from, valid, length, to);
  } else {
    if (valid.begin > 0) zero_elements(to, valid.begin);
    copy_strided<step>(to + valid.begin, from + valid.begin * (step == 0 ? any_step : step), valid.end - valid.begin,
                       any_step);
    if (valid.end < length) zero_elements(to + valid.end, length - valid.end);
  }
}

// Rows of a panel, `pitch` apart, from the volumes of as many channels. `from` is the address of the run's first
// position, inside or not.
template <int step, class T>
void gather_run(Index channels, const T* from, Index volume, Index any_step, Inside valid, Index length, T* to,
                Index pitch) {
  if constexpr (step == 1) {
    copy_rows(channels, from, volume, valid, length, to, pitch);
  } else {
    for (Index c = 0; c < channels; ++c) copy_row<step>(from + c * volume, any_step, valid, length, to + c * pitch);
  }
}

// Inner rows [first, first + panels.inner) of every panel.
template <class T>
void gather(const GatherPlan& plan, const ProductTile& tile, const Run* runs, Index run_count, const T* in, Index first,
            const Panels<T>& panels) {
  const Index volume = plan.in_extent.volume(), step = plan.in_step.w;
  for (Index row = 0; row < panels.inner;) {
    const Index tap = (first + row) / plan.in_channels, channel = (first + row) % plan.in_channels;
    const Index channels = minimum(plan.in_channels - channel, panels.inner - row);
    const Place place = plan.tap_places[tap];
    for (const Run* run = runs; run != runs + run_count; ++run) {
      const Index d = run->d * plan.in_step.d + place.d, h = run->h * plan.in_step.h + place.h;
      const Index w = run->w * step + place.w;
      const bool row_exists = d >= 0 && d < plan.in_extent.d && h >= 0 && h < plan.in_extent.h;
      const Inside valid = row_exists ? inside(w, step, run->length, plan.in_extent.w) : Inside{};
      const T* from = in;
      if (valid.end > valid.begin) {
        from += ((run->n * plan.groups + tile.group) * plan.in_channels + channel) * volume +
                (d * plan.in_extent.h + h) * plan.in_extent.w + w;
      }
      const Index pitch = panels.width(run->panel);
      T* to = panels.panel(run->panel) + row * pitch + run->at;
      switch (step) {
        case 1: gather_run<1>(channels, from, volume, step, valid, run->length, to, pitch); break;
        case 2: gather_run<2>(channels, from, volume, step, valid, run->length, to, pitch); break;
        case 3: gather_run<3>(channels, from, volume, step, valid, run->length, to, pitch); break;
        case 4: gather_run<4>(channels, from, volume, step, valid, run->length, to, pitch); break;
        default: gather_run<0>(channels, from, volume, step, valid, run->length, to, pitch); break;
      }
    }
    row += channels;
  }
}

// The destination of the sums of one run of positions: `count` positions, outputs `step` apart.
template <class T>
struct OutputRun {
  const T* sums;
  T* to;
  Index count, step;
  T bias;
};

template <int step, class T>
inline void store_strided(const OutputRun<T>& run) {
  const Index distance = step == 0 ? run.step : step;
  for (Index i = 0; i < run.count; ++i) run.to[i * distance] = run.sums[i] + run.bias;
}

// Two rows of sums, `pitch` apart, whose outputs are neighbours.
template <class T>
inline void store_interleaved_pair(const OutputRun<T>& run, Index pitch) {
  Index i = 0;
  for (; i + kLanes<T> <= run.count; i += kLanes<T>) {
    const Vector<T> even = load(run.sums + i) + run.bias, odd = load(run.sums + pitch + i) + run.bias;
    store(run.to + 2 * i, interleave_low<T>(even, odd));
    store(run.to + 2 * i + kLanes<T>, interleave_high<T>(even, odd));
  }
  for (; i < run.count; ++i) {
    run.to[2 * i] = run.sums[i] + run.bias;
    run.to[2 * i + 1] = run.sums[pitch + i] + run.bias;
  }
}

// The outputs of one run in one row of the product, or in `slots` rows whose outputs are neighbours.
template <class T>
void store_run(const GatherPlan& plan, const Run& run, Place place, Index slots, const T* sums, Index pitch, T bias,
               T* out) {
  const Index d = run.d * plan.out_step.d + place.d, h = run.h * plan.out_step.h + place.h;
  const Index w = run.w * plan.out_step.w + place.w;
  if (d < 0 || d >= plan.out_extent.d || h < 0 || h >= plan.out_extent.h) return;
  const Index step = plan.out_step.w;
  const T* from = sums + run.sums;
  T* to = out + (d * plan.out_extent.h + h) * plan.out_extent.w + w;
  if (slots == 2) {
    const Inside first = inside(w, step, run.length, plan.out_extent.w);
    const Inside second = inside(w + 1, step, run.length, plan.out_extent.w);
    const Index begin = maximum(first.begin, second.begin), end = minimum(first.end, second.end);
    if (begin < end) store_interleaved_pair<T>({from + begin, to + begin * step, end - begin, step, bias}, pitch);
    // At the ends of a row one of the two may be outside.
    for (Index i = first.begin; i < minimum(begin, first.end); ++i) to[i * step] = from[i] + bias;
    for (Index i = maximum(end, first.begin); i < first.end; ++i) to[i * step] = from[i] + bias;
    from += pitch;
    for (Index i = second.begin; i < minimum(begin, second.end); ++i) to[i * step + 1] = from[i] + bias;
    for (Index i = maximum(end, second.begin); i < second.end; ++i) to[i * step + 1] = from[i] + bias;
    return;
  }
  const Inside valid = inside(w, step, run.length, plan.out_extent.w);
  if (valid.begin == valid.end) return;
  const OutputRun<T> output{from + valid.begin, to + valid.begin * step, valid.end - valid.begin, step, bias};
  if (step == 1) {
    store_strided<1>(output);
  } else {
    store_strided<0>(output);
  }
}

// Rows [first, last) of the product, `pitch` apart.
template <class T>
void store_sums(const GatherPlan& plan, Index group, Index first, Index last, const Run* runs, Index run_count,
                const T* sums, Index pitch, const T* bias, T* out) {
  const Index volume = plan.out_extent.volume();
  for (Index row = first; row < last;) {
    const Index channel = row / plan.slots, slot = row % plan.slots;
    const Place place = plan.slot_places[slot];
    const bool pair = plan.out_step.w == 2 && slot + 1 < plan.slots && row + 1 < last &&
                      plan.slot_places[slot + 1].d == place.d && plan.slot_places[slot + 1].h == place.h &&
                      plan.slot_places[slot + 1].w == place.w + 1;
    const Index slots = pair ? 2 : 1;
    for (const Run* run = runs; run != runs + run_count; ++run) {
      T* target = out + ((run->n * plan.groups + group) * plan.out_channels + channel) * volume;
      store_run(plan, *run, place, slots, sums + (row - first) * pitch, pitch, bias == nullptr ? T{} : bias[channel],
                target);
    }
    row += slots;
  }
}

template <class T>
void gather_tile(const GatherPlan& plan, const ProductTile& tile, const T* in, const T* filter, const T* bias, T* out,
                 T* scratch) {
  Run runs[kTilePositions];
  const Index run_count = find_runs<T>(plan, tile, runs);
  const T* const sums = product_tile<T>(plan, tile, filter, scratch, [&](Index first, const Panels<T>& panels) {
    gather(plan, tile, runs, run_count, in, first, panels);
  });
  store_sums(plan, tile.group, tile.first_block * plan.rows / plan.blocks, tile.last_block * plan.rows / plan.blocks,
             runs, run_count, sums, kTilePositions, bias, out);
}

}  // namespace
}  // namespace adjoint::cpu
