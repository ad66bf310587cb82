// Resampling of both axes by tiles of the result: a block resamples the rows that its tile needs along the width into
// shared memory, then those along the height. Sums are in compute_t<T>, in a fixed order, and rounded once. For .cu
// files.
//
// The transpose works in the same way: the outputs that use an input are a run too (band.h).
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/resample/band.h>
#include <adjoint/core/cuda/ptx.cuh>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace adjoint::cuda::resampling {

inline constexpr int kThreads = 256;
inline constexpr int kPack = 4;          // neighbours that a thread sums along the height and stores together
inline constexpr int kMostUnrolled = 8;  // taps; rows of tables are whole multiples of it
inline constexpr int kSharedBytes = 36 << 10;
inline constexpr int kTileHeight = 32, kLeastTileWidth = 8, kTileWidth = 64;
/// For 16-bit elements, whose kernels are bound by instructions: a taller tile resamples fewer rows twice. Below
/// kLeastTallTiles tiles, multiprocessors would idle.
inline constexpr int kTallTileHeight = 128, kLeastTallTiles = 4096;

/// A banded matrix: row r has weights[r * stride + t] at column start[r] + t, t in [0, count[r]), followed by zeros.
template <class C>
struct Band {
  std::int32_t rows, stride;
  std::int32_t *start, *count;
  C* weights;
};

/// An axis's matrix, and its transpose if requested.
template <class C>
struct Axis {
  ResampleAttr attr;
  Band<C> outputs, inputs;
};

/// blockIdx.y: 0 for the height, 1 for the width.
template <class C>
__global__ void __launch_bounds__(kThreads) tabulate_outputs(Axis<C> h, Axis<C> w) {
  const ResampleAttr& attr = blockIdx.y == 0 ? h.attr : w.attr;
  const Band<C>& band = blockIdx.y == 0 ? h.outputs : w.outputs;
  const auto r = static_cast<std::int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (r >= band.rows) return;
  const band::Run run = band::run_of(attr, r);
  band.start[r] = static_cast<std::int32_t>(run.start);
  band.count[r] = static_cast<std::int32_t>(run.end - run.start);
  C* const weights = band.weights + std::int64_t{r} * band.stride;
  for (int t = 0; t < band.stride; ++t) weights[t] = C(0);
  band::weights_of(attr, r, weights);
}

/// From the tables that tabulate_outputs has made.
template <class C>
__global__ void __launch_bounds__(kThreads) tabulate_inputs(Axis<C> h, Axis<C> w) {
  const Band<C>& outputs = blockIdx.y == 0 ? h.outputs : w.outputs;
  const Band<C>& band = blockIdx.y == 0 ? h.inputs : w.inputs;
  const auto i = static_cast<std::int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= band.rows) return;
  const auto first = [&](const auto& reached) {
    std::int32_t low = 0, high = outputs.rows;
    while (low < high) {
      const std::int32_t middle = low + (high - low) / 2;
      if (reached(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  const std::int32_t start = first([&](std::int32_t o) { return outputs.start[o] + outputs.count[o] > i; });
  const std::int32_t end = first([&](std::int32_t o) { return outputs.start[o] > i; });
  band.start[i] = start;
  band.count[i] = end - start;
  C* const weights = band.weights + std::int64_t{i} * band.stride;
  for (int t = 0; t < band.stride; ++t) {
    const std::int32_t o = start + t;
    weights[t] = o < end ? outputs.weights[std::int64_t{o} * outputs.stride + i - outputs.start[o]] : C(0);
  }
}

/// The most columns of a row of an axis's matrix, or of its transpose.
inline std::int64_t most_columns(const ResampleAttr& attr, bool transposed) {
  const std::int64_t taps = band::max_taps(attr);
  if (!transposed) return taps;
  const double users = std::ceil(static_cast<double>(taps) / attr.ratio) + 2.0;  // infinite if the ratio is 0
  return users < static_cast<double>(attr.out_extent) ? static_cast<std::int64_t>(users) : attr.out_extent;
}

/// The number of columns away from the edges.
inline double usual_columns(const ResampleAttr& attr, bool transposed) {
  const double taps = band::copies(attr) ? 1.0
                      : attr.antialias   ? static_cast<double>(band::max_taps(attr))
                                         : 2.0 * band::support(attr);
  return transposed ? std::ceil(taps / attr.ratio) : taps;
}

/// The most columns between the first and the last of `rows` neighbouring rows.
inline std::int64_t most_span(const ResampleAttr& attr, bool transposed, std::int64_t rows) {
  const auto taps = static_cast<double>(band::max_taps(attr)), steps = static_cast<double>(rows - 1);
  const std::int64_t extent = transposed ? attr.out_extent : attr.in_extent;
  const double span =
      transposed ? std::ceil((steps + taps) / attr.ratio) + 2.0 : std::ceil(steps * attr.ratio) + taps + 2.0;
  return span < static_cast<double>(extent) ? static_cast<std::int64_t>(span) : extent;
}

struct Tiling {
  std::int32_t from_height, from_width, to_height, to_width;
  int log_width, height;  // of a tile
  Divider across, down;   // tiles of a plane
  std::size_t smem_bytes;
  bool packs;  // are stored as one
};

/// Returns true if the tile's rows fit in shared memory, and sets `tiling`. `element`: bytes of a tensor's element.
/// Planes have fewer than 2^31 elements.
inline bool plan_tiles(const ResampleAttr& h, const ResampleAttr& w, bool transposed, std::size_t element,
                       std::int64_t planes, Tiling& tiling) {
  const auto from = [&](const ResampleAttr& attr) {
    return static_cast<std::int32_t>(transposed ? attr.out_extent : attr.in_extent);
  };
  const auto to = [&](const ResampleAttr& attr) {
    return static_cast<std::int32_t>(transposed ? attr.in_extent : attr.out_extent);
  };
  tiling.from_height = from(h), tiling.from_width = from(w);
  tiling.to_height = to(h), tiling.to_width = to(w);
  int width = kLeastTileWidth;
  // Lower planes have wider tiles, so that all threads have rows.
  const std::int32_t rows = std::max(tiling.from_height, tiling.to_height);
  while (width < tiling.to_width && width < kThreads && (width < kTileWidth || kThreads / width > rows)) width *= 2;
  tiling.log_width = 0;
  while (1 << tiling.log_width < width) ++tiling.log_width;
  const std::size_t row_bytes = std::max(element, sizeof(float)) * static_cast<std::size_t>(width);
  const std::int32_t across = (tiling.to_width - 1) / width + 1;
  for (int height = element == 2 ? kTallTileHeight : kTileHeight; height >= 1; height /= 2) {
    const auto span = static_cast<std::size_t>(most_span(h, transposed, std::min(height, tiling.to_height)));
    const std::int32_t down = (tiling.to_height - 1) / height + 1;
    if (span * row_bytes > kSharedBytes) continue;
    if (height > kTileHeight && planes * across * down < kLeastTallTiles) continue;
    tiling.height = height;
    tiling.smem_bytes = span * row_bytes;
    tiling.across = Divider(static_cast<std::uint32_t>(across));
    tiling.down = Divider(static_cast<std::uint32_t>(down));
    return true;
  }
  return false;
}

/// One block per tile. kTaps: columns of a matrix's row whose loads all overlap; further columns follow one by one.
template <class T, int kTaps>
__global__ void __launch_bounds__(kThreads) resample_tiles(Tiling tiling, Band<compute_t<T>> h, Band<compute_t<T>> w,
                                                           const T* __restrict__ from, T* __restrict__ to) {
  using C = compute_t<T>;
  auto* const sums = reinterpret_cast<C*>(ptx::dynamic_smem());
  auto tile_x = static_cast<std::int32_t>(blockIdx.x);
  std::int32_t tile_y = tiling.across.split(tile_x);  // becomes the tile's place in its row
  const std::int64_t plane = tiling.down.split(tile_y);
  from += plane * tiling.from_height * tiling.from_width;
  to += plane * tiling.to_height * tiling.to_width;
  const std::int32_t x0 = tile_x << tiling.log_width, y0 = tile_y * tiling.height;
  const std::int32_t y1 = min(y0 + tiling.height, tiling.to_height);
  const std::int32_t row0 = h.start[y0], row1 = h.start[y1 - 1] + h.count[y1 - 1];
  const auto thread = static_cast<std::int32_t>(threadIdx.x);

  const std::int32_t column = thread & ((1 << tiling.log_width) - 1);
  if (x0 + column < tiling.to_width) {
    const std::int32_t start = w.start[x0 + column], count = w.count[x0 + column];
    const C* const weights = w.weights + std::int64_t{x0 + column} * w.stride;
    const auto factors = *reinterpret_cast<const Pack<C, kTaps>*>(weights);
    const std::int32_t first = thread >> tiling.log_width, step = kThreads >> tiling.log_width;
    const T* line = from + std::int64_t{row0 + first} * tiling.from_width + start;
    const std::int64_t lines = std::int64_t{step} * tiling.from_width;
    C* cell = sums + (first << tiling.log_width) + column;
    if (count == kTaps) {
      // Away from edges, for the usual ratios. Loads of several lines come before the first use.
      constexpr int kLines = kTaps <= 4 ? 5 : 3;
      for (std::int32_t row = row0 + first; row < row1; row += kLines * step) {
        T values[kLines][kTaps];
#pragma unroll
        for (int k = 0; k < kLines; ++k) {
          const T* const read = line + (row + k * step < row1 ? k * lines : 0);
#pragma unroll
          for (int t = 0; t < kTaps; ++t) values[k][t] = read[t];
        }
#pragma unroll
        for (int k = 0; k < kLines; ++k) {
          C sum = C(0);
#pragma unroll
          for (int t = 0; t < kTaps; ++t) sum += factors.values[t] * convert<C>(values[k][t]);
          if (row + k * step < row1) cell[k * kThreads] = sum;
        }
        line += kLines * lines;
        cell += kLines * kThreads;
      }
    } else {
      for (std::int32_t row = row0 + first; row < row1; row += step, line += lines, cell += kThreads) {
        C sum = C(0);
#pragma unroll
        for (int t = 0; t < kTaps; ++t) {
          if (t < count) sum += factors.values[t] * convert<C>(line[t]);
        }
        for (std::int32_t t = kTaps; t < count; ++t) sum += weights[t] * convert<C>(line[t]);
        *cell = sum;
      }
    }
  }
  __syncthreads();

  const int log_packs = tiling.log_width - 2;
  static_assert(kPack == 1 << 2);
  const std::int32_t at = (thread & ((1 << log_packs) - 1)) * kPack, x = x0 + at;
  if (x >= tiling.to_width) return;
  for (std::int32_t y = y0 + (thread >> log_packs); y < y1; y += kThreads >> log_packs) {
    const std::int32_t start = h.start[y] - row0, count = h.count[y];
    const C* const weights = h.weights + std::int64_t{y} * h.stride;
    const auto factors = *reinterpret_cast<const Pack<C, kTaps>*>(weights);
    const C* cells = sums + (start << tiling.log_width) + at;
    C total[kPack] = {};
    const auto add = [&](std::int32_t t, C factor) {
      const auto values = *reinterpret_cast<const Pack<C, kPack>*>(cells + (t << tiling.log_width));
#pragma unroll
      for (int v = 0; v < kPack; ++v) total[v] += factor * values.values[v];
    };
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      if (t < count) add(t, factors.values[t]);
    }
    for (std::int32_t t = kTaps; t < count; ++t) add(t, weights[t]);
    T* const target = to + std::int64_t{y} * tiling.to_width + x;
    Pack<T, kPack> result;
#pragma unroll
    for (int v = 0; v < kPack; ++v) result.values[v] = convert<T>(total[v]);
    if (tiling.packs) {
      *reinterpret_cast<Pack<T, kPack>*>(target) = result;
    } else {
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        if (x + v < tiling.to_width) target[v] = result.values[v];
      }
    }
  }
}

}  // namespace adjoint::cuda::resampling
