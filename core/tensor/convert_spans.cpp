#include <adjoint/core/tensor/convert_spans.h>

#include <adjoint/core/base/cpu_targets.h>
#include <adjoint/core/tensor/convert.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace adjoint {
namespace {

template <class T>
void copy_span(const void* in, void* out, std::int64_t n) {
  std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(T));
}

template <class From, class To>
void convert_span(const void* in, void* out, std::int64_t n) {
  const auto* const from = static_cast<const From*>(in);
  auto* const to = static_cast<To*>(out);
  for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
}

// Special loops for 16-bit formats: kernels spend much of their time here, and the formats need many instructions.
template <class From, class To>
void convert_reduced(const void* in, void* out, std::int64_t n) {
  run_for_isa<CpuIsa::kAvx2>([=] { convert_span<From, To>(in, out, n); });
}

// To float32, before a 16-bit format.
template <class From>
void round_span_to_odd(const void* in, void* out, std::int64_t n) {
  const auto* const from = static_cast<const From*>(in);
  auto* const to = static_cast<float*>(out);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<From, std::int64_t>) {
      to[i] = detail::round_to_odd(detail::round_to_odd(from[i]));
    } else {
      to[i] = detail::round_to_odd(static_cast<double>(from[i]));
    }
  }
}

using Loop = void (*)(const void*, void*, std::int64_t);

constexpr bool is_reduced(DType dtype) { return is_floating_point(dtype) && element_size(dtype) == 2; }

Loop widening(DType from) {
  return from == kFloat16 ? convert_reduced<float16, float> : convert_reduced<bfloat16, float>;
}
Loop narrowing(DType to) { return to == kFloat16 ? convert_reduced<float, float16> : convert_reduced<float, bfloat16>; }

// From types other than the 16-bit formats.
Loop to_float32_for_narrowing(DType from) {
  switch (from) {
    case kFloat64: return round_span_to_odd<double>;
    case kInt32: return round_span_to_odd<std::int32_t>;
    case kInt64: return round_span_to_odd<std::int64_t>;
    case kUInt8: return convert_span<std::uint8_t, float>;
    default: return convert_span<bool, float>;
  }
}

// Between types other than the 16-bit formats.
Loop direct(DType from, DType to) {
  return visit(from, [&]<class From>() -> Loop {
    return visit(to, [&]<class To>() -> Loop {
      if constexpr (is_reduced_float<From> || is_reduced_float<To>) {
        return nullptr;
      } else {
        return convert_span<From, To>;
      }
    });
  });
}

}  // namespace

SpanConverter::SpanConverter(DType from, DType to) : in_bytes_(element_size(from)), out_bytes_(element_size(to)) {
  if (from == to) {
    first_ = visit(from, []<class T>() -> Loop { return copy_span<T>; });
  } else if (is_reduced(from)) {
    first_ = widening(from);
    if (to != kFloat32) second_ = is_reduced(to) ? narrowing(to) : direct(kFloat32, to);
  } else if (is_reduced(to)) {
    first_ = from == kFloat32 ? narrowing(to) : to_float32_for_narrowing(from);
    if (from != kFloat32) second_ = narrowing(to);
  } else {
    first_ = direct(from, to);
  }
}

void SpanConverter::operator()(const void* in, void* out, std::int64_t n) const {
  if (second_ == nullptr) return first_(in, out, n);
  float block[kConvertBlock];
  for (std::int64_t i = 0; i < n; i += kConvertBlock) {
    const std::int64_t count = std::min(kConvertBlock, n - i);
    first_(static_cast<const std::byte*>(in) + i * in_bytes_, block, count);
    second_(block, static_cast<std::byte*>(out) + i * out_bytes_, count);
  }
}

void widen_span(DType from, const void* in, float* out, std::int64_t n) { widening(from)(in, out, n); }
void narrow_span(const float* in, DType to, void* out, std::int64_t n) { narrowing(to)(in, out, n); }

}  // namespace adjoint
