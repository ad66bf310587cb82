// layer_norm and similar functions in one read of x: lanes hold rows, walk over them, and keep the weights. For .cu
// files.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/norm/cuda/held_rows.cuh>

#include <cstdint>

namespace adjoint::cuda::norm {

template <class A>
struct MomentsToStatistics : reduce::KeepMoments<A> {
  using Out = Statistics<A>;
  ADJOINT_HD static Out finish(const reduce::Moments<A>& m) { return {m.mean, m.rest, m.m2 / m.count}; }
};

template <class T, int kPacks>
using WalkedCopies = HeldCopies<T, 1, kPacks, 3>;

// Without an activation or a residual: rows of whole packs whose channels are their elements.
template <class T, int kPacks>
__global__ void __launch_bounds__(kHeldThreads<T>, sizeof(T) == 2 ? 3 : 4)
    norm_walk(const __grid_constant__ Norm<T> norm, const __grid_constant__ HeldRows held,
              Statistics<compute_t<T>>* found, T* y) {
  using A = compute_t<T>;
  constexpr int kV = kPack<T>, kBlock = kHeldThreads<T>;
  constexpr bool kIsShort = is_reduced_float<T>;
  using Held = HeldPlace<T, kPacks>;
  using Channels = HeldChannels<T, kPacks>;
  const Held place(held);
  WalkedCopies<T, kPacks> copies(place, {norm.x});
  unsigned char* const memory = ptx::dynamic_smem() + WalkedCopies<T, kPacks>::kBytes;
  const Channels weights(memory, norm.weight.of_rows(), 1.0F, place);
  const Channels biases(memory + Channels::bytes(place.lanes), norm.bias.of_rows(), 0.0F, place);
  __syncthreads();
  struct Parts {
    A sum, squares;
  };
  const auto sum_of = [&](A value) { return add_held<kBlock>(value, place.lanes, [](A a, A b) { return a + b; }); };

  const auto origin_of = [&](std::int64_t row) {
    return kIsShort || row >= place.end ? A{0} : convert<A>(norm.x[row * place.length]);
  };
  A next_origin = origin_of(place.begin + place.group);
  const A count = static_cast<A>(place.length), by = A{1} / count;
  for (std::int64_t from = place.begin; from < place.end; from += place.groups) {
    const std::int64_t row = from + place.group;
    const A origin = next_origin;
    next_origin = origin_of(row + place.groups);
    copies.wait();
    A x[kPacks][kV];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) norm.widen(copies.read(0, p), x[p]);
    copies.pop();
    copies.fetch();

    // Numbers become distances from their mean, and zeros past a row's end stay zeros. The mean is computed relative to
    // one of them, and moments relative to the mean, which also recovers the mean's rounding error. For 16-bit numbers
    // float32's rounding is far below their own.
    A pivot{0};
    const auto each = [&](A from_all, const auto& f) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const A of_pack = place.holds(p) ? from_all : A{0};
#pragma unroll
        for (int v = 0; v < kV; ++v) f(x[p][v], of_pack);
      }
    };
    if (norm.centred) {
      A sum{0};
      if constexpr (kIsShort) {
        each(A{0}, [&](A value, A) { sum += value; });
        pivot = sum_of(sum) * by;
      } else {
        each(origin, [&](A value, A o) { sum += value - o; });
        pivot = origin + sum_of(sum) / count;
      }
      each(pivot, [&](A& value, A m) { value -= m; });
    }
    Statistics<A> statistics;
    if (kIsShort || !norm.centred) {
      A squares{0};
      each(A{0}, [&](A value, A) { squares += value * value; });
      squares = sum_of(squares);
      statistics = {pivot, A{0}, kIsShort ? squares * by : squares / count};
    } else {
      Parts parts{A{0}, A{0}};
      each(A{0}, [&](A value, A) {
        parts.sum += value;
        parts.squares += value * value;
      });
      parts = add_held<kBlock>(parts, place.lanes, [](const Parts& a, const Parts& b) {
        return Parts{a.sum + b.sum, a.squares + b.squares};
      });
      statistics = MomentsToStatistics<A>::finish(reduce::moments_about(count, pivot, parts.sum, parts.squares));
    }
    if (row >= place.end) continue;
    if (place.lane == 0) found[row] = statistics;
    const Line<A> line{0, 0, A{1}, A{0}};
    const A offset = kIsShort ? A{0} : (pivot - statistics.mean) - statistics.rest;
    const Affine<A> affine = norm.affine(offset, statistics, line);
    T* const to = y + row * place.length + place.column;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      A weight[kV], bias[kV];
      norm.widen(weights.read(p), weight);
      norm.widen(biases.read(p), bias);
#pragma unroll
      for (int v = 0; v < kV; ++v) x[p][v] = (x[p][v] * affine.scale + affine.shift) * weight[v] + bias[v];
      if (place.holds(p)) norm.store(to, Span<kV, true>{p * Held::kStep}, x[p]);
    }
  }
}

// ---- On the host.

template <class T>
void run_walk(const Norm<T>& norm, const HeldRows& held, int packs, int device, Statistics<compute_t<T>>* found, T* y) {
  with_packs<T>(packs, [&]<int kPacks>() {
    const std::size_t bytes = WalkedCopies<T, kPacks>::kBytes + 2 * HeldChannels<T, kPacks>::bytes(held.lanes);
    const LaunchGeometry geometry{dim3(static_cast<unsigned>(held.blocks())), dim3(kHeldThreads<T>), bytes};
    const DeviceGuard guard(device);
    allow_smem(norm_walk<T, kPacks>, bytes);
    launch(norm_walk<T, kPacks>, geometry, device, norm, held, found, y);
  });
}

}  // namespace adjoint::cuda::norm
