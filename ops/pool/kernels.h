// Pooling by device, over volumes (D, H, W); a 2-D problem has depth 1, a 1-D problem height 1, too. For host and
// device.
//
// Windows of one size and adaptive windows differ in two functions of an axis: the inputs of a window, and the windows
// of an input. Operands are contiguous: (volumes, D, H, W), or (samples, D, H, W, channels) with `channels` set.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <span>

namespace adjoint {

/// Everything is below 2^30, including a window's extent.
struct PoolAxis {
  std::int32_t in = 1, out = 1;
  std::int32_t kernel = 1;  // 0: adaptive
  std::int32_t stride = 1, padding = 0, dilation = 1;
  Divider by_stride = {};
};

struct PoolAttr {
  std::size_t axes = 2;  // axes of the tensors' shapes that are pooled: 1 to 3
  PoolAxis d, h, w;
  std::int64_t channels = 0;   // of a pixel in channels_last; 0: pixels are single elements
  std::int64_t divisor = 0;    // for averages; 0: the number of elements
  bool counts_padding = true;  // in that number
  // Places of maxima are a result, int64; else they are kept for the gradient, int32 if that is large enough.
  bool with_indices = false;
  bool ceil_mode = false;  // the last windows may end behind the padding

  ADJOINT_HD std::int64_t in_volume() const { return std::int64_t{d.in} * h.in * w.in; }
  ADJOINT_HD std::int64_t out_volume() const { return std::int64_t{d.out} * h.out * w.out; }
};

struct UnpoolAttr {
  Shape shape;          // of the result
  std::int64_t volume;  // elements of one of the result's volumes
};

namespace pool {

/// [start, end) by `step`.
struct Run {
  std::int32_t start, end, step;
};

/// floor(a b / c) for a result below 2^31.
ADJOINT_HD inline std::int32_t scaled(std::int32_t a, std::int32_t b, std::int32_t c, std::int32_t add = 0) {
  const std::uint64_t product =
      std::uint64_t{static_cast<std::uint32_t>(a)} * static_cast<std::uint32_t>(b) + static_cast<std::uint32_t>(add);
  const auto divisor = static_cast<std::uint32_t>(c);
  if (product >> 32 == 0) return static_cast<std::int32_t>(static_cast<std::uint32_t>(product) / divisor);
  return static_cast<std::int32_t>(product / divisor);
}

/// The inputs of window o.
ADJOINT_HD inline Run window(const PoolAxis& axis, std::int32_t o) {
  if (axis.kernel == 0) return {scaled(o, axis.in, axis.out), scaled(o + 1, axis.in, axis.out, axis.out - 1), 1};
  std::int32_t start = o * axis.stride - axis.padding;
  const std::int32_t end = start + (axis.kernel - 1) * axis.dilation + 1;
  if (start < 0) start += (-start + axis.dilation - 1) / axis.dilation * axis.dilation;
  return {start, end < axis.in ? end : axis.in, axis.dilation};
}

/// The windows that may hold input i: all that do, and with dilation some others.
ADJOINT_HD inline Run users(const PoolAxis& axis, std::int32_t i) {
  if (axis.kernel == 0) return {scaled(i, axis.out, axis.in), scaled(i + 1, axis.out, axis.in, axis.in - 1), 1};
  const std::int32_t at = i + axis.padding, before = at - (axis.kernel - 1) * axis.dilation;
  const auto quotient = [&](std::int32_t n) {
    return static_cast<std::int32_t>(axis.by_stride.divide(static_cast<std::uint32_t>(n)));
  };
  const std::int32_t end = quotient(at) + 1;
  return {before <= 0 ? 0 : quotient(before - 1) + 1, end < axis.out ? end : axis.out, 1};
}

/// The inputs of an average's window o, including the padding it covers: [start, end).
ADJOINT_HD inline Run covered(const PoolAxis& axis, std::int32_t o) {
  if (axis.kernel == 0) return window(axis, o);
  const std::int32_t start = o * axis.stride - axis.padding;
  return {start, start + axis.kernel, 1};
}

/// The elements of window o that an average counts.
ADJOINT_HD inline std::int64_t counted(const PoolAxis& axis, std::int32_t o, bool counts_padding) {
  const Run run = covered(axis, o);
  const std::int32_t around = counts_padding ? axis.padding : 0;
  const std::int32_t start = run.start < -around ? -around : run.start;
  const std::int32_t end = run.end < axis.in + around ? run.end : axis.in + around;
  return end > start ? end - start : 0;
}

/// The divisor of a window's sum, of `lines` lines of `columns` elements. If it is 0, so is the sum.
template <class C>
ADJOINT_HD C divisor(const PoolAttr& attr, std::int64_t lines, std::int64_t columns) {
  if (attr.divisor != 0) return static_cast<C>(attr.divisor);
  const std::int64_t count = lines * columns;
  return count > 0 ? static_cast<C>(count) : C(1);
}

/// Places in a volume, in 32 or 64 bits.
template <class Void>
struct Indices {
  Void* data = nullptr;
  bool wide = true;

  ADJOINT_HD std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
  ADJOINT_HD void put(std::int64_t i, std::int64_t value) const {
    if (wide) {
      static_cast<std::int64_t*>(data)[i] = value;
    } else {
      static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(value);
    }
  }
};
inline Indices<const void> indices_of(const Tensor& t) { return {t.raw_data(), t.dtype() == kInt64}; }
/// For an undefined tensor, data is null.
inline Indices<void> writable_indices_of(Tensor& t) {
  return t.defined() ? Indices<void>{t.raw_mutable_data(), t.dtype() == kInt64} : Indices<void>{};
}

}  // namespace pool

#define ADJOINT_WINDOW_KERNELS                                                             \
  /* in: x; out: maxima, and their places where that is defined. */                        \
  void max_pool(std::span<const Tensor> in, std::span<Tensor> out, const PoolAttr& attr);  \
  /* in: g, places; out: of x's shape, each element the sum of the g whose place it is. */ \
  void max_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr);    \
  /* in: x; out: the means of windows. */                                                  \
  void avg_pool(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr);            \
  /* in: g; out: of x's shape. */                                                          \
  void avg_pool_adjoint(std::span<const Tensor> in, Tensor& out, const PoolAttr& attr);

#define ADJOINT_POOL_KERNELS                                                                                \
  ADJOINT_WINDOW_KERNELS                                                                                    \
  /* in: x (volumes, any), places (volumes, any); out: of places' shape, x at the places, 0 at negative. */ \
  void take(std::span<const Tensor> in, Tensor& out, std::int64_t volumes);                                 \
  /* in: places of elements; out: of the unpooled shape, which element each takes, or -1; of in's shape, */ \
  /* the place where an element was taken, or -1. */                                                        \
  void unpool_places(std::span<const Tensor> in, std::span<Tensor> out, const UnpoolAttr& attr);

namespace cpu {
ADJOINT_POOL_KERNELS
/// Of (samples, D, H, W, channels).
namespace channels_last {
ADJOINT_WINDOW_KERNELS
}  // namespace channels_last
}  // namespace cpu
namespace cuda {
ADJOINT_POOL_KERNELS
namespace channels_last {
ADJOINT_WINDOW_KERNELS
}  // namespace channels_last
}  // namespace cuda
#undef ADJOINT_POOL_KERNELS
#undef ADJOINT_WINDOW_KERNELS

}  // namespace adjoint
