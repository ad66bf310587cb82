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

/// Calls pixel(sample, y, x, sums, to) for each pixel of `out`, (samples, height, width, channels); `sums` are
/// (channels) zeros, which the call turns into the pixel's values; they are then converted.
template <class T, class PixelOf>
void over_pixels(Tensor& out, const PoolAttr& attr, std::int64_t height, std::int64_t width, const PixelOf& pixel) {
  using C = compute_t<T>;
  T* const to = out.mutable_data<T>();
  const std::int64_t channels = attr.channels, row = width * channels;
  parallel_ranges(out.numel() / row, std::max<std::int64_t>(1, kElementsPerTask / row),
                  [&, to](std::int64_t begin, std::int64_t end) {
                    std::vector<C> values(static_cast<std::size_t>(channels));
                    for (std::int64_t line = begin; line < end; ++line) {
                      for (std::int64_t x = 0; x < width; ++x) {
                        std::fill(values.begin(), values.end(), C(0));
                        const std::int64_t at = (line * width + x) * channels;
                        pixel(line / height, static_cast<std::int32_t>(line % height), static_cast<std::int32_t>(x),
                              values.data(), at);
                        std::transform(values.begin(), values.end(), to + at, [](C v) { return convert<T>(v); });
                      }
                    }
                  });
}

/// Calls visit(place in the plane, its first channel) for the window of a result.
template <class T, class Visit>
void each_input(const PoolAttr& attr, const T* in, std::int64_t sample, std::int32_t o_y, std::int32_t o_x,
                const Visit& visit) {
  const pool::Run lines = pool::window(attr.h, o_y), columns = pool::window(attr.w, o_x);
  for (std::int32_t y = lines.start; y < lines.end; y += lines.step) {
    for (std::int32_t x = columns.start; x < columns.end; x += columns.step) {
      const std::int64_t place = std::int64_t{y} * attr.w.in + x;
      visit(place, in + (sample * attr.in_plane() + place) * attr.channels);
    }
  }
}

/// Calls visit(y, x, first channel's place) for the results whose windows may hold an input.
template <class Visit>
void each_user(const PoolAttr& attr, std::int64_t sample, std::int32_t y, std::int32_t x, const Visit& visit) {
  const pool::Run lines = pool::users(attr.h, y), columns = pool::users(attr.w, x);
  for (std::int32_t o_y = lines.start; o_y < lines.end; ++o_y) {
    for (std::int32_t o_x = columns.start; o_x < columns.end; ++o_x) {
      visit(o_y, o_x, (sample * attr.out_plane() + std::int64_t{o_y} * attr.w.out + o_x) * attr.channels);
    }
  }
}

template <class C>
C divisor(const PoolAttr& attr, std::int32_t o_y, std::int32_t o_x) {
  return pool::divisor<C>(attr, pool::counted(attr.h, o_y, attr.counts_padding),
                          pool::counted(attr.w, o_x, attr.counts_padding));
}

}  // namespace

void max_pool(std::span<const Tensor> in, std::span<Tensor> out, const PoolAttr& attr) {
  const pool::Indices<void> places = pool::writable_indices_of(out[1]);
  visit_floating(out[0].dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T* const x = in[0].data<T>();
    over_pixels<T>(out[0], attr, attr.h.out, attr.w.out,
                   [&](std::int64_t sample, std::int32_t o_y, std::int32_t o_x, C* best, std::int64_t at) {
                     const pool::Run lines = pool::window(attr.h, o_y), columns = pool::window(attr.w, o_x);
                     const bool empty = lines.start >= lines.end || columns.start >= columns.end;
                     const std::int64_t first = empty ? -1 : std::int64_t{lines.start} * attr.w.in + columns.start;
                     for (std::int64_t c = 0; c < attr.channels; ++c) {
                       best[c] = -std::numeric_limits<C>::infinity();
                       if (places.data != nullptr) places.put(at + c, first);
                     }
                     each_input(attr, x, sample, o_y, o_x, [&](std::int64_t place, const T* values) {
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
    over_pixels<T>(out, attr, attr.h.in, attr.w.in,
                   [&](std::int64_t sample, std::int32_t y, std::int32_t x, C* sums, std::int64_t) {
                     const std::int64_t here = std::int64_t{y} * attr.w.in + x;
                     each_user(attr, sample, y, x, [&](std::int32_t, std::int32_t, std::int64_t from) {
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
    over_pixels<T>(out, attr, attr.h.out, attr.w.out,
                   [&](std::int64_t sample, std::int32_t o_y, std::int32_t o_x, C* sums, std::int64_t) {
                     each_input(attr, from, sample, o_y, o_x, [&](std::int64_t, const T* values) {
                       for (std::int64_t c = 0; c < attr.channels; ++c) sums[c] += convert<C>(values[c]);
                     });
                     const C by = divisor<C>(attr, o_y, o_x);
                     for (std::int64_t c = 0; c < attr.channels; ++c) sums[c] /= by;
                   });
  });
}

void avg_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T* const g = in[0].data<T>();
    over_pixels<T>(out, attr, attr.h.in, attr.w.in,
                   [&](std::int64_t sample, std::int32_t y, std::int32_t x, C* sums, std::int64_t) {
                     each_user(attr, sample, y, x, [&](std::int32_t o_y, std::int32_t o_x, std::int64_t from) {
                       const C by = divisor<C>(attr, o_y, o_x);
                       for (std::int64_t c = 0; c < attr.channels; ++c) sums[c] += convert<C>(g[from + c]) / by;
                     });
                   });
  });
}

}  // namespace adjoint::cpu::channels_last
