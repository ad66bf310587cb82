// Pooling on the CPU: results one row per step, gradients one volume per step.
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

/// Row `row` of windows, counted through all volumes.
struct WindowRow {
  std::int64_t volume;
  std::int32_t z, y;

  WindowRow(const PoolAttr& attr, std::int64_t row)
      : volume(row / attr.h.out / attr.d.out),
        z(static_cast<std::int32_t>(row / attr.h.out % attr.d.out)),
        y(static_cast<std::int32_t>(row % attr.h.out)) {}
  std::int64_t begin(const PoolAttr& attr) const { return volume * attr.in_volume(); }
};

/// The first places of the lines of inputs that a row of windows holds, in a volume.
void lines_of(const PoolAttr& attr, const WindowRow& row, ScratchVector<std::int64_t>& lines) {
  lines.clear();
  const pool::Run layers = pool::window(attr.d, row.z), rows = pool::window(attr.h, row.y);
  for (std::int32_t z = layers.start; z < layers.end; z += layers.step) {
    for (std::int32_t y = rows.start; y < rows.end; y += rows.step) {
      lines.push_back((std::int64_t{z} * attr.h.in + y) * attr.w.in);
    }
  }
}

/// The divisors for the sums of a row of windows.
template <class C>
void divisors(const PoolAttr& attr, const WindowRow& row, ScratchVector<C>& by) {
  const std::int64_t lines =
      pool::counted(attr.d, row.z, attr.counts_padding) * pool::counted(attr.h, row.y, attr.counts_padding);
  for (std::int32_t x = 0; x < attr.w.out; ++x) {
    const std::int64_t columns = pool::counted(attr.w, x, attr.counts_padding);
    by[static_cast<std::size_t>(x)] = pool::divisor<C>(attr, lines, columns);
  }
}

template <class T>
void max_rows(const Tensor& in, Tensor& out, const pool::Indices<void>& places, const PoolAttr& attr) {
  using C = compute_t<T>;
  const T* from = in.data<T>();
  T* to = out.mutable_data<T>();
  const std::int64_t width = attr.w.out;
  const ScratchVector<pool::Run> columns = windows(attr.w);
  const std::int64_t grain = grain_of(width * reach(attr.d) * reach(attr.h) * reach(attr.w));
  parallel_ranges(out.numel() / width, grain, [&, from, to](std::int64_t begin, std::int64_t end) {
    ScratchVector<std::int64_t> lines;
    for (std::int64_t row = begin; row < end; ++row) {
      const WindowRow at_row(attr, row);
      const T* const volume = from + at_row.begin(attr);
      lines_of(attr, at_row, lines);
      for (std::int64_t x = 0; x < width; ++x) {
        const pool::Run run = columns[static_cast<std::size_t>(x)];
        const bool empty = lines.empty() || run.start >= run.end;
        C best = -std::numeric_limits<C>::infinity();
        std::int64_t place = empty ? -1 : lines[0] + run.start;
        for (const std::int64_t line : lines) {
          for (std::int64_t at = line + run.start; at < line + run.end; at += run.step) {
            const C value = convert<C>(volume[at]);
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
  const std::int64_t grain = grain_of(attr.w.in * reach(attr.d) * reach(attr.h));
  parallel_ranges(out.numel() / width, grain, [&, from, to](std::int64_t begin, std::int64_t end) {
    ScratchVector<C> sums(static_cast<std::size_t>(attr.w.in)), by(static_cast<std::size_t>(width));
    ScratchVector<std::int64_t> lines;
    for (std::int64_t row = begin; row < end; ++row) {
      const WindowRow at_row(attr, row);
      lines_of(attr, at_row, lines);
      divisors(attr, at_row, by);
      std::fill(sums.begin(), sums.end(), C(0));
      for (const std::int64_t first : lines) {
        const T* const line = from + at_row.begin(attr) + first;
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

/// Calls add(volume, sums) for each volume of `out`, which receives the sums.
template <class T, class Add>
void sum_volumes(Tensor& out, const PoolAttr& attr, const Add& add) {
  using C = compute_t<T>;
  T* to = out.mutable_data<T>();
  const std::int64_t size = attr.in_volume(), grain = grain_of(size + attr.out_volume());
  parallel_ranges(out.numel() / size, grain, [&, to](std::int64_t begin, std::int64_t end) {
    ScratchVector<C> sums(static_cast<std::size_t>(size));
    for (std::int64_t volume = begin; volume < end; ++volume) {
      std::fill(sums.begin(), sums.end(), C(0));
      add(volume, sums.data());
      std::transform(sums.begin(), sums.end(), to + volume * size, [](C sum) { return convert<T>(sum); });
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
    sum_volumes<T>(out, attr, [&](std::int64_t volume, compute_t<T>* sums) {
      for (std::int64_t o = volume * attr.out_volume(); o < (volume + 1) * attr.out_volume(); ++o) {
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
    sum_volumes<T>(out, attr, [&](std::int64_t volume, C* sums) {
      ScratchVector<C> by(columns.size());
      ScratchVector<std::int64_t> lines;
      const std::int64_t rows = std::int64_t{attr.d.out} * attr.h.out;
      for (std::int64_t row = volume * rows; row < (volume + 1) * rows; ++row) {
        const WindowRow at_row(attr, row);
        lines_of(attr, at_row, lines);
        divisors(attr, at_row, by);
        for (std::size_t x = 0; x < columns.size(); ++x) {
          const C share = convert<C>(g[row * attr.w.out + static_cast<std::int64_t>(x)]) / by[x];
          for (const std::int64_t line : lines) {
            for (std::int32_t i = columns[x].start; i < columns[x].end; ++i) sums[line + i] += share;
          }
        }
      }
    });
  });
}

void take(std::span<const Tensor> in, Tensor& out, std::int64_t volumes) {
  const pool::Indices<const void> places = pool::indices_of(in[1]);
  const std::int64_t from_volume = in[0].numel() / volumes, size = out.numel() / volumes;
  visit_floating(out.dtype(), [&]<class T>() {
    const T* from = in[0].data<T>();
    T* to = out.mutable_data<T>();
    parallel_ranges(out.numel(), kElementsPerTask, [&, from, to](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        to[i] = places[i] < 0 ? convert<T>(0.0F) : from[i / size * from_volume + places[i]];
      }
    });
  });
}

void unpool_places(std::span<const Tensor> in, std::span<Tensor> out, const UnpoolAttr& attr) {
  const std::int64_t *places = in[0].data<std::int64_t>(), size = in[0].numel() / (out[0].numel() / attr.volume);
  std::int64_t *winners = out[0].mutable_data<std::int64_t>(), *taken = out[1].mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < in[0].numel(); ++i) {
    ADJOINT_CHECK(places[i] >= -1 && places[i] < attr.volume,
                  "max_unpool: indices must be in [0, {}), or -1; got {} for a result {}", attr.volume, places[i],
                  attr.shape);
  }
  std::fill_n(winners, out[0].numel(), std::int64_t{-1});
  for (std::int64_t i = 0; i < in[0].numel(); ++i) {
    if (places[i] >= 0) winners[i / size * attr.volume + places[i]] = i % size;
  }
  for (std::int64_t i = 0; i < in[0].numel(); ++i) {
    const bool wins = places[i] >= 0 && winners[i / size * attr.volume + places[i]] == i % size;
    taken[i] = wins ? places[i] : -1;
  }
}

}  // namespace adjoint::cpu
