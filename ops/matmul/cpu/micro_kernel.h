// The innermost loop of every matrix product on the CPU, in GCC's vector extensions, for the instruction set of the
// including file.
//
//   C (channels, positions) = B (inner, channels)^T * A (inner, positions)
//
// A panel of A holds kPanelVectors vectors of positions for each inner index; a block of B holds up to kMaxBlock
// channels. All functions here have internal linkage and do not use the standard library: otherwise a function that one
// file emits with AVX-512 instructions could become the copy that the whole program calls.
#pragma once

#include <cstdint>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace adjoint::cpu {
namespace {

using Index = std::int64_t;

// kMaxBlock * kPanelVectors accumulators, kPanelVectors operands and a broadcast fill the registers: 32 with AVX-512,
// else 16.
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kMaxBlock = 8;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32, kMaxBlock = 4;
#else
constexpr int kVectorBytes = 16, kMaxBlock = 4;
#endif
constexpr int kPanelVectors = 3;

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
constexpr Index kLanes = kVectorBytes / static_cast<Index>(sizeof(T));
template <class T>
constexpr Index kPanel = kPanelVectors* kLanes<T>;  // positions

constexpr Index minimum(Index a, Index b) { return a < b ? a : b; }
constexpr Index maximum(Index a, Index b) { return a > b ? a : b; }
constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

template <class T>
inline Vector<T> load(const T* from) {
  Vector<T> value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
inline void store(T* to, Vector<T> value) {
  __builtin_memcpy(to, &value, sizeof value);
}

// a0 b0 a1 b1 ..., from the lower and from the upper halves.
template <class T>
inline Vector<T> interleave_low(Vector<T> a, Vector<T> b) {
  constexpr int n = kLanes<T>;
  if constexpr (n == 16) {
    return __builtin_shufflevector(a, b, 0, n, 1, n + 1, 2, n + 2, 3, n + 3, 4, n + 4, 5, n + 5, 6, n + 6, 7, n + 7);
  } else if constexpr (n == 8) {
    return __builtin_shufflevector(a, b, 0, n, 1, n + 1, 2, n + 2, 3, n + 3);
  } else if constexpr (n == 4) {
    return __builtin_shufflevector(a, b, 0, n, 1, n + 1);
  } else {
    return __builtin_shufflevector(a, b, 0, n);
  }
}
template <class T>
inline Vector<T> interleave_high(Vector<T> a, Vector<T> b) {
  constexpr int n = kLanes<T>, h = n / 2;
  if constexpr (n == 16) {
    return __builtin_shufflevector(a, b, h, n + h, h + 1, n + h + 1, h + 2, n + h + 2, h + 3, n + h + 3, h + 4,
                                   n + h + 4, h + 5, n + h + 5, h + 6, n + h + 6, h + 7, n + h + 7);
  } else if constexpr (n == 8) {
    return __builtin_shufflevector(a, b, h, n + h, h + 1, n + h + 1, h + 2, n + h + 2, h + 3, n + h + 3);
  } else if constexpr (n == 4) {
    return __builtin_shufflevector(a, b, h, n + h, h + 1, n + h + 1);
  } else {
    return __builtin_shufflevector(a, b, h, n + h);
  }
}

#if defined(__AVX512F__)
using LaneMask = unsigned;

// Lanes [begin, end), clamped to the existing lanes.
template <class T>
inline LaneMask lane_mask(Index begin, Index end) {
  begin = maximum(0, minimum(begin, kLanes<T>));
  end = maximum(begin, minimum(end, kLanes<T>));
  return ((1U << end) - 1U) & ~((1U << begin) - 1U);
}
// Touches only the mask's lanes of memory; the other lanes are zero.
inline __m512 masked_load(const float* from, LaneMask mask) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
}
inline __m512d masked_load(const double* from, LaneMask mask) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), from);
}
inline void masked_store(float* to, LaneMask mask, __m512 value) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), value);
}
inline void masked_store(double* to, LaneMask mask, __m512d value) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>(mask), value);
}
#endif

// c (channels, vectors * lanes; channels `pitch` apart) = or += the sum over k < inner of a[k] (vectors) * b[k]
// (channels).
template <class T, int vectors, int channels>
void multiply_panel(Index inner, const T* __restrict a, const T* __restrict b, T* __restrict c, Index pitch, bool add) {
  Vector<T> sums[channels][vectors] = {};
  for (Index k = 0; k < inner; ++k) {
    Vector<T> left[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) left[v] = load(a + v * kLanes<T>);
#pragma GCC unroll 8
    for (int j = 0; j < channels; ++j) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[j][v] += left[v] * b[j];
    }
    a += vectors * kLanes<T>;
    b += channels;
  }
#pragma GCC unroll 8
  for (int j = 0; j < channels; ++j) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      T* to = c + j * pitch + v * kLanes<T>;
      store(to, add ? load(to) + sums[j][v] : sums[j][v]);
    }
  }
}

template <class T>
using MultiplyPanel = void (*)(Index, const T*, const T*, T*, Index, bool);

template <class T, int vectors, int channels>
MultiplyPanel<T> panel_multiplier_of(int wanted_channels) {
  if (wanted_channels == channels) return multiply_panel<T, vectors, channels>;
  if constexpr (channels > 1) {
    return panel_multiplier_of<T, vectors, channels - 1>(wanted_channels);
  } else {
    return multiply_panel<T, vectors, 1>;
  }
}

// multiply_panel for 1 to kPanelVectors vectors and 1 to kMaxBlock channels.
template <class T>
MultiplyPanel<T> panel_multiplier(int vectors, int channels) {
  switch (vectors) {
    case 1: return panel_multiplier_of<T, 1, kMaxBlock>(channels);
    case 2: return panel_multiplier_of<T, 2, kMaxBlock>(channels);
    default: return panel_multiplier_of<T, 3, kMaxBlock>(channels);
  }
}

}  // namespace
}  // namespace adjoint::cpu
