// Pooling of channels_last on the CPU: a row of the result per step, all channels of a pixel in one loop.
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/pool/kernels.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace adjoint::cpu::channels_last {
namespace {

constexpr std::int64_t kElementsPerTask = 1 << 14;

struct Pixel {
  std::int64_t sample;
  std::int32_t z, y, x;
};

/// Calls pixel(at, sums, to) for each pixel of `out`, (samples, D, H, W, channels) with the axes' extents kOf; `sums`
/// are (channels) zeros, which the call turns into the pixel's values; they are then converted.
template <std::int32_t PoolAxis::*kOf, class T, class PixelOf>
void over_pixels(Tensor& out, const PoolAttr& attr, const PixelOf& pixel) {
  using C = compute_t<T>;
  T* const to = out.mutable_data<T>();
  const std::int64_t depth = attr.d.*kOf, height = attr.h.*kOf, width = attr.w.*kOf;
  const std::int64_t channels = attr.channels, row = width * channels;
  parallel_ranges(out.numel() / row, std::max<std::int64_t>(1, kElementsPerTask / row),
                  [&, to](std::int64_t begin, std::int64_t end) {
                    std::vector<C> values(static_cast<std::size_t>(channels));
                    for (std::int64_t line = begin; line < end; ++line) {
                      Pixel here{line / height / depth, static_cast<std::int32_t>(line / height % depth),
                                 static_cast<std::int32_t>(line % height), 0};
                      for (std::int64_t x = 0; x < width; ++x) {
                        std::fill(values.begin(), values.end(), C(0));
                        const std::int64_t at = (line * width + x) * channels;
                        here.x = static_cast<std::int32_t>(x);
                        pixel(here, values.data(), at);
                        std::transform(values.begin(), values.end(), to + at, [](C v) { return convert<T>(v); });
                      }
                    }
                  });
}

/// The inputs of a window, or the windows that may hold an input.
struct Runs {
  pool::Run layers, lines, columns;

  bool empty() const { return layers.start >= layers.end || lines.start >= lines.end || columns.start >= columns.end; }
  /// Calls visit(z, y, x), row by row.
  template <class Visit>
  void each(const Visit& visit) const {
    for (std::int32_t z = layers.start; z < layers.end; z += layers.step) {
      for (std::int32_t y = lines.start; y < lines.end; y += lines.step) {
        for (std::int32_t x = columns.start; x < columns.end; x += columns.step) visit(z, y, x);
      }
    }
  }
};

Runs window(const PoolAttr& attr, const Pixel& o) {
  return {pool::window(attr.d, o.z), pool::window(attr.h, o.y), pool::window(attr.w, o.x)};
}

std::int64_t place_of(const PoolAttr& attr, std::int32_t z, std::int32_t y, std::int32_t x) {
  return (std::int64_t{z} * attr.h.in + y) * attr.w.in + x;
}

/// Calls visit(place in the volume, its first channel) for the window of a result.
template <class T, class Visit>
void each_input(const PoolAttr& attr, const T* in, const Pixel& o, const Visit& visit) {
  window(attr, o).each([&](std::int32_t z, std::int32_t y, std::int32_t x) {
    const std::int64_t place = place_of(attr, z, y, x);
    visit(place, in + (o.sample * attr.in_volume() + place) * attr.channels);
  });
}

/// Calls visit(result, first channel's place) for the results whose windows may hold an input.
template <class Visit>
void each_user(const PoolAttr& attr, const Pixel& i, const Visit& visit) {
  const Runs users{pool::users(attr.d, i.z), pool::users(attr.h, i.y), pool::users(attr.w, i.x)};
  users.each([&](std::int32_t z, std::int32_t y, std::int32_t x) {
    const std::int64_t place = (std::int64_t{z} * attr.h.out + y) * attr.w.out + x;
    visit(Pixel{i.sample, z, y, x}, (i.sample * attr.out_volume() + place) * attr.channels);
  });
}

template <class C>
C divisor(const PoolAttr& attr, const Pixel& o) {
  const std::int64_t layers = pool::counted(attr.d, o.z, attr.counts_padding);
  return pool::divisor<C>(attr, layers * pool::counted(attr.h, o.y, attr.counts_padding),
                          pool::counted(attr.w, o.x, attr.counts_padding));
}

}  // namespace

void max_pool(std::span<const Tensor> in, std::span<Tensor> out, const PoolAttr& attr) {
  const pool::Indices<void> places = pool::writable_indices_of(out[1]);
  visit_floating(out[0].dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T* const x = in[0].data<T>();
    over_pixels<&PoolAxis::out, T>(out[0], attr, [&](const Pixel& o, C* best, std::int64_t at) {
      const Runs runs = window(attr, o);
      const std::int64_t first =
          runs.empty() ? -1 : place_of(attr, runs.layers.start, runs.lines.start, runs.columns.start);
      for (std::int64_t c = 0; c < attr.channels; ++c) {
        best[c] = -std::numeric_limits<C>::infinity();
        if (places.data != nullptr) places.put(at + c, first);
      }
      each_input(attr, x, o, [&](std::int64_t place, const T* values) {
        for (std::int64_t c = 0; c < attr.channels; ++c) {
          const C value = convert<C>(values[c]);
          if (!(value > best[c]) && value == value) continue;
          best[c] = value;
          if (places.data != nullptr) places.put(at + c, place);
        }
      });
    });
  });
}

void max_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  const pool::Indices<const void> places = pool::indices_of(in[1]);
  visit_floating(out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T* const g = in[0].data<T>();
    over_pixels<&PoolAxis::in, T>(out, attr, [&](const Pixel& i, C* sums, std::int64_t) {
      const std::int64_t here = place_of(attr, i.z, i.y, i.x);
      each_user(attr, i, [&](const Pixel&, std::int64_t from) {
        for (std::int64_t c = 0; c < attr.channels; ++c) {
          if (places[from + c] == here) sums[c] += convert<C>(g[from + c]);
        }
      });
    });
  });
}

void avg_pool(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T* const from = in[0].data<T>();
    over_pixels<&PoolAxis::out, T>(out, attr, [&](const Pixel& o, C* sums, std::int64_t) {
      each_input(attr, from, o, [&](std::int64_t, const T* values) {
        for (std::int64_t c = 0; c < attr.channels; ++c) sums[c] += convert<C>(values[c]);
      });
      const C by = divisor<C>(attr, o);
      for (std::int64_t c = 0; c < attr.channels; ++c) sums[c] /= by;
    });
  });
}

void avg_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T* const g = in[0].data<T>();
    over_pixels<&PoolAxis::in, T>(out, attr, [&](const Pixel& i, C* sums, std::int64_t) {
      each_user(attr, i, [&](const Pixel& o, std::int64_t from) {
        const C by = divisor<C>(attr, o);
        for (std::int64_t c = 0; c < attr.channels; ++c) sums[c] += convert<C>(g[from + c]) / by;
      });
    });
  });
}

}  // namespace adjoint::cpu::channels_last
