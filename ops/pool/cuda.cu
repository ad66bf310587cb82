// Pooling on CUDA, by rows (core/cuda/rows.cuh): each thread forms elements of the result by itself, in a fixed order.
#include <adjoint/core/convert.h>
#include <adjoint/core/fill.h>
#include <adjoint/ops/pool/kernels.h>
#include <adjoint/core/cuda/rows.cuh>

#include <limits>

namespace adjoint::cuda {
namespace {

template <class T>
__global__ void max_rows(PoolAttr attr, Rows rows, RowSplit by_h, const T* __restrict__ in, T* __restrict__ out,
                         pool::Indices<void> places) {
  using C = compute_t<T>;
  if (rows.column() >= attr.w.out) return;
  const auto o = static_cast<std::int32_t>(rows.column());
  const pool::Run columns = pool::window(attr.w, o);
  rows.each([&](std::int64_t row) {
    std::int64_t line = row;
    const T* const plane = in + by_h(line) * attr.in_plane();
    const pool::Run lines = pool::window(attr.h, static_cast<std::int32_t>(line));
    const bool empty = lines.start >= lines.end || columns.start >= columns.end;
    C best = -std::numeric_limits<C>::infinity();
    std::int32_t best_y = lines.start, best_x = columns.start;
    for (std::int32_t y = lines.start; y < lines.end; y += lines.step) {
      const T* const from = plane + std::int64_t{y} * attr.w.in;
      for (std::int32_t x = columns.start; x < columns.end; x += columns.step) {
        const C value = convert<C>(from[x]);
        if (value > best || value != value) {
          best = value;
          best_y = y;
          best_x = x;
        }
      }
    }
    const std::int64_t at = row * attr.w.out + o;
    out[at] = convert<T>(best);
    if (places.data != nullptr) places.put(at, empty ? -1 : std::int64_t{best_y} * attr.w.in + best_x);
  });
}

template <class T>
__global__ void max_adjoint_rows(PoolAttr attr, Rows rows, RowSplit by_h, const T* __restrict__ g,
                                 pool::Indices<const void> places, T* __restrict__ out) {
  using C = compute_t<T>;
  if (rows.column() >= attr.w.in) return;
  const auto x = static_cast<std::int32_t>(rows.column());
  const pool::Run columns = pool::users(attr.w, x);
  rows.each([&](std::int64_t row) {
    std::int64_t y = row;
    const std::int64_t plane = by_h(y) * attr.out_plane(), here = y * attr.w.in + x;
    const pool::Run lines = pool::users(attr.h, static_cast<std::int32_t>(y));
    C sum = C(0);
    for (std::int32_t line = lines.start; line < lines.end; ++line) {
      const std::int64_t from = plane + std::int64_t{line} * attr.w.out;
      for (std::int32_t o = columns.start; o < columns.end; ++o) {
        if (places[from + o] == here) sum += convert<C>(g[from + o]);
      }
    }
    out[row * attr.w.in + x] = convert<T>(sum);
  });
}

template <class T>
__global__ void average_rows(PoolAttr attr, Rows rows, RowSplit by_h, const T* __restrict__ in, T* __restrict__ out) {
  using C = compute_t<T>;
  if (rows.column() >= attr.w.out) return;
  const auto o = static_cast<std::int32_t>(rows.column());
  const pool::Run columns = pool::window(attr.w, o);
  const std::int64_t count = pool::counted(attr.w, o, attr.counts_padding);
  rows.each([&](std::int64_t row) {
    std::int64_t line = row;
    const T* const plane = in + by_h(line) * attr.in_plane();
    const auto o_y = static_cast<std::int32_t>(line);
    const pool::Run lines = pool::window(attr.h, o_y);
    C sum = C(0);
    for (std::int32_t y = lines.start; y < lines.end; ++y) {
      const T* const from = plane + std::int64_t{y} * attr.w.in;
      for (std::int32_t x = columns.start; x < columns.end; ++x) sum += convert<C>(from[x]);
    }
    const double by = pool::divisor(attr, pool::counted(attr.h, o_y, attr.counts_padding), count);
    out[row * attr.w.out + o] = convert<T>(sum / static_cast<C>(by));
  });
}

template <class T>
__global__ void average_adjoint_rows(PoolAttr attr, Rows rows, RowSplit by_h, const T* __restrict__ g,
                                     T* __restrict__ out) {
  using C = compute_t<T>;
  if (rows.column() >= attr.w.in) return;
  const auto x = static_cast<std::int32_t>(rows.column());
  const pool::Run columns = pool::users(attr.w, x);
  rows.each([&](std::int64_t row) {
    std::int64_t y = row;
    const T* const plane = g + by_h(y) * attr.out_plane();
    const pool::Run lines = pool::users(attr.h, static_cast<std::int32_t>(y));
    C sum = C(0);
    for (std::int32_t line = lines.start; line < lines.end; ++line) {
      const std::int64_t count = pool::counted(attr.h, line, attr.counts_padding);
      const T* const from = plane + std::int64_t{line} * attr.w.out;
      for (std::int32_t o = columns.start; o < columns.end; ++o) {
        const double by = pool::divisor(attr, count, pool::counted(attr.w, o, attr.counts_padding));
        sum += convert<C>(from[o]) / static_cast<C>(by);
      }
    }
    out[row * attr.w.in + x] = convert<T>(sum);
  });
}

template <class Bits>
__global__ void take_rows(Rows rows, std::int64_t from_plane, const Bits* __restrict__ in,
                          pool::Indices<const void> places, Bits* __restrict__ out) {
  const std::int64_t x = rows.column();
  if (x >= rows.width()) return;
  rows.each([&](std::int64_t row) {
    const std::int64_t place = places[row * rows.width() + x];
    out[row * rows.width() + x] = place < 0 ? Bits(0) : in[row * from_plane + place];
  });
}

__global__ void claim_places(Rows rows, std::int64_t plane, const std::int64_t* __restrict__ places,
                             std::int64_t* __restrict__ winners) {
  const std::int64_t x = rows.column();
  if (x >= rows.width()) return;
  rows.each([&](std::int64_t row) {
    const std::int64_t place = places[row * rows.width() + x];
    if (place < 0 || place >= plane) return;
    atomicMax(reinterpret_cast<long long*>(winners + row * plane + place), static_cast<long long>(x));
  });
}

__global__ void keep_winners(Rows rows, std::int64_t plane, const std::int64_t* __restrict__ places,
                             const std::int64_t* __restrict__ winners, std::int64_t* __restrict__ taken) {
  const std::int64_t x = rows.column();
  if (x >= rows.width()) return;
  rows.each([&](std::int64_t row) {
    const std::int64_t at = row * rows.width() + x, place = places[at];
    const bool wins = place >= 0 && place < plane && winners[row * plane + place] == x;
    taken[at] = wins ? place : -1;
  });
}

/// Launches kernel(attr, rows, split by `height`, args...) over rows of `out`.
template <class... Params, class... Args>
void over_rows(void (*kernel)(Params...), const Tensor& out, const PoolAttr& attr, std::int64_t height,
               std::int64_t width, const Args&... args) {
  const Rows rows(out.numel() / width, width);
  launch(kernel, rows.geometry(), out.device().index, attr, rows, RowSplit(height, out.numel() / width), args...);
}

}  // namespace

void max_pool(std::span<const Tensor> in, std::span<Tensor> out, const PoolAttr& attr) {
  visit_floating(out[0].dtype(), [&]<class T>() {
    over_rows(max_rows<T>, out[0], attr, attr.h.out, attr.w.out, in[0].data<T>(), out[0].mutable_data<T>(),
              pool::writable_indices_of(out[1]));
  });
}

void max_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    over_rows(max_adjoint_rows<T>, out, attr, attr.h.in, attr.w.in, in[0].data<T>(), pool::indices_of(in[1]),
              out.mutable_data<T>());
  });
}

void avg_pool(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    over_rows(average_rows<T>, out, attr, attr.h.out, attr.w.out, in[0].data<T>(), out.mutable_data<T>());
  });
}

void avg_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    over_rows(average_adjoint_rows<T>, out, attr, attr.h.in, attr.w.in, in[0].data<T>(), out.mutable_data<T>());
  });
}

void take(std::span<const Tensor> in, Tensor& out, std::int64_t planes) {
  const Rows rows(planes, out.numel() / planes);
  visit_bits(out.dtype(), [&]<class Bits>() {
    launch(take_rows<Bits>, rows.geometry(), out.device().index, rows, in[0].numel() / planes,
           static_cast<const Bits*>(in[0].raw_data()), pool::indices_of(in[1]),
           static_cast<Bits*>(out.raw_mutable_data()));
  });
}

void unpool_places(std::span<const Tensor> in, std::span<Tensor> out, const UnpoolAttr& attr) {
  const std::int64_t planes = out[0].numel() / attr.plane;
  const Rows rows(planes, in[0].numel() / planes);
  const int device = out[0].device().index;
  fill(out[0], -1.0);
  const auto* places = in[0].data<std::int64_t>();
  auto* winners = out[0].mutable_data<std::int64_t>();
  launch(claim_places, rows.geometry(), device, rows, attr.plane, places, winners);
  launch(keep_winners, rows.geometry(), device, rows, attr.plane, places, static_cast<const std::int64_t*>(winners),
         out[1].mutable_data<std::int64_t>());
}

}  // namespace adjoint::cuda
