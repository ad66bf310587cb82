// All gradients of layer_norm and its like in one reading of x and the gradient: lanes hold rows, and add up channels
// as they go. For .cu files.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/norm/cuda/gradient_span.cuh>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::norm {

// How blocks share rows whose channels are their elements, each of `lanes` threads.
struct HeldRows {
  std::int64_t rows = 1, length = 1, a_block = 1;
  int lanes = 1;

  std::int64_t blocks() const { return (rows + a_block - 1) / a_block; }
};

// All gradients in one reading, without an activation. Rows are whole packs that their lanes can hold, and a thread has
// the same channels in each row, so that it adds up theirs as it goes; `of_blocks` (blocks, channels), or null, takes
// what a block has. kRows rows are under way at once, and while lanes add up theirs, the next are loaded.
template <class T, int kPacks, int kRows>
__global__ void __launch_bounds__(kThreads, kPacks* kPack<T> > 16 ? 1 : 2)
    norm_held_gradients(const __grid_constant__ Norm<T> norm, const __grid_constant__ HeldRows held, const T* grad,
                        T* dx, Sums<compute_t<T>>* of_blocks) {
  using A = compute_t<T>;
  using S = Sums<A>;
  constexpr int kV = kPack<T>;
  struct Rows {
    S of[kRows];
  };
  const int lanes = held.lanes, shift = 31 - __clz(lanes), groups = kThreads >> shift;
  const int thread = static_cast<int>(threadIdx.x), lane = thread & (lanes - 1), group = thread >> shift;
  const std::int64_t begin = blockIdx.x * held.a_block, end = min(held.rows, begin + held.a_block);
  const auto column = [&](int p) { return std::int64_t{p * lanes + lane} * kV; };
  const auto span = [&](std::int64_t row, int p) { return Span<kV, true>{row * held.length + column(p)}; };

  A weight[kPacks][kV];
  S channels[kPacks][kV];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (column(p) < held.length) norm.load_weights(norm.line(0), span(0, p), weight[p]);
#pragma unroll
    for (int v = 0; v < kV; ++v) channels[p][v] = S{A{0}, A{0}};
  }

  Loaded<T> loaded[kRows][kPacks];
  Statistics<A> statistics[kRows];
  // Of rows from `from` on, this thread's share: each(r, p, row).
  const auto for_each = [&](std::int64_t from, const auto& each) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = from + r * groups + group;
      if (row >= end) continue;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        if (column(p) < held.length) each(r, p, row);
      }
    }
  };
  const auto fetch = [&](std::int64_t from) {
    for_each(from, [&](int r, int p, std::int64_t row) {
      loaded[r][p] = load(norm, grad, span(row, p));
      if (p == 0) statistics[r] = norm.statistics[row];
    });
  };
  fetch(begin);
  for (std::int64_t from = begin; from < end; from += kRows * groups) {
    GradientSpan<T> g[kRows][kPacks];
    A rstd[kRows];
    Rows sums{};
    for_each(from, [&](int r, int p, std::int64_t row) {
      if (p == 0) rstd[r] = norm.rstd(statistics[r]);
      g[r][p].set(norm, loaded[r][p], statistics[r], rstd[r]);
      g[r][p].add_to(sums.of[r], span(row, p), weight[p]);
#pragma unroll
      for (int v = 0; v < kV; ++v) {
        channels[p][v].plain += g[r][p].dz[v];
        channels[p][v].normal += g[r][p].dz[v] * g[r][p].normal[v];
      }
    });
    fetch(from + kRows * groups);
    sums = combine_lanes<kThreads>(sums, lanes, [](const Rows& a, const Rows& b) {
      Rows both;
#pragma unroll
      for (int r = 0; r < kRows; ++r) both.of[r] = AddSums<A>{}.combine(a.of[r], b.of[r]);
      return both;
    });
    for_each(from, [&](int r, int p, std::int64_t row) {
      if (dx == nullptr) return;
      const A count = static_cast<A>(held.length);
      const S means{norm.centred ? sums.of[r].plain / count : A{0}, sums.of[r].normal / count};
      g[r][p].finish(means, rstd[r], weight[p]);
      norm.store(dx, span(row, p), g[r][p].dz);
    });
  }

  if (of_blocks == nullptr) return;
  if constexpr (kPacks == 1) {  // else lanes are the block's threads
    __shared__ __align__(16) unsigned char storage[kThreads / 2 * kV * sizeof(S)];
    S(*const shared)[kV] = reinterpret_cast<S(*)[kV]>(storage);
    for (int half = groups / 2; half > 0; half /= 2) {
      __syncthreads();
      if (group >= half && group < 2 * half) {
#pragma unroll
        for (int v = 0; v < kV; ++v) shared[(group - half) * lanes + lane][v] = channels[0][v];
      }
      __syncthreads();
      if (group >= half) continue;
#pragma unroll
      for (int v = 0; v < kV; ++v) {
        channels[0][v] = AddSums<A>{}.combine(channels[0][v], shared[group * lanes + lane][v]);
      }
    }
  }
  if (group > 0) return;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (column(p) >= held.length) continue;
#pragma unroll
    for (int v = 0; v < kV; ++v) of_blocks[blockIdx.x * held.length + column(p) + v] = channels[p][v];
  }
}

// ---- On the host.

// The plan, and how many packs of a row a thread has: 0 where lanes cannot hold a row, and in float64, which is for
// checks.
template <class T>
int plan_held(const Norm<T>& norm, const NormAttr& attr, HeldRows& held) {
  constexpr std::int64_t kBlocks = 512, kMostRowsAThread = 64;  // enough for a GPU; so that sums are short
  constexpr int kMostPacks = 4;
  const std::int64_t rows = attr.rows(), length = attr.row_length(), packs = length / kPack<T>;
  if (std::is_same_v<T, double> || attr.given || attr.across || !attr.activation.is_none()) return 0;
  if (attr.groups != 1 || attr.inner != 1 || !is_whole(norm, length) || packs > kMostPacks * kThreads) return 0;
  const std::int64_t packs_a_thread = packs <= kThreads ? 1 : packs <= 2 * kThreads ? 2 : kMostPacks;
  held.rows = rows;
  held.length = length;
  held.lanes =
      static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>((packs + packs_a_thread - 1) / packs_a_thread)));
  const std::int64_t groups = kThreads / held.lanes, wanted = (rows + kBlocks * groups - 1) / (kBlocks * groups);
  held.a_block = groups * std::min(wanted, kMostRowsAThread);
  return static_cast<int>(packs_a_thread);
}

// Channels' sums go to channel_sums, which is undefined where nobody needs them.
template <class T>
void run_held(const Norm<T>& norm, const HeldRows& held, int packs, int device, const T* grad, T* dx,
              Tensor& channel_sums) {
  using S = Sums<compute_t<T>>;
  Tensor of_blocks;
  if (channel_sums.defined()) {
    of_blocks = make_array<S>(held.blocks() * held.length, channel_sums);
  }
  S* const blocks = channel_sums.defined() ? array<S>(of_blocks) : nullptr;
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(held.blocks())), dim3(kThreads)};
  const auto with = [&]<int kPacks>() {
    constexpr int kRows = std::clamp(16 / (kPack<T> * kPacks), 1, 4);
    launch(norm_held_gradients<T, kPacks, kRows>, geometry, device, norm, held, grad, dx, blocks);
  };
  if (packs == 1) with.template operator()<1>();
  if (packs == 2) with.template operator()<2>();
  if (packs == 4) with.template operator()<4>();
  if (blocks == nullptr) return;
  run_reduce_stages(AddSums<compute_t<T>>{}, Elements<S>{blocks}, channel_sums,
                    reduction({held.blocks(), held.length}, 0b01));
}

}  // namespace adjoint::cuda::norm
