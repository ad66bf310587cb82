// Pooling of channels_last on CUDA: a thread has the channels of one pixel that fill 16 bytes, or a single one, and
// computes them alone, in a fixed order. Neighbouring threads have neighbouring channels.
#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/pool/kernels.h>
#include <adjoint/core/cuda/rows.cuh>

#include <cstdint>
#include <limits>

namespace adjoint::cuda::channels_last {
namespace {

/// A result's pixel and channels.
struct Pixel {
  std::int64_t sample, channel;
  std::int32_t z, y, x;
  std::int64_t at;  // of the first channel, in the result
};

/// Calls op(pixel) for every pixel; columns of `rows` are packs of channels.
template <class Op>
__global__ void each_pixel(Op op, Rows rows, RowSplit by_w, RowSplit by_h, RowSplit by_d, std::int64_t channels) {
  const std::int64_t channel = rows.column() * Op::kPack;
  if (rows.column() >= rows.width()) return;
  rows.each([&](std::int64_t row) {
    std::int64_t x = row, y = by_w(x), z = by_h(y), sample = z;
    if constexpr (Op::kHasDepth) {
      sample = by_d(z);
    } else {
      z = 0;
    }
    op({sample, channel, static_cast<std::int32_t>(z), static_cast<std::int32_t>(y), static_cast<std::int32_t>(x),
        row * channels + channel});
  });
}

/// The inputs of a window, or the windows that may hold an input.
struct Runs {
  pool::Run layers, lines, columns;

  __device__ bool empty() const {
    return layers.start >= layers.end || lines.start >= lines.end || columns.start >= columns.end;
  }
  /// Calls visit(z, y, x), row by row.
  template <class Visit>
  __device__ void each(const Visit& visit) const {
    for (std::int32_t z = layers.start; z < layers.end; z += layers.step) {
      for (std::int32_t y = lines.start; y < lines.end; y += lines.step) {
        for (std::int32_t x = columns.start; x < columns.end; x += columns.step) visit(z, y, x);
      }
    }
  }
};

/// Shared by the four operators. kPack: the channels of a thread. kDeep: volumes have a depth; otherwise they are
/// planes, whose code has no third axis.
template <class T, int V, bool kDeep>
struct Pool {
  static constexpr int kPack = V;
  static constexpr bool kHasDepth = kDeep;
  using C = compute_t<T>;

  PoolAttr attr;

  /// The channels of element `pixel` of a tensor.
  template <class U>
  __device__ Pack<U, V> load(const U* from, std::int64_t pixel, std::int64_t channel) const {
    return *reinterpret_cast<const Pack<U, V>*>(from + pixel * attr.channels + channel);
  }
  __device__ static void store(const C (&values)[V], T* to) {
    Pack<T, V> pack;
#pragma unroll
    for (int v = 0; v < V; ++v) pack.values[v] = convert<T>(values[v]);
    *reinterpret_cast<Pack<T, V>*>(to) = pack;
  }
  __device__ Runs window(const Pixel& o) const {
    Runs runs{{0, 1, 1}, pool::window(attr.h, o.y), pool::window(attr.w, o.x)};
    if constexpr (kDeep) runs.layers = pool::window(attr.d, o.z);
    return runs;
  }
  __device__ std::int64_t place_of(std::int32_t z, std::int32_t y, std::int32_t x) const {
    return (std::int64_t{z} * attr.h.in + y) * attr.w.in + x;
  }
  /// Calls visit(place in the volume, channels) for the window of a result.
  template <class Visit>
  __device__ void each_input(const T* in, const Pixel& o, const Visit& visit) const {
    window(o).each([&](std::int32_t z, std::int32_t y, std::int32_t x) {
      const std::int64_t place = place_of(z, y, x);
      visit(place, load(in, o.sample * attr.in_volume() + place, o.channel));
    });
  }
  /// Calls visit(z, y, x, result's pixel) for the results whose windows may hold an input.
  template <class Visit>
  __device__ void each_user(const Pixel& i, const Visit& visit) const {
    Runs users{{0, 1, 1}, pool::users(attr.h, i.y), pool::users(attr.w, i.x)};
    if constexpr (kDeep) users.layers = pool::users(attr.d, i.z);
    users.each([&](std::int32_t z, std::int32_t y, std::int32_t x) {
      visit(z, y, x, i.sample * attr.out_volume() + (std::int64_t{z} * attr.h.out + y) * attr.w.out + x);
    });
  }
  /// The divisor of the sum of window (z, y, x).
  __device__ C divisor(std::int32_t z, std::int32_t y, std::int32_t x) const {
    std::int64_t lines = pool::counted(attr.h, y, attr.counts_padding);
    if constexpr (kDeep) lines *= pool::counted(attr.d, z, attr.counts_padding);
    return pool::divisor<C>(attr, lines, pool::counted(attr.w, x, attr.counts_padding));
  }
};

template <class T, int V, bool kDeep>
struct Max : Pool<T, V, kDeep> {
  using Base = Pool<T, V, kDeep>;
  using typename Base::C;

  const T* in;
  T* out;
  pool::Indices<void> places;

  __device__ void operator()(const Pixel& o) const {
    const Runs runs = this->window(o);
    const std::int64_t first =
        runs.empty() ? -1 : this->place_of(runs.layers.start, runs.lines.start, runs.columns.start);
    C best[V];
    std::int64_t place[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      best[v] = -std::numeric_limits<C>::infinity();
      place[v] = first;
    }
    this->each_input(in, o, [&](std::int64_t at, const Pack<T, V>& values) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const C value = convert<C>(values.values[v]);
        if (value > best[v] || value != value) {
          best[v] = value;
          place[v] = at;
        }
      }
    });
    Base::store(best, out + o.at);
    if (places.data == nullptr) return;
#pragma unroll
    for (int v = 0; v < V; ++v) places.put(o.at + v, place[v]);
  }
};

template <class T, int V, bool kDeep>
struct MaxAdjoint : Pool<T, V, kDeep> {
  using Base = Pool<T, V, kDeep>;
  using typename Base::C;

  const T* g;
  pool::Indices<const void> places;
  T* out;

  __device__ void operator()(const Pixel& i) const {
    const std::int64_t here = this->place_of(i.z, i.y, i.x);
    C sums[V] = {};
    this->each_user(i, [&](std::int32_t, std::int32_t, std::int32_t, std::int64_t pixel) {
      const Pack<T, V> values = this->load(g, pixel, i.channel);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if (places[pixel * this->attr.channels + i.channel + v] == here) sums[v] += convert<C>(values.values[v]);
      }
    });
    Base::store(sums, out + i.at);
  }
};

template <class T, int V, bool kDeep>
struct Average : Pool<T, V, kDeep> {
  using Base = Pool<T, V, kDeep>;
  using typename Base::C;

  const T* in;
  T* out;

  __device__ void operator()(const Pixel& o) const {
    C sums[V] = {};
    this->each_input(in, o, [&](std::int64_t, const Pack<T, V>& values) {
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] += convert<C>(values.values[v]);
    });
    const C by = this->divisor(o.z, o.y, o.x);
#pragma unroll
    for (int v = 0; v < V; ++v) sums[v] /= by;
    Base::store(sums, out + o.at);
  }
};

template <class T, int V, bool kDeep>
struct AverageAdjoint : Pool<T, V, kDeep> {
  using Base = Pool<T, V, kDeep>;
  using typename Base::C;

  const T* g;
  T* out;

  __device__ void operator()(const Pixel& i) const {
    C sums[V] = {};
    this->each_user(i, [&](std::int32_t z, std::int32_t y, std::int32_t x, std::int64_t pixel) {
      const C by = this->divisor(z, y, x);
      const Pack<T, V> values = this->load(g, pixel, i.channel);
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] += convert<C>(values.values[v]) / by;
    });
    Base::store(sums, out + i.at);
  }
};

/// Launches Op<T, V, deep>{attr, args...} over the pixels of `out`, (samples, D, H, W, channels) with the axes' extents
/// kOf. V channels fill 16 bytes if the operands allow it.
template <template <class, int, bool> class Op, class T, std::int32_t PoolAxis::*kOf, class... Args>
void over_pixels(const Tensor& in, const Tensor& out, const PoolAttr& attr, const Args&... args) {
  constexpr int kVector = static_cast<int>(16 / sizeof(T));
  const auto run = [&]<int V, bool kDeep>() {
    const std::int64_t pixels = out.numel() / attr.channels;
    const Rows rows(pixels, attr.channels / V);
    launch(each_pixel<Op<T, V, kDeep>>, rows.geometry(), out.device().index, Op<T, V, kDeep>{{attr}, args...}, rows,
           RowSplit(attr.w.*kOf, pixels), RowSplit(attr.h.*kOf, pixels), RowSplit(attr.d.*kOf, pixels), attr.channels);
  };
  const bool in_packs = attr.channels % kVector == 0 && is_aligned<T, kVector>(in.data<T>()) &&
                        is_aligned<T, kVector>(static_cast<const T*>(out.raw_data()));
  const auto with_depth = [&]<bool kDeep>() {
    in_packs ? run.template operator()<kVector, kDeep>() : run.template operator()<1, kDeep>();
  };
  attr.axes == 3 ? with_depth.template operator()<true>() : with_depth.template operator()<false>();
}

}  // namespace

void max_pool(std::span<const Tensor> in, std::span<Tensor> out, const PoolAttr& attr) {
  visit_floating(out[0].dtype(), [&]<class T>() {
    over_pixels<Max, T, &PoolAxis::out>(in[0], out[0], attr, in[0].data<T>(), out[0].mutable_data<T>(),
                                        pool::writable_indices_of(out[1]));
  });
}

void max_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    over_pixels<MaxAdjoint, T, &PoolAxis::in>(in[0], out, attr, in[0].data<T>(), pool::indices_of(in[1]),
                                              out.mutable_data<T>());
  });
}

void avg_pool(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    over_pixels<Average, T, &PoolAxis::out>(in[0], out, attr, in[0].data<T>(), out.mutable_data<T>());
  });
}

void avg_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    over_pixels<AverageAdjoint, T, &PoolAxis::in>(in[0], out, attr, in[0].data<T>(), out.mutable_data<T>());
  });
}

}  // namespace adjoint::cuda::channels_last
