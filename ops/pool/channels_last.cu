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
  std::int32_t y, x;
  std::int64_t at;  // of the first channel, in the result
};

/// Calls op(pixel) for every pixel; columns of `rows` are packs of channels.
template <class Op>
__global__ void each_pixel(Op op, Rows rows, RowSplit by_w, RowSplit by_h, std::int64_t channels) {
  const std::int64_t channel = rows.column() * Op::kPack;
  if (rows.column() >= rows.width()) return;
  rows.each([&](std::int64_t row) {
    std::int64_t x = row, y = by_w(x);
    const std::int64_t sample = by_h(y);
    op({sample, channel, static_cast<std::int32_t>(y), static_cast<std::int32_t>(x), row * channels + channel});
  });
}

/// Shared by the four operators. kPack: the channels of a thread.
template <class T, int V>
struct Pool {
  static constexpr int kPack = V;
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
  /// Calls visit(place in the plane, channels) for the window of a result.
  template <class Visit>
  __device__ void each_input(const T* in, const Pixel& o, const Visit& visit) const {
    const pool::Run lines = pool::window(attr.h, o.y), columns = pool::window(attr.w, o.x);
    for (std::int32_t y = lines.start; y < lines.end; y += lines.step) {
      for (std::int32_t x = columns.start; x < columns.end; x += columns.step) {
        const std::int64_t place = std::int64_t{y} * attr.w.in + x;
        visit(place, load(in, o.sample * attr.in_plane() + place, o.channel));
      }
    }
  }
  /// Calls visit(y, x, result's pixel) for the results whose windows may hold an input.
  template <class Visit>
  __device__ void each_user(const Pixel& i, const Visit& visit) const {
    const pool::Run lines = pool::users(attr.h, i.y), columns = pool::users(attr.w, i.x);
    for (std::int32_t y = lines.start; y < lines.end; ++y) {
      for (std::int32_t x = columns.start; x < columns.end; ++x) {
        visit(y, x, i.sample * attr.out_plane() + std::int64_t{y} * attr.w.out + x);
      }
    }
  }
};

template <class T, int V>
struct Max : Pool<T, V> {
  using Base = Pool<T, V>;
  using typename Base::C;

  const T* in;
  T* out;
  pool::Indices<void> places;

  __device__ void operator()(const Pixel& o) const {
    const pool::Run lines = pool::window(this->attr.h, o.y), columns = pool::window(this->attr.w, o.x);
    const bool empty = lines.start >= lines.end || columns.start >= columns.end;
    const std::int64_t first = empty ? -1 : std::int64_t{lines.start} * this->attr.w.in + columns.start;
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

template <class T, int V>
struct MaxAdjoint : Pool<T, V> {
  using Base = Pool<T, V>;
  using typename Base::C;

  const T* g;
  pool::Indices<const void> places;
  T* out;

  __device__ void operator()(const Pixel& i) const {
    const std::int64_t here = std::int64_t{i.y} * this->attr.w.in + i.x;
    C sums[V] = {};
    this->each_user(i, [&](std::int32_t, std::int32_t, std::int64_t pixel) {
      const Pack<T, V> values = this->load(g, pixel, i.channel);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if (places[pixel * this->attr.channels + i.channel + v] == here) sums[v] += convert<C>(values.values[v]);
      }
    });
    Base::store(sums, out + i.at);
  }
};

template <class T, int V>
struct Average : Pool<T, V> {
  using Base = Pool<T, V>;
  using typename Base::C;

  const T* in;
  T* out;

  __device__ void operator()(const Pixel& o) const {
    C sums[V] = {};
    this->each_input(in, o, [&](std::int64_t, const Pack<T, V>& values) {
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] += convert<C>(values.values[v]);
    });
    const C by = pool::divisor<C>(this->attr, pool::counted(this->attr.h, o.y, this->attr.counts_padding),
                                  pool::counted(this->attr.w, o.x, this->attr.counts_padding));
#pragma unroll
    for (int v = 0; v < V; ++v) sums[v] /= by;
    Base::store(sums, out + o.at);
  }
};

template <class T, int V>
struct AverageAdjoint : Pool<T, V> {
  using Base = Pool<T, V>;
  using typename Base::C;

  const T* g;
  T* out;

  __device__ void operator()(const Pixel& i) const {
    C sums[V] = {};
    this->each_user(i, [&](std::int32_t y, std::int32_t x, std::int64_t pixel) {
      const C by = pool::divisor<C>(this->attr, pool::counted(this->attr.h, y, this->attr.counts_padding),
                                    pool::counted(this->attr.w, x, this->attr.counts_padding));
      const Pack<T, V> values = this->load(g, pixel, i.channel);
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] += convert<C>(values.values[v]) / by;
    });
    Base::store(sums, out + i.at);
  }
};

/// Launches Op<T, V>{attr, args...} over the pixels of `out`, (samples, height, width, channels). V channels fill 16
/// bytes if the operands allow it.
template <template <class, int> class Op, class T, class... Args>
void over_pixels(const Tensor& in, const Tensor& out, const PoolAttr& attr, std::int64_t height, std::int64_t width,
                 const Args&... args) {
  constexpr int kVector = static_cast<int>(16 / sizeof(T));
  const auto run = [&]<int V>() {
    const std::int64_t pixels = out.numel() / attr.channels;
    const Rows rows(pixels, attr.channels / V);
    launch(each_pixel<Op<T, V>>, rows.geometry(), out.device().index, Op<T, V>{{attr}, args...}, rows,
           RowSplit(width, pixels), RowSplit(height, pixels), attr.channels);
  };
  const bool in_packs = attr.channels % kVector == 0 && is_aligned<T, kVector>(in.data<T>()) &&
                        is_aligned<T, kVector>(static_cast<const T*>(out.raw_data()));
  in_packs ? run.template operator()<kVector>() : run.template operator()<1>();
}

}  // namespace

void max_pool(std::span<const Tensor> in, std::span<Tensor> out, const PoolAttr& attr) {
  visit_floating(out[0].dtype(), [&]<class T>() {
    over_pixels<Max, T>(in[0], out[0], attr, attr.h.out, attr.w.out, in[0].data<T>(), out[0].mutable_data<T>(),
                        pool::writable_indices_of(out[1]));
  });
}

void max_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    over_pixels<MaxAdjoint, T>(in[0], out, attr, attr.h.in, attr.w.in, in[0].data<T>(), pool::indices_of(in[1]),
                               out.mutable_data<T>());
  });
}

void avg_pool(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    over_pixels<Average, T>(in[0], out, attr, attr.h.out, attr.w.out, in[0].data<T>(), out.mutable_data<T>());
  });
}

void avg_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    over_pixels<AverageAdjoint, T>(in[0], out, attr, attr.h.in, attr.w.in, in[0].data<T>(), out.mutable_data<T>());
  });
}

}  // namespace adjoint::cuda::channels_last
