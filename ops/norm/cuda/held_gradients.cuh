// All gradients of layer_norm and similar functions in one read of x and the gradient: lanes hold rows, and add up
// channels as they go. For .cu files.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/norm/cuda/gradient_span.cuh>
#include <adjoint/ops/norm/cuda/held_rows.cuh>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda::norm {

template <class T, int kPacks, int kStages>
using GradientCopies = HeldCopies<T, 2, kPacks, kStages>;

// All gradients in one read, without an activation. A thread has the same channels in each row, so it adds up theirs as
// it goes; `of_blocks` (blocks, channels), or null, receives a block's sums. Registers hold the channels' sums, so
// values computed from a row for its sums are computed again for x's gradient.
template <class T, int kPacks, int kStages>
__global__ void __launch_bounds__(kHeldThreads<T>, sizeof(T) == 2 ? 2 : 3)
    norm_held_gradients(const __grid_constant__ Norm<T> norm, const __grid_constant__ HeldRows held, const T* grad,
                        T* dx, Sums<compute_t<T>>* of_blocks) {
  using A = compute_t<T>;
  using S = Sums<A>;
  constexpr int kV = kPack<T>, kBlock = kHeldThreads<T>;
  constexpr bool kIsShort = is_reduced_float<T>;
  using Held = HeldPlace<T, kPacks>;
  using Copies = GradientCopies<T, kPacks, kStages>;
  const Held place(held);
  Copies copies(place, {norm.x, grad});
  const HeldChannels<T, kPacks> weights(ptx::dynamic_smem() + Copies::kBytes, norm.weight.of_rows(), 1.0F, place);
  __syncthreads();
  S channels[kPacks][kV]{};

  struct Found {
    Statistics<A> of;
    A rstd;
  };
  const auto statistics_of = [&](std::int64_t row) {
    return row < place.end ? norm.statistics[row] : Statistics<A>{A{0}, A{0}, A{1}};
  };
  // Past a row's end all values are zeros, and so are their contributions. For 16-bit numbers, whose rounding is far
  // above float32's, normal() is one instruction.
  const auto normal = [&](const Found& found, A shift, A x) {
    return kIsShort ? x * found.rstd + shift : norm.normal(x, found.of, found.rstd);
  };

  Statistics<A> next = statistics_of(place.begin + place.group);
  for (std::int64_t from = place.begin; from < place.end; from += place.groups) {
    const std::int64_t row = from + place.group;
    const Found found{next, norm.rstd(next)};
    const A shift = -found.of.mean * found.rstd;
    copies.wait();
    S sums{A{0}, A{0}};
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      A x[kV], g[kV], w[kV];
      norm.widen(copies.read(0, p), x);
      norm.widen(copies.read(1, p), g);
      norm.widen(weights.read(p), w);
#pragma unroll
      for (int v = 0; v < kV; ++v) {
        const A n = normal(found, shift, x[v]), h = g[v] * w[v];
        sums.plain += h;
        sums.normal += h * n;
        channels[p][v].plain += g[v];
        channels[p][v].normal += g[v] * n;
      }
    }
    copies.fetch();
    next = statistics_of(row + place.groups);
    if (dx != nullptr) {
      sums = add_held<kBlock>(sums, place.lanes, [](S a, S b) { return AddSums<A>{}.combine(a, b); });
      const A count = static_cast<A>(place.length);
      const S means{norm.centred ? sums.plain / count : A{0}, sums.normal / count};
      // rstd (h - plain - n normal), for 16-bit numbers as h rstd + (x slope + rest).
      const A slope = -means.normal * found.rstd * found.rstd, rest = -means.plain * found.rstd - found.of.mean * slope;
      T* const to = dx + row * place.length + place.column;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        A x[kV], g[kV], w[kV];
        norm.widen(copies.read(0, p), x);
        norm.widen(copies.read(1, p), g);
        norm.widen(weights.read(p), w);
#pragma unroll
        for (int v = 0; v < kV; ++v) {
          g[v] = kIsShort ? g[v] * (w[v] * found.rstd) + (x[v] * slope + rest)
                          : found.rstd * (g[v] * w[v] - means.plain - normal(found, shift, x[v]) * means.normal);
        }
        if (row < place.end && place.holds(p)) norm.store(to, Span<kV, true>{p * Held::kStep}, g);
      }
    }
    copies.pop();
  }

  if (of_blocks == nullptr) return;
  // (packs, elements of a pack, threads), in the memory of the copies, the last of which belong to no row.
  ptx::cp_async_wait<0>();
  S* const shared = reinterpret_cast<S*>(ptx::dynamic_smem());
  const auto share = [&](int p, int v, int thread) -> S& { return shared[(p * kV + v) * (kBlock / 2) + thread]; };
  for (int half = place.groups / 2; half > 0; half /= 2) {
    __syncthreads();
    if (place.group >= half && place.group < 2 * half) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
#pragma unroll
        for (int v = 0; v < kV; ++v) share(p, v, (place.group - half) * place.lanes + place.lane) = channels[p][v];
      }
    }
    __syncthreads();
    if (place.group >= half) continue;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int v = 0; v < kV; ++v) {
        channels[p][v] = AddSums<A>{}.combine(channels[p][v], share(p, v, place.group * place.lanes + place.lane));
      }
    }
  }
  if (place.group > 0) return;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (!place.holds(p)) continue;
#pragma unroll
    for (int v = 0; v < kV; ++v) {
      of_blocks[blockIdx.x * held.length + place.column + p * Held::kStep + v] = channels[p][v];
    }
  }
}

// ---- On the host.

// Channels' sums go to channel_sums, which is undefined if they are not needed.
template <class T>
void run_held(const Norm<T>& norm, const HeldRows& held, int packs, int device, const T* grad, T* dx,
              Tensor& channel_sums) {
  using S = Sums<compute_t<T>>;
  Tensor of_blocks;
  if (channel_sums.defined()) {
    of_blocks = make_array<S>(held.blocks() * held.length, channel_sums);
  }
  S* const blocks = channel_sums.defined() ? array<S>(of_blocks) : nullptr;
  const auto run = [&]<int kPacks, int kStages>() {
    const std::size_t bytes = GradientCopies<T, kPacks, kStages>::kBytes + HeldChannels<T, kPacks>::bytes(held.lanes);
    const LaunchGeometry geometry{dim3(static_cast<unsigned>(held.blocks())), dim3(kHeldThreads<T>), bytes};
    const auto kernel = norm_held_gradients<T, kPacks, kStages>;
    const DeviceGuard guard(device);
    allow_smem(kernel, bytes);
    launch(kernel, geometry, device, norm, held, grad, dx, blocks);
  };
  // The number of rows in flight: enough, and no more than fit with the weights into the 99 KiB that a block has on the
  // smallest GPUs, where rows longer than a warp's share have many weights.
  with_packs<T>(packs, [&]<int kPacks>() {
    constexpr int kStages = kPacks == 8 ? 2 : kPacks == 4 ? 3 : 4;
    if constexpr (sizeof(T) == 2 && kPacks == 4) {
      if (held.lanes > 32) return run.template operator()<kPacks, 2>();
    }
    run.template operator()<kPacks, kStages>();
  });
  if (blocks == nullptr) return;
  run_reduce_stages(AddSums<compute_t<T>>{}, Elements<S>{blocks}, channel_sums,
                    reduction({held.blocks(), held.length}, 0b01));
}

}  // namespace adjoint::cuda::norm
