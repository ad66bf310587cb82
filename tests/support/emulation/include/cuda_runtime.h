// The part of CUDA's language and built-in functions that kernels use, for emulator.h. Not CUDA's own header.
#pragma once

#include <adjoint/tests/support/emulation/emulator.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__
#define __CUDA_ARCH_FEAT_SM90_ALL 1

using dim3 = adjoint::emulation::Dim3;
#define threadIdx (::adjoint::emulation::current().index)
#define blockIdx (::adjoint::emulation::current().block_index)
#define blockDim (::adjoint::emulation::launch().block)
#define gridDim (::adjoint::emulation::launch().grid)

struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

using std::max;
using std::min;

template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
inline std::uint32_t __float_as_uint(float v) { return std::bit_cast<std::uint32_t>(v); }
inline float __uint_as_float(std::uint32_t v) { return std::bit_cast<float>(v); }
inline int __clz(int v) { return std::countl_zero(static_cast<std::uint32_t>(v)); }
inline int __popc(unsigned v) { return std::popcount(v); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline std::uint32_t __funnelshift_r(std::uint32_t low, std::uint32_t high, std::uint32_t shift) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> (shift & 31));
}
inline std::uint32_t __funnelshift_l(std::uint32_t low, std::uint32_t high, std::uint32_t shift) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) << (shift & 31) >> 32);
}
inline std::uint32_t __byte_perm(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= static_cast<std::uint32_t>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  }
  return result;
}

inline void __syncthreads() {
  const auto& block = blockDim;
  adjoint::emulation::block_barrier(0, static_cast<int>(block.x * block.y * block.z));
}
inline void __syncwarp(unsigned = 0xffffffffU) { adjoint::emulation::warp_collective(nullptr, {}); }
inline void __threadfence() {}

/// The value of lane `from(lane)`. Every lane of the warp takes part.
template <class T, class From>
T emulated_shuffle(T value, From from) {
  const unsigned lane = threadIdx.x % 32;
  struct Slot {
    T value, result;
    unsigned from;
  } slot{value, value, from(lane)};
  adjoint::emulation::warp_collective(&slot, [](void* const* slots) {
    for (int i = 0; i < 32; ++i) {
      auto* to = static_cast<Slot*>(slots[i]);
      if (to->from < 32) to->result = static_cast<Slot*>(slots[to->from])->value;
    }
  });
  return slot.result;
}
inline bool __all_sync(unsigned, bool value) {
  adjoint::emulation::warp_collective(&value, [](void* const* slots) {
    bool all = true;
    for (int i = 0; i < 32; ++i) all = all && *static_cast<bool*>(slots[i]);
    for (int i = 0; i < 32; ++i) *static_cast<bool*>(slots[i]) = all;
  });
  return value;
}
inline unsigned __ballot_sync(unsigned, bool value) {
  struct Slot {
    bool value;
    unsigned result;
  } slot{value, 0};
  adjoint::emulation::warp_collective(&slot, [](void* const* slots) {
    unsigned ballot = 0;
    for (unsigned i = 0; i < 32; ++i) ballot |= static_cast<Slot*>(slots[i])->value ? 1U << i : 0U;
    for (int i = 0; i < 32; ++i) static_cast<Slot*>(slots[i])->result = ballot;
  });
  return slot.result;
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return emulated_shuffle(value, [lane](unsigned) { return static_cast<unsigned>(lane) % 32; });
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulated_shuffle(value, [mask](unsigned lane) { return lane ^ static_cast<unsigned>(mask); });
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned distance) {
  return emulated_shuffle(value, [distance](unsigned lane) { return lane + distance; });
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  return emulated_shuffle(value, [distance](unsigned lane) { return lane - distance; });
}
