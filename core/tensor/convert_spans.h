// Converts arrays between dtypes on the CPU: the loops behind Tensor::to, and the conversions of kernels that compute
// 16-bit elements in float32. One loop per pair of dtypes is compiled here, and none in the kernels.
#pragma once

#include <adjoint/core/tensor/dtype.h>

#include <cstdint>

namespace adjoint {

/// The number of elements that a kernel converts at a time: a buffer of float32 takes 2 KB of the L1 cache.
inline constexpr std::int64_t kConvertBlock = 512;

/// Converts arrays of one dtype to another as convert() does (core/tensor/convert.h). Pairs with a 16-bit format go
/// through float32, a block at a time; wider types are rounded to odd first, so that the second rounding gives the
/// result of a single one.
class SpanConverter {
 public:
  SpanConverter(DType from, DType to);
  /// Writes out[i] from in[i], i < n. The arrays do not overlap.
  void operator()(const void* in, void* out, std::int64_t n) const;

 private:
  using Loop = void (*)(const void* in, void* out, std::int64_t n);
  Loop first_;
  Loop second_ = nullptr;  // after first_ has written a block of float32
  std::int64_t in_bytes_, out_bytes_;
};

/// float16 or bfloat16 elements as float32.
void widen_span(DType from, const void* in, float* out, std::int64_t n);
/// float32 elements rounded to float16 or bfloat16.
void narrow_span(const float* in, DType to, void* out, std::int64_t n);

template <class T>
void widen_span(const T* in, float* out, std::int64_t n) {
  widen_span(dtype_of<T>, in, out, n);
}
template <class T>
void narrow_span(const float* in, T* out, std::int64_t n) {
  narrow_span(in, dtype_of<T>, out, n);
}

}  // namespace adjoint
