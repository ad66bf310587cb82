// Pooling on the CPU: results one row per step, gradients one plane per step.
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/memory/scratch.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/pool/kernels.h>

#include <algorithm>
#include <limits>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kElementsPerTask = 1 << 14;

std::int64_t grain_of(std::int64_t elements) { return std::max<std::int64_t>(1, kElementsPerTask / elements); }

std::int64_t reach(const PoolAxis& axis) { return axis.kernel > 0 ? axis.kernel : axis.in / axis.out + 1; }

ScratchVector<pool::Run> windows(const PoolAxis& axis) {
  ScratchVector<pool::Run> all;
  for (std::int32_t o = 0; o < axis.out; ++o) all.push_back(pool::window(axis, o));
  return all;
}

/// The divisors for sums of row y of windows.
template <class C>
void divisors(const PoolAttr& attr, std::int32_t y, ScratchVector<C>& row) {
  const std::int64_t count_y = pool::counted(attr.h, y, attr.counts_padding);
  for (std::int32_t x = 0; x < attr.w.out; ++x) {
    const std::int64_t count_x = pool::counted(attr.w, x, attr.counts_padding);
    row[static_cast<std::size_t>(x)] = pool::divisor<C>(attr, count_y, count_x);
  }
}

template <class T>
void max_rows(const Tensor& in, Tensor& out, const pool::Indices<void>& places, const PoolAttr& attr) {
  using C = compute_t<T>;
  const T* from = in.data<T>();
  T* to = out.mutable_data<T>();
  const std::int64_t width = attr.w.out;
  const ScratchVector<pool::Run> columns = windows(attr.w);
  const std::int64_t grain = grain_of(width * reach(attr.h) * reach(attr.w));
  parallel_ranges(out.numel() / width, grain, [&, from, to](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* const plane = from + row / attr.h.out * attr.in_plane();
      const pool::Run lines = pool::window(attr.h, static_cast<std::int32_t>(row % attr.h.out));
      for (std::int64_t x = 0; x < width; ++x) {
        const pool::Run run = columns[static_cast<std::size_t>(x)];
        const bool empty = lines.start >= lines.end || run.start >= run.end;
        C best = -std::numeric_limits<C>::infinity();
        std::int64_t place = empty ? -1 : std::int64_t{lines.start} * attr.w.in + run.start;
        for (std::int32_t y = lines.start; y < lines.end; y += lines.step) {
          const std::int64_t line = std::int64_t{y} * attr.w.in;
          for (std::int64_t at = line + run.start; at < line + run.end; at += run.step) {
            const C value = convert<C>(plane[at]);
            if (value > best || value != value) {
              best = value;
              place = at;
            }
          }
        }
        to[row * width + x] = convert<T>(best);
        if (places.data != nullptr) places.put(row * width + x, place);
      }
    }
  });
}

template <class T>
void average_rows(const Tensor& in, Tensor& out, const PoolAttr& attr) {
  using C = compute_t<T>;
  const T* from = in.data<T>();
  T* to = out.mutable_data<T>();
  const std::int64_t width = attr.w.out;
  const ScratchVector<pool::Run> columns = windows(attr.w);
  const std::int64_t grain = grain_of(attr.w.in * reach(attr.h));
  parallel_ranges(out.numel() / width, grain, [&, from, to](std::int64_t begin, std::int64_t end) {
    ScratchVector<C> sums(static_cast<std::size_t>(attr.w.in)), by(static_cast<std::size_t>(width));
    for (std::int64_t row = begin; row < end; ++row) {
      const auto o = static_cast<std::int32_t>(row % attr.h.out);
      const pool::Run lines = pool::window(attr.h, o);
      divisors(attr, o, by);
      std::fill(sums.begin(), sums.end(), C(0));
      for (std::int32_t y = lines.start; y < lines.end; ++y) {
        const T* const line = from + row / attr.h.out * attr.in_plane() + std::int64_t{y} * attr.w.in;
        for (std::size_t x = 0; x < sums.size(); ++x) sums[x] += convert<C>(line[x]);
      }
      for (std::size_t x = 0; x < columns.size(); ++x) {
        C sum = C(0);
        for (std::int32_t i = columns[x].start; i < columns[x].end; ++i) sum += sums[static_cast<std::size_t>(i)];
        to[row * width + static_cast<std::int64_t>(x)] = convert<T>(sum / by[x]);
      }
    }
  });
}

/// Calls add(plane, sums) for each plane of `out`, which receives the sums.
template <class T, class Add>
void sum_planes(Tensor& out, const PoolAttr& attr, const Add& add) {
  using C = compute_t<T>;
  T* to = out.mutable_data<T>();
  const std::int64_t size = attr.in_plane();
  parallel_ranges(out.numel() / size, grain_of(size + attr.out_plane()), [&, to](std::int64_t begin, std::int64_t end) {
    ScratchVector<C> sums(static_cast<std::size_t>(size));
    for (std::int64_t plane = begin; plane < end; ++plane) {
      std::fill(sums.begin(), sums.end(), C(0));
      add(plane, sums.data());
      std::transform(sums.begin(), sums.end(), to + plane * size, [](C sum) { return convert<T>(sum); });
    }
  });
}

}  // namespace

void max_pool(std::span<const Tensor> in, std::span<Tensor> out, const PoolAttr& attr) {
  if (attr.channels > 0) return channels_last::max_pool(in, out, attr);
  const pool::Indices<void> places = pool::writable_indices_of(out[1]);
  visit_floating(out[0].dtype(), [&]<class T>() { max_rows<T>(in[0], out[0], places, attr); });
}

void max_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  if (attr.channels > 0) return channels_last::max_pool_adjoint(in, out, attr);
  const pool::Indices<const void> places = pool::indices_of(in[1]);
  visit_floating(out.dtype(), [&]<class T>() {
    const T* g = in[0].data<T>();
    sum_planes<T>(out, attr, [&](std::int64_t plane, compute_t<T>* sums) {
      for (std::int64_t o = plane * attr.out_plane(); o < (plane + 1) * attr.out_plane(); ++o) {
        if (places[o] >= 0) sums[places[o]] += convert<compute_t<T>>(g[o]);
      }
    });
  });
}

void avg_pool(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  if (attr.channels > 0) return channels_last::avg_pool(in, out, attr);
  visit_floating(out.dtype(), [&]<class T>() { average_rows<T>(in[0], out, attr); });
}

void avg_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  if (attr.channels > 0) return channels_last::avg_pool_adjoint(in, out, attr);
  const ScratchVector<pool::Run> columns = windows(attr.w);
  visit_floating(out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T* g = in[0].data<T>();
    sum_planes<T>(out, attr, [&](std::int64_t plane, C* sums) {
      ScratchVector<C> by(columns.size());
      for (std::int32_t o = 0; o < attr.h.out; ++o) {
        const pool::Run lines = pool::window(attr.h, o);
        const T* const row = g + plane * attr.out_plane() + std::int64_t{o} * attr.w.out;
        divisors(attr, o, by);
        for (std::size_t x = 0; x < columns.size(); ++x) {
          const C share = convert<C>(row[x]) / by[x];
          for (std::int32_t y = lines.start; y < lines.end; ++y) {
            for (std::int32_t i = columns[x].start; i < columns[x].end; ++i)
              sums[std::int64_t{y} * attr.w.in + i] += share;
          }
        }
      }
    });
  });
}

void take(std::span<const Tensor> in, Tensor& out, std::int64_t planes) {
  const pool::Indices<const void> places = pool::indices_of(in[1]);
  const std::int64_t from_plane = in[0].numel() / planes, size = out.numel() / planes;
  visit_floating(out.dtype(), [&]<class T>() {
    const T* from = in[0].data<T>();
    T* to = out.mutable_data<T>();
    parallel_ranges(out.numel(), kElementsPerTask, [&, from, to](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        to[i] = places[i] < 0 ? convert<T>(0.0F) : from[i / size * from_plane + places[i]];
      }
    });
  });
}

void unpool_places(std::span<const Tensor> in, std::span<Tensor> out, const UnpoolAttr& attr) {
  const std::int64_t *places = in[0].data<std::int64_t>(), size = in[0].numel() / (out[0].numel() / attr.plane);
  std::int64_t *winners = out[0].mutable_data<std::int64_t>(), *taken = out[1].mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < in[0].numel(); ++i) {
    ADJOINT_CHECK(places[i] >= -1 && places[i] < attr.plane,
                  "max_unpool: indices must be in [0, {}), or -1; got {} for a result {}", attr.plane, places[i],
                  attr.shape);
  }
  std::fill_n(winners, out[0].numel(), std::int64_t{-1});
  for (std::int64_t i = 0; i < in[0].numel(); ++i) {
    if (places[i] >= 0) winners[i / size * attr.plane + places[i]] = i % size;
  }
  for (std::int64_t i = 0; i < in[0].numel(); ++i) {
    const bool wins = places[i] >= 0 && winners[i / size * attr.plane + places[i]] == i % size;
    taken[i] = wins ? places[i] : -1;
  }
}

}  // namespace adjoint::cpu
