// Pooling on CUDA, by rows (core/cuda/rows.cuh): each thread computes elements of the result alone, in a fixed order.
#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/fill.h>
#include <adjoint/ops/pool/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>
#include <adjoint/core/cuda/rows.cuh>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace adjoint::cuda {
namespace {

/// Elements that fill 16 bytes.
template <class T>
constexpr int kVector = static_cast<int>(16 / sizeof(T));

/// rows.each(f); if `f` computes V > 1 elements it is long, and its code is emitted once.
template <int V, class F>
__device__ void each_of(const Rows& rows, const F& f) {
  if constexpr (V == 1) return rows.each(f);
  std::int64_t first = 0;
  int count = 0;
  rows.each([&](std::int64_t row) { first = count++ == 0 ? row : first; });
#pragma unroll 1
  for (int i = 0; i < count; ++i) f(first + static_cast<std::int64_t>(i * blockDim.y));
}

/// For packed windows.
template <int kKernel>
constexpr int kPadding = (kKernel - 1) / 2;

/// The reading of windows. kKernel: their size on both axes, or 0 for any. kStride: the width's stride, if its padding
/// is kPadding and it has no dilation; a thread then computes as many neighbours as there are window starts in 16 bytes
/// of a row of inputs. 0 for any stride; a thread then computes one. kDeep: volumes have a depth; otherwise they are
/// planes, whose code has no third axis.
template <int kKernel, int kStride, bool kDeep = false>
struct Windows {
  static_assert(!kDeep || kKernel == 0);
  /// Gradients sum windows one by one, unless they are packed.
  using OfGradients = std::conditional_t<kStride != 0, Windows, Windows<0, 0, kDeep>>;

  /// A row of windows or inputs in its volume.
  struct Row {
    std::int64_t volume;
    std::int32_t z, y;
  };
  __device__ static Row row_of(std::int64_t row, const RowSplit& by_h, const RowSplit& by_d) {
    std::int64_t y = row, z = by_h(y);
    if constexpr (!kDeep) return {z, 0, static_cast<std::int32_t>(y)};
    const std::int64_t volume = by_d(z);
    return {volume, static_cast<std::int32_t>(z), static_cast<std::int32_t>(y)};
  }
  /// The layers of a window, or those of windows that may hold an input.
  __device__ static pool::Run layers(const PoolAttr& attr, std::int32_t o_z) {
    if constexpr (kDeep) return pool::window(attr.d, o_z);
    return {0, 1, 1};
  }
  __device__ static pool::Run user_layers(const PoolAttr& attr, std::int32_t z) {
    if constexpr (kDeep) return pool::users(attr.d, z);
    return {0, 1, 1};
  }
  /// The lines that an average's windows count.
  __device__ static std::int64_t counted_lines(const PoolAttr& attr, std::int32_t o_z, std::int32_t o_y) {
    const std::int64_t lines = pool::counted(attr.h, o_y, attr.counts_padding);
    if constexpr (kDeep) return pool::counted(attr.d, o_z, attr.counts_padding) * lines;
    return lines;
  }

  /// Results per thread.
  template <class T>
  static constexpr int kResults = kStride == 0 ? 1 : kVector<T> / (kStride == 0 ? 1 : kStride);

  /// `attr` with constants for the known members.
  __device__ static PoolAttr known(PoolAttr attr) {
    if constexpr (kKernel != 0) attr.h.kernel = attr.w.kernel = kKernel;
    if constexpr (kStride != 0) {
      attr.w.stride = kStride;
      attr.w.padding = kPadding<kKernel>;
      attr.w.dilation = 1;
    }
    return attr;
  }

  /// An element of a window: its place in the volume if kKernel is 0, else its number.
  using Element = std::conditional_t<kKernel == 0, std::int64_t, int>;

  __device__ static std::int64_t place(const PoolAttr& attr, std::int32_t o_y, std::int32_t o_x, Element element) {
    if constexpr (kKernel == 0) {
      return element;
    } else {
      const std::int32_t y = o_y * attr.h.stride - attr.h.padding + element / kKernel * attr.h.dilation;
      return std::int64_t{y} * attr.w.in + o_x * attr.w.stride - attr.w.padding + element % kKernel * attr.w.dilation;
    }
  }

  /// Calls visit(o, holds) for the windows along the width that may hold one of V inputs from `x` on; holds(v) is true
  /// if the window may hold the v-th. `x` is a multiple of V.
  template <int V, class Visit>
  __device__ static void each_user(const PoolAttr& attr, std::int32_t x, const Visit& visit) {
    if constexpr (kStride == 0) {
      const std::int32_t end = pool::users(attr.w, x + V - 1).end;
#pragma unroll 1  // the loop is short, and a quotient needs many registers
      for (std::int32_t o = pool::users(attr.w, x).start; o < end; ++o) {
        const pool::Run run = pool::covered(attr.w, o);
        visit(o, [&](int v) { return V == 1 || attr.w.dilation > 1 || (x + v >= run.start && x + v < run.end); });
      }
    } else {
      static_assert(V % kStride == 0);
      // The first window may also hold the first input's left neighbours, and begins at x - (kKernel - 1) or later.
      constexpr int kLeft = kPadding<kKernel>;
      constexpr int kFirst = -((kKernel - 1 - kLeft) / kStride), kLast = (V - 1 + kLeft) / kStride;
#pragma unroll
      for (int q = kFirst; q <= kLast; ++q) {
        const std::int32_t o = x / kStride + q;
        if (o < 0 || o >= attr.w.out) continue;
        visit(o, [q](int v) { return v >= q * kStride - kLeft && v < q * kStride - kLeft + kKernel; });
      }
    }
  }

  /// Calls visit(v, element, value) for the elements of the windows of results (o_z, o_y, o_x + v) of `volume`, by
  /// rows. Elements outside the volume are skipped, or, if a thread computes several results, may be visited as
  /// `outside`.
  template <class T, class Visit>
  __device__ static void each(const PoolAttr& attr, const T* volume, std::int32_t o_z, std::int32_t o_y,
                              std::int32_t o_x, T outside, const Visit& visit) {
    using C = compute_t<T>;
    const auto inside = [](std::int32_t at, std::int32_t extent) {
      return static_cast<std::uint32_t>(at) < static_cast<std::uint32_t>(extent);
    };
    const std::int32_t first_y = o_y * attr.h.stride - attr.h.padding, first_x = o_x * attr.w.stride - attr.w.padding;
    if constexpr (kKernel == 0) {
      const pool::Run lines = pool::window(attr.h, o_y), columns = pool::window(attr.w, o_x);
      const pool::Run of_window = layers(attr, o_z);
      for (std::int32_t z = of_window.start; z < of_window.end; z += of_window.step) {
        for (std::int32_t y = lines.start; y < lines.end; y += lines.step) {
          const std::int64_t line = (std::int64_t{z} * attr.h.in + y) * attr.w.in;
          for (std::int32_t x = columns.start; x < columns.end; x += columns.step) {
            visit(0, line + x, convert<C>(volume[line + x]));
          }
        }
      }
    } else if constexpr (kStride == 0) {
      T values[kKernel][kKernel] = {};
#pragma unroll
      for (int i = 0; i < kKernel; ++i) {
        const std::int32_t y = first_y + i * attr.h.dilation;
        const T* const from = volume + std::int64_t{y} * attr.w.in;
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
          if (inside(y, attr.h.in) && inside(x, attr.w.in)) visit(0, i * kKernel + j, convert<C>(values[i][j]));
        }
      }
    } else {
      constexpr int kLeft = kPadding<kKernel>, kRight = kKernel - kStride - kLeft;
      static_assert(kRight == 0 || kRight == 1);
      const std::int32_t x = first_x + kLeft;
      Pack<T, kVector<T>> middle[kKernel];
      T left[kKernel], right[kKernel];
#pragma unroll
      for (int i = 0; i < kKernel; ++i) {
        const std::int32_t y = first_y + i * attr.h.dilation;
        const T* const from = volume + std::int64_t{y} * attr.w.in + x;
        left[i] = right[i] = outside;
#pragma unroll
        for (int v = 0; v < kVector<T>; ++v) middle[i].values[v] = outside;
        if (inside(y, attr.h.in)) {
          middle[i] = *reinterpret_cast<const Pack<T, kVector<T>>*>(from);
          if (kLeft > 0 && x > 0) left[i] = from[-1];
          if (kRight > 0 && x + kVector<T> < attr.w.in) right[i] = from[kVector<T>];
        }
      }
#pragma unroll
      for (int i = 0; i < kKernel; ++i) {
#pragma unroll
        for (int v = 0; v < kResults<T>; ++v) {
#pragma unroll
          for (int j = 0; j < kKernel; ++j) {
            const int at = v * kStride + j - kLeft;
            const T value = at < 0 ? left[i] : at == kVector<T> ? right[i] : middle[i].values[at % kVector<T>];
            visit(v, i * kKernel + j, convert<C>(value));
          }
        }
      }
    }
  }
};

/// Columns of `rows` are W::kResults results each.
template <class T, class W>
__global__ void max_rows(PoolAttr given, Rows rows, RowSplit by_h, RowSplit by_d, const T* __restrict__ in,
                         T* __restrict__ out, pool::Indices<void> places) {
  using C = compute_t<T>;
  constexpr int V = W::template kResults<T>;
  if (rows.column() >= rows.width()) return;
  const PoolAttr attr = W::known(given);
  const auto o = static_cast<std::int32_t>(rows.column() * V);
  each_of<V>(rows, [&](std::int64_t row) {
    const typename W::Row at_row = W::row_of(row, by_h, by_d);
    const T* const volume = in + at_row.volume * attr.in_volume();
    const std::int32_t o_y = at_row.y;
    C best[V];
    typename W::Element element[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      best[v] = -std::numeric_limits<C>::infinity();
      element[v] = -1;
    }
    W::each(attr, volume, at_row.z, o_y, o, convert<T>(best[0]), [&](int v, typename W::Element which, C value) {
      if (value > best[v] || value != value) {
        best[v] = value;
        element[v] = which;
      }
    });
    Pack<T, V> maxima;
#pragma unroll
    for (int v = 0; v < V; ++v) maxima.values[v] = convert<T>(best[v]);
    const std::int64_t at = row * attr.w.out + o;
    detail::store_contiguous(maxima, out + at, attr.w.out - o, is_aligned<T, V>(out + at));
    if (places.data == nullptr) return;
    const pool::Run layers = W::layers(attr, at_row.z), lines = pool::window(attr.h, o_y);
    Pack<std::int32_t, V> narrow;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      std::int64_t place = W::place(attr, o_y, o + v, element[v]);
      if (element[v] < 0) {
        const pool::Run columns = pool::window(attr.w, o + v);
        const bool empty = layers.start >= layers.end || lines.start >= lines.end || columns.start >= columns.end;
        place = empty ? -1 : (std::int64_t{layers.start} * attr.h.in + lines.start) * attr.w.in + columns.start;
      }
      narrow.values[v] = static_cast<std::int32_t>(place);
      if (places.wide && o + v < attr.w.out) places.put(at + v, place);
    }
    if (places.wide) return;
    auto* const to = static_cast<std::int32_t*>(places.data) + at;
    detail::store_contiguous(narrow, to, attr.w.out - o, is_aligned<std::int32_t, V>(to));
  });
}

/// Columns of `rows` are W::kResults results each.
template <class T, class W>
__global__ void average_rows(PoolAttr given, Rows rows, RowSplit by_h, RowSplit by_d, const T* __restrict__ in,
                             T* __restrict__ out) {
  using C = compute_t<T>;
  constexpr int V = W::template kResults<T>;
  if (rows.column() >= rows.width()) return;
  const PoolAttr attr = W::known(given);
  const auto o = static_cast<std::int32_t>(rows.column() * V);
  std::int64_t counts[V];
#pragma unroll
  for (int v = 0; v < V; ++v) counts[v] = pool::counted(attr.w, o + v, attr.counts_padding);
  each_of<V>(rows, [&](std::int64_t row) {
    const typename W::Row at_row = W::row_of(row, by_h, by_d);
    const T* const volume = in + at_row.volume * attr.in_volume();
    C sums[V] = {};
    W::each(attr, volume, at_row.z, at_row.y, o, convert<T>(C(0)), [&](int v, auto, C value) { sums[v] += value; });
    const std::int64_t count = W::counted_lines(attr, at_row.z, at_row.y);
    Pack<T, V> means;
#pragma unroll
    for (int v = 0; v < V; ++v) means.values[v] = convert<T>(sums[v] / pool::divisor<C>(attr, count, counts[v]));
    const std::int64_t at = row * attr.w.out + o;
    detail::store_contiguous(means, out + at, attr.w.out - o, is_aligned<T, V>(out + at));
  });
}

/// The address is a multiple of V elements' size.
template <class T, int V>
__device__ void store_sums(const compute_t<T> (&sums)[V], T* out) {
  Pack<T, V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.values[v] = convert<T>(sums[v]);
  *reinterpret_cast<Pack<T, V>*>(out) = result;
}

/// Columns of `rows` are V inputs each. V > 1: places are int32.
template <class T, int V, class W>
__global__ void max_adjoint_rows(PoolAttr given, Rows rows, RowSplit by_h, RowSplit by_d, const T* __restrict__ g,
                                 pool::Indices<const void> places, T* __restrict__ out) {
  using C = compute_t<T>;
  if (rows.column() >= rows.width()) return;
  const PoolAttr attr = W::known(given);
  const auto x = static_cast<std::int32_t>(rows.column() * V);
  each_of<V>(rows, [&](std::int64_t row) {
    const typename W::Row at_row = W::row_of(row, by_h, by_d);
    const std::int64_t volume = at_row.volume * attr.out_volume();
    const std::int64_t here = (std::int64_t{at_row.z} * attr.h.in + at_row.y) * attr.w.in + x;
    const pool::Run layers = W::user_layers(attr, at_row.z), lines = pool::users(attr.h, at_row.y);
    C sums[V] = {};
#pragma unroll 1
    for (std::int32_t layer = layers.start; layer < layers.end; ++layer) {
#pragma unroll 1
      for (std::int32_t line = lines.start; line < lines.end; ++line) {
        const std::int64_t from = volume + (std::int64_t{layer} * attr.h.out + line) * attr.w.out;
        W::template each_user<V>(attr, x, [&](std::int32_t o, const auto& holds) {
          if constexpr (V == 1) {
            if (places[from + o] == here) sums[0] += convert<C>(g[from + o]);
          } else {
            const std::int32_t v_of_place =
                static_cast<const std::int32_t*>(places.data)[from + o] - static_cast<std::int32_t>(here);
            const C value = convert<C>(g[from + o]);
#pragma unroll
            for (int v = 0; v < V; ++v) {
              if (holds(v) && v_of_place == v) sums[v] += value;
            }
          }
        });
      }
    }
    store_sums(sums, out + row * attr.w.in + x);
  });
}

/// Columns of `rows` are V inputs each.
template <class T, int V, class W>
__global__ void average_adjoint_rows(PoolAttr given, Rows rows, RowSplit by_h, RowSplit by_d, const T* __restrict__ g,
                                     T* __restrict__ out) {
  using C = compute_t<T>;
  if (rows.column() >= rows.width()) return;
  const PoolAttr attr = W::known(given);
  const auto x = static_cast<std::int32_t>(rows.column() * V);
  each_of<V>(rows, [&](std::int64_t row) {
    const typename W::Row at_row = W::row_of(row, by_h, by_d);
    const T* const volume = g + at_row.volume * attr.out_volume();
    const pool::Run layers = W::user_layers(attr, at_row.z), lines = pool::users(attr.h, at_row.y);
    C sums[V] = {};
#pragma unroll 1
    for (std::int32_t layer = layers.start; layer < layers.end; ++layer) {
#pragma unroll 1
      for (std::int32_t line = lines.start; line < lines.end; ++line) {
        const std::int64_t count = W::counted_lines(attr, layer, line);
        const T* const from = volume + (std::int64_t{layer} * attr.h.out + line) * attr.w.out;
        W::template each_user<V>(attr, x, [&](std::int32_t o, const auto& holds) {
          const C by = pool::divisor<C>(attr, count, pool::counted(attr.w, o, attr.counts_padding));
          const C share = convert<C>(from[o]) / by;
#pragma unroll
          for (int v = 0; v < V; ++v) {
            if (holds(v)) sums[v] += share;
          }
        });
      }
    }
    store_sums(sums, out + row * attr.w.in + x);
  });
}

template <class Bits>
__global__ void take_rows(Rows rows, std::int64_t from_volume, const Bits* __restrict__ in,
                          pool::Indices<const void> places, Bits* __restrict__ out) {
  const std::int64_t x = rows.column();
  if (x >= rows.width()) return;
  rows.each([&](std::int64_t row) {
    const std::int64_t place = places[row * rows.width() + x];
    out[row * rows.width() + x] = place < 0 ? Bits(0) : in[row * from_volume + place];
  });
}

__global__ void claim_places(Rows rows, std::int64_t volume, const std::int64_t* __restrict__ places,
                             std::int64_t* __restrict__ winners) {
  const std::int64_t x = rows.column();
  if (x >= rows.width()) return;
  rows.each([&](std::int64_t row) {
    const std::int64_t place = places[row * rows.width() + x];
    if (place < 0 || place >= volume) return;
    atomicMax(reinterpret_cast<long long*>(winners + row * volume + place), static_cast<long long>(x));
  });
}

__global__ void keep_winners(Rows rows, std::int64_t volume, const std::int64_t* __restrict__ places,
                             const std::int64_t* __restrict__ winners, std::int64_t* __restrict__ taken) {
  const std::int64_t x = rows.column();
  if (x >= rows.width()) return;
  rows.each([&](std::int64_t row) {
    const std::int64_t at = row * rows.width() + x, place = places[at];
    const bool wins = place >= 0 && place < volume && winners[row * volume + place] == x;
    taken[at] = wins ? place : -1;
  });
}

/// Launches kernel(attr, rows, splits by height and depth, args...) over rows of `out`, whose axes have the extents
/// kOf; a thread's columns have `pack` elements.
template <std::int32_t PoolAxis::*kOf, class... Params, class... Args>
void over_rows(void (*kernel)(Params...), const Tensor& out, const PoolAttr& attr, std::int64_t pack,
               const Args&... args) {
  const std::int64_t width = attr.w.*kOf, count = out.numel() / width;
  const Rows rows(count, (width - 1) / pack + 1);
  launch(kernel, rows.geometry(), out.device().index, attr, rows, RowSplit(attr.h.*kOf, count),
         RowSplit(attr.d.*kOf, count), args...);
}

/// Returns true if rows of x consist of whole, aligned packs.
template <class T>
bool in_packs(const PoolAttr& attr, const T* x) {
  return attr.w.in % kVector<T> == 0 && is_aligned<T, kVector<T>>(x);
}

/// use.operator()<W>() for the way in which windows of x, a tensor of T, are read or written.
template <class T, class Use>
void with_windows(const PoolAttr& attr, const T* x, const Use& use) {
  if (attr.axes == 3) return use.template operator()<Windows<0, 0, true>>();
  const PoolAxis& w = attr.w;
  const std::int32_t kernel = attr.h.kernel == w.kernel ? w.kernel : 0;
  if constexpr (sizeof(T) <= 4) {
    // No window begins behind a row, as a window of padding alone would.
    const bool packs = in_packs(attr, x) && w.dilation == 1 && w.padding == (kernel - 1) / 2 &&
                       (w.out - 1) * std::int64_t{w.stride} < w.in;
    if (packs && kernel == 2 && w.stride == 2) return use.template operator()<Windows<2, 2>>();
    if (packs && kernel == 3 && w.stride == 2) return use.template operator()<Windows<3, 2>>();
    if (packs && kernel == 3 && w.stride == 1) return use.template operator()<Windows<3, 1>>();
  }
  if (kernel == 2) return use.template operator()<Windows<2, 0>>();
  if (kernel == 3) return use.template operator()<Windows<3, 0>>();
  use.template operator()<Windows<0, 0>>();
}

/// use.operator()<V, W>() for gradients: V elements of x per thread.
template <class T, class Use>
void with_packs(const PoolAttr& attr, const T* x, bool packs, const Use& use) {
  if (packs && in_packs(attr, x)) {
    return with_windows(attr, x, [&]<class W>() { use.template operator()<kVector<T>, typename W::OfGradients>(); });
  }
  if (attr.axes == 3) return use.template operator()<1, Windows<0, 0, true>>();
  use.template operator()<1, Windows<0, 0>>();
}

}  // namespace

void max_pool(std::span<const Tensor> in, std::span<Tensor> out, const PoolAttr& attr) {
  if (attr.channels > 0) return channels_last::max_pool(in, out, attr);
  visit_floating(out[0].dtype(), [&]<class T>() {
    with_windows(attr, in[0].data<T>(), [&]<class W>() {
      over_rows<&PoolAxis::out>(max_rows<T, W>, out[0], attr, W::template kResults<T>, in[0].data<T>(),
                                out[0].mutable_data<T>(), pool::writable_indices_of(out[1]));
    });
  });
}

void max_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  if (attr.channels > 0) return channels_last::max_pool_adjoint(in, out, attr);
  visit_floating(out.dtype(), [&]<class T>() {
    T* const x = out.mutable_data<T>();
    with_packs<T>(attr, x, in[1].dtype() == kInt32, [&]<int V, class W>() {
      over_rows<&PoolAxis::in>(max_adjoint_rows<T, V, W>, out, attr, V, in[0].data<T>(), pool::indices_of(in[1]), x);
    });
  });
}

void avg_pool(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  if (attr.channels > 0) return channels_last::avg_pool(in, out, attr);
  visit_floating(out.dtype(), [&]<class T>() {
    with_windows(attr, in[0].data<T>(), [&]<class W>() {
      over_rows<&PoolAxis::out>(average_rows<T, W>, out, attr, W::template kResults<T>, in[0].data<T>(),
                                out.mutable_data<T>());
    });
  });
}

void avg_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  if (attr.channels > 0) return channels_last::avg_pool_adjoint(in, out, attr);
  visit_floating(out.dtype(), [&]<class T>() {
    T* const x = out.mutable_data<T>();
    with_packs<T>(attr, x, true, [&]<int V, class W>() {
      over_rows<&PoolAxis::in>(average_adjoint_rows<T, V, W>, out, attr, V, in[0].data<T>(), x);
    });
  });
}

void take(std::span<const Tensor> in, Tensor& out, std::int64_t volumes) {
  const Rows rows(volumes, out.numel() / volumes);
  visit_bits(out.dtype(), [&]<class Bits>() {
    launch(take_rows<Bits>, rows.geometry(), out.device().index, rows, in[0].numel() / volumes,
           static_cast<const Bits*>(in[0].raw_data()), pool::indices_of(in[1]),
           static_cast<Bits*>(out.raw_mutable_data()));
  });
}

void unpool_places(std::span<const Tensor> in, std::span<Tensor> out, const UnpoolAttr& attr) {
  const std::int64_t volumes = out[0].numel() / attr.volume;
  const Rows rows(volumes, in[0].numel() / volumes);
  const int device = out[0].device().index;
  fill(out[0], -1.0);
  const auto* places = in[0].data<std::int64_t>();
  auto* winners = out[0].mutable_data<std::int64_t>();
  launch(claim_places, rows.geometry(), device, rows, attr.volume, places, winners);
  launch(keep_winners, rows.geometry(), device, rows, attr.volume, places, static_cast<const std::int64_t*>(winners),
         out[1].mutable_data<std::int64_t>());
}

}  // namespace adjoint::cuda
