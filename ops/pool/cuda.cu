// Pooling on CUDA, by rows (core/cuda/rows.cuh): each thread forms elements of the result by itself, in a fixed order.
#include <adjoint/core/convert.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/fill.h>
#include <adjoint/ops/pool/kernels.h>
#include <adjoint/core/cuda/rows.cuh>

#include <cstdint>
#include <limits>

namespace adjoint::cuda {
namespace {

/// The kernel sizes, of both axes, whose windows are read with all loads under way at once.
constexpr std::int32_t kFewestUnrolled = 2, kMostUnrolled = 3;

/// Calls visit(y, x, value) for the elements of a window of `plane`, by rows. Those of kKernel x kKernel elements are
/// loaded before the first is visited; kKernel 0 is any window.
template <int kKernel, class T, class Visit>
__device__ void for_each_in_window(const PoolAttr& attr, const T* plane, std::int32_t o_y, const pool::Run& lines,
                                   std::int32_t o_x, const pool::Run& columns, const Visit& visit) {
  using C = compute_t<T>;
  if constexpr (kKernel == 0) {
    for (std::int32_t y = lines.start; y < lines.end; y += lines.step) {
      const T* const from = plane + std::int64_t{y} * attr.w.in;
      for (std::int32_t x = columns.start; x < columns.end; x += columns.step) visit(y, x, convert<C>(from[x]));
    }
  } else {
    const std::int32_t first_y = o_y * attr.h.stride - attr.h.padding, first_x = o_x * attr.w.stride - attr.w.padding;
    const auto inside = [](std::int32_t at, std::int32_t extent) {
      return static_cast<std::uint32_t>(at) < static_cast<std::uint32_t>(extent);
    };
    T values[kKernel][kKernel] = {};
#pragma unroll
    for (int i = 0; i < kKernel; ++i) {
      const std::int32_t y = first_y + i * attr.h.dilation;
      const T* const from = plane + std::int64_t{y} * attr.w.in;
#pragma unroll
      for (int j = 0; j < kKernel; ++j) {
        const std::int32_t x = first_x + j * attr.w.dilation;
        if (inside(y, attr.h.in) && inside(x, attr.w.in)) values[i][j] = from[x];
      }
    }
#pragma unroll
    for (int i = 0; i < kKernel; ++i) {
      const std::int32_t y = first_y + i * attr.h.dilation;
#pragma unroll
      for (int j = 0; j < kKernel; ++j) {
        const std::int32_t x = first_x + j * attr.w.dilation;
        if (inside(y, attr.h.in) && inside(x, attr.w.in)) visit(y, x, convert<C>(values[i][j]));
      }
    }
  }
}

template <class T, int kKernel>
__global__ void max_rows(PoolAttr attr, Rows rows, RowSplit by_h, const T* __restrict__ in, T* __restrict__ out,
                         pool::Indices<void> places) {
  using C = compute_t<T>;
  if (rows.column() >= attr.w.out) return;
  const auto o = static_cast<std::int32_t>(rows.column());
  const pool::Run columns = pool::window(attr.w, o);
  rows.each([&](std::int64_t row) {
    std::int64_t line = row;
    const T* const plane = in + by_h(line) * attr.in_plane();
    const auto o_y = static_cast<std::int32_t>(line);
    const pool::Run lines = pool::window(attr.h, o_y);
    const bool empty = lines.start >= lines.end || columns.start >= columns.end;
    C best = -std::numeric_limits<C>::infinity();
    std::int32_t best_y = lines.start, best_x = columns.start;
    for_each_in_window<kKernel>(attr, plane, o_y, lines, o, columns, [&](std::int32_t y, std::int32_t x, C value) {
      if (value > best || value != value) {
        best = value;
        best_y = y;
        best_x = x;
      }
    });
    const std::int64_t at = row * attr.w.out + o;
    out[at] = convert<T>(best);
    if (places.data != nullptr) places.put(at, empty ? -1 : std::int64_t{best_y} * attr.w.in + best_x);
  });
}

/// Neighbouring elements of a gradient that one thread forms and stores as one: 16 bytes, where rows allow.
template <class T>
constexpr int kVector = static_cast<int>(16 / sizeof(T));

/// The windows that may hold one of V inputs from `x` on.
template <int V>
__device__ pool::Run users_of_pack(const PoolAxis& axis, std::int32_t x) {
  return {pool::users(axis, x).start, pool::users(axis, x + V - 1).end, 1};
}

/// Columns of `rows` are of V inputs each. V > 1: places are int32.
template <class T, int V>
__global__ void max_adjoint_rows(PoolAttr attr, Rows rows, RowSplit by_h, const T* __restrict__ g,
                                 pool::Indices<const void> places, T* __restrict__ out) {
  using C = compute_t<T>;
  if (rows.column() >= rows.width()) return;
  const auto x = static_cast<std::int32_t>(rows.column() * V);
  const pool::Run columns = users_of_pack<V>(attr.w, x);
  rows.each([&](std::int64_t row) {
    std::int64_t y = row;
    const std::int64_t plane = by_h(y) * attr.out_plane(), here = y * attr.w.in + x;
    const pool::Run lines = pool::users(attr.h, static_cast<std::int32_t>(y));
    C sums[V] = {};
    for (std::int32_t line = lines.start; line < lines.end; ++line) {
      const std::int64_t from = plane + std::int64_t{line} * attr.w.out;
#pragma unroll 2  // there are few, and more registers would leave fewer threads
      for (std::int32_t o = columns.start; o < columns.end; ++o) {
        if constexpr (V == 1) {
          if (places[from + o] == here) sums[0] += convert<C>(g[from + o]);
        } else {
          const std::int32_t place = static_cast<const std::int32_t*>(places.data)[from + o];
          const C value = convert<C>(g[from + o]);
          const std::int32_t v_of_place = place - static_cast<std::int32_t>(here);
#pragma unroll
          for (int v = 0; v < V; ++v) {
            if (v_of_place == v) sums[v] += value;
          }
        }
      }
    }
    Pack<T, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) result.values[v] = convert<T>(sums[v]);
    *reinterpret_cast<Pack<T, V>*>(out + row * attr.w.in + x) = result;
  });
}

template <class T, int kKernel>
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
    C sum = C(0);
    for_each_in_window<kKernel>(attr, plane, o_y, pool::window(attr.h, o_y), o, columns,
                                [&](std::int32_t, std::int32_t, C value) { sum += value; });
    const C by = pool::divisor<C>(attr, pool::counted(attr.h, o_y, attr.counts_padding), count);
    out[row * attr.w.out + o] = convert<T>(sum / by);
  });
}

/// Columns of `rows` are of V inputs each.
template <class T, int V>
__global__ void average_adjoint_rows(PoolAttr attr, Rows rows, RowSplit by_h, const T* __restrict__ g,
                                     T* __restrict__ out) {
  using C = compute_t<T>;
  if (rows.column() >= rows.width()) return;
  const auto x = static_cast<std::int32_t>(rows.column() * V);
  const pool::Run columns = users_of_pack<V>(attr.w, x);
  rows.each([&](std::int64_t row) {
    std::int64_t y = row;
    const T* const plane = g + by_h(y) * attr.out_plane();
    const pool::Run lines = pool::users(attr.h, static_cast<std::int32_t>(y));
    C sums[V] = {};
    for (std::int32_t line = lines.start; line < lines.end; ++line) {
      const std::int64_t count = pool::counted(attr.h, line, attr.counts_padding);
      const T* const from = plane + std::int64_t{line} * attr.w.out;
#pragma unroll 1  // there are few, and a quotient takes many registers
      for (std::int32_t o = columns.start; o < columns.end; ++o) {
        const C by = pool::divisor<C>(attr, count, pool::counted(attr.w, o, attr.counts_padding));
        const C share = convert<C>(from[o]) / by;
        if constexpr (V == 1) {
          sums[0] += share;
        } else {
          const pool::Run run = pool::covered(attr.w, o);
#pragma unroll
          for (int v = 0; v < V; ++v) {
            if (x + v >= run.start && x + v < run.end) sums[v] += share;
          }
        }
      }
    }
    Pack<T, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) result.values[v] = convert<T>(sums[v]);
    *reinterpret_cast<Pack<T, V>*>(out + row * attr.w.in + x) = result;
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

/// Launches kernel(attr, rows, split by `height`, args...) over rows of `out`; a thread's columns are of `pack`
/// elements.
template <class... Params, class... Args>
void over_rows(void (*kernel)(Params...), const Tensor& out, const PoolAttr& attr, std::int64_t height,
               std::int64_t width, std::int64_t pack, const Args&... args) {
  const std::int64_t count = out.numel() / width;
  const Rows rows(count, width / pack);
  launch(kernel, rows.geometry(), out.device().index, attr, rows, RowSplit(height, count), args...);
}

/// use.operator()<kernel>() with the windows' size where it is one that is unrolled, else 0.
template <class Use>
void with_kernel(const PoolAttr& attr, const Use& use) {
  const bool square = attr.h.kernel == attr.w.kernel;
  if (square && attr.w.kernel == kFewestUnrolled) return use.template operator()<kFewestUnrolled>();
  if (square && attr.w.kernel == kMostUnrolled) return use.template operator()<kMostUnrolled>();
  use.template operator()<0>();
}

/// Whether rows of `out` are made of whole, aligned packs.
template <class T>
bool in_packs(const Tensor& out, const PoolAttr& attr) {
  return attr.w.in % kVector<T> == 0 && reinterpret_cast<std::uintptr_t>(out.raw_data()) % 16 == 0;
}

}  // namespace

void max_pool(std::span<const Tensor> in, std::span<Tensor> out, const PoolAttr& attr) {
  visit_floating(out[0].dtype(), [&]<class T>() {
    with_kernel(attr, [&]<int kKernel>() {
      over_rows(max_rows<T, kKernel>, out[0], attr, attr.h.out, attr.w.out, 1, in[0].data<T>(),
                out[0].mutable_data<T>(), pool::writable_indices_of(out[1]));
    });
  });
}

void max_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    const bool packs = in_packs<T>(out, attr) && in[1].dtype() == kInt32;
    over_rows(packs ? max_adjoint_rows<T, kVector<T>> : max_adjoint_rows<T, 1>, out, attr, attr.h.in, attr.w.in,
              packs ? kVector<T> : 1, in[0].data<T>(), pool::indices_of(in[1]), out.mutable_data<T>());
  });
}

void avg_pool(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    with_kernel(attr, [&]<int kKernel>() {
      over_rows(average_rows<T, kKernel>, out, attr, attr.h.out, attr.w.out, 1, in[0].data<T>(), out.mutable_data<T>());
    });
  });
}

void avg_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    const bool packs = in_packs<T>(out, attr);
    over_rows(packs ? average_adjoint_rows<T, kVector<T>> : average_adjoint_rows<T, 1>, out, attr, attr.h.in, attr.w.in,
              packs ? kVector<T> : 1, in[0].data<T>(), out.mutable_data<T>());
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
