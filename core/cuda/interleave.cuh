// Copies that transpose a few neighbours: pixels of two to four channels from planes and back, pixel_shuffle and its
// inverse, parts that become neighbours. On one side the ways (such as channels) are adjacent; on the other each has
// its own rows. A thread moves neighbours of all ways, so that both sides move packs. For .cu files.
#pragma once

#include <adjoint/core/cuda/elementwise.cuh>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace adjoint::cuda::detail {

inline constexpr int kFewestWays = 2, kMostWays = 4;
inline constexpr std::size_t kMostBytes = 16;  // per thread

template <class Bits, int kWays>
inline constexpr int kNeighbours = static_cast<int>(std::bit_floor(kMostBytes / (sizeof(Bits) * kWays)));
// Elements of a pack on the side where the ways are adjacent: all of a thread's or, for three ways, as many as on the
// other side.
template <class Bits, int kWays>
inline constexpr int kTogether = (kWays % 2 == 0 ? kWays : 1) * kNeighbours<Bits, kWays>;

template <class Bits, int kWays, bool kJoined>
__global__ void __launch_bounds__(kElementwiseThreads)
    interleave(const __grid_constant__ StridedLoops<2> loops, std::uint32_t count, std::int64_t apart_stride,
               const Bits* __restrict__ in, Bits* __restrict__ out) {
  constexpr int W = kNeighbours<Bits, kWays>, J = kTogether<Bits, kWays>, kPieces = kWays * W / J;
  const std::uint32_t i = blockIdx.x * kElementwiseThreads + threadIdx.x;
  if (i >= count) return;
  std::int64_t offsets[2];
  loops.locate(i, offsets);
  in += offsets[1];
  out += offsets[0];
  Pack<Bits, W> apart[kWays];
  Pack<Bits, J> together[kPieces];
  const auto each = [&](const auto& move) {
#pragma unroll
    for (int k = 0; k < kWays * W; ++k) {
      move(apart[k % kWays].values[k / kWays], together[k / J].values[k % J]);
    }
  };
  if constexpr (kJoined) {
#pragma unroll
    for (int a = 0; a < kWays; ++a) apart[a] = *reinterpret_cast<const Pack<Bits, W>*>(in + a * apart_stride);
    each([](const Bits& from, Bits& to) { to = from; });
#pragma unroll
    for (int p = 0; p < kPieces; ++p) *reinterpret_cast<Pack<Bits, J>*>(out + p * J) = together[p];
  } else {
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      together[p] = *reinterpret_cast<const Pack<Bits, J>*>(in + p * J);
    }
    each([](Bits& to, const Bits& from) { to = from; });
#pragma unroll
    for (int a = 0; a < kWays; ++a) *reinterpret_cast<Pack<Bits, W>*>(out + a * apart_stride) = apart[a];
  }
}

// Joined: the ways are adjacent in the result, else in the source. Returns false if there are not kWays, or if rows do
// not consist of whole, aligned packs.
template <class Bits, int kWays, bool kJoined>
bool copy_interleaved(const StridedPlan<2>& plan, int device, const Bits* in, Bits* out) {
  constexpr int W = kNeighbours<Bits, kWays>, J = kTogether<Bits, kWays>;
  constexpr std::size_t kOne = kJoined ? 0 : 1, kOther = 1 - kOne;
  int ways = -1, along = -1;
  for (int axis = 0; axis < plan.rank; ++axis) {
    if (plan.strides[kOne][axis] == 1 && plan.sizes[axis] == kWays) ways = axis;
    if (plan.strides[kOther][axis] == 1 && plan.strides[kOne][axis] == kWays) along = axis;
  }
  if (ways < 0 || along < 0 || plan.numel == 0) return false;
  const std::int64_t apart_stride = plan.strides[kOther][ways];
  const Bits *const one = kJoined ? out : in, *const other = kJoined ? in : out;
  bool packs =
      plan.sizes[along] % W == 0 && apart_stride % W == 0 && is_aligned<Bits, J>(one) && is_aligned<Bits, W>(other);
  // Neighbouring threads have neighbouring packs.
  StridedPlan<2> rest;
  rest.rank = 0;
  rest.numel = 1;
  const auto keep = [&](int axis, std::int64_t pack) {
    const int at = rest.rank++;
    rest.numel *= rest.sizes[at] = plan.sizes[axis] / pack;
    for (int n = 0; n < 2; ++n) rest.strides[n][at] = plan.strides[n][axis] * pack;
  };
  keep(along, W);
  for (int axis = 0; axis < plan.rank; ++axis) {
    if (axis == ways || axis == along) continue;
    keep(axis, 1);
    packs = packs && plan.strides[kOne][axis] % J == 0 && plan.strides[kOther][axis] % W == 0;
  }
  if (!packs || !StridedLoops<2>::fits(plan)) return false;
  launch(interleave<Bits, kWays, kJoined>, covering_geometry(rest.numel), device, StridedLoops<2>(rest),
         static_cast<std::uint32_t>(rest.numel), apart_stride, in, out);
  return true;
}

// Returns false if nothing was copied.
template <class Bits, int kWays = kFewestWays>
bool copy_interleaved(const StridedPlan<2>& plan, int device, const Bits* in, Bits* out) {
  if constexpr (kWays > kMostWays || sizeof(Bits) * kWays > kMostBytes) {
    return false;
  } else {
    return copy_interleaved<Bits, kWays, true>(plan, device, in, out) ||
           copy_interleaved<Bits, kWays, false>(plan, device, in, out) ||
           copy_interleaved<Bits, kWays + 1>(plan, device, in, out);
  }
}

}  // namespace adjoint::cuda::detail
