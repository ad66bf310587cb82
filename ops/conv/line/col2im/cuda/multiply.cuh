// The products of the kernel for few output channels (kernel.cuh): a chunk of the source times the filter.
#pragma once

#include <adjoint/ops/conv/line/col2im/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/line/col2im/cuda/load.cuh>

#include <cstdint>

namespace adjoint::cuda::col2im {

/// A chunk's products.
template <bool kSplit, int kColumns, int kDepths>
struct Multiplier {
  static constexpr int kSums = kColumns / 2;
  static constexpr int kRead = kSplit ? 2 : kDepths;  // of a stage's depths together

  const Col2imPlan& p;
  const Shared& shared;
  Ring ring;
  std::uint32_t a[kRead][4], tails[kSplit ? kRead : 1][4];
  float sums[kSums];
  float totals[kSplit ? kSums : 1];

  /// Reads depths of a stage: in each eight channels, a lane reads two, at its two columns.
  __device__ __forceinline__ void read_depths(int first, int warp, int lane) {
    const std::uint32_t stage = shared.source + ring.slot * p.stage_bytes() + warp / 2 * (kDepths * 8 * 128);
    const int chunk = warp % 2 * 4 + lane / 8, channel = lane % 4 * 2;
    const std::uint32_t within = static_cast<std::uint32_t>(lane / 4 % 2 * 8 + channel * 128 + first * 1024);
    const std::uint32_t even = stage + within + static_cast<std::uint32_t>(chunk ^ channel) * 16;
    const std::uint32_t odd = stage + within + 128 + static_cast<std::uint32_t>(chunk ^ (channel + 1)) * 16;
#pragma unroll
    for (int d = 0; d < kRead; ++d) {
      std::uint32_t first_channel[2], second_channel[2];
      ptx::load_shared_pair(first_channel, even + d * 1024);
      ptx::load_shared_pair(second_channel, odd + d * 1024);
      a[d][0] = first_channel[0];
      a[d][1] = first_channel[1];
      a[d][2] = second_channel[0];
      a[d][3] = second_channel[1];
    }
  }

  __device__ __forceinline__ void pin_operands() {
#pragma unroll
    for (int d = 0; d < kRead; ++d) {
      wgmma::pin(a[d]);
      if constexpr (kSplit) wgmma::pin(tails[d]);
    }
  }

  /// Begins the products of the values read. `accumulate`: 0 if sums begin with these products.
  __device__ __forceinline__ void multiply(std::uint64_t filter, int accumulate) {
    constexpr wgmma::Operand kTF32 = wgmma::Operand::kTF32;
    pin_operands();
    wgmma::pin(sums);
    wgmma::fence();
    const auto rows = [&](int d) { return wgmma::moved(filter, 2 * d * kColumns); };
    if constexpr (kSplit) {
#pragma unroll
      for (int d = 0; d < kRead; ++d) {
        wgmma::multiply<kTF32, kColumns>(sums, a[d], wgmma::moved(rows(d), p.filter_vectors() / 2),
                                         d == 0 ? accumulate : 1);
        wgmma::multiply<kTF32, kColumns>(sums, tails[d], rows(d));
      }
    }
#pragma unroll
    for (int d = 0; d < kRead; ++d) {
      wgmma::multiply<kTF32, kColumns>(sums, a[d], rows(d), d == 0 && !kSplit ? accumulate : 1);
    }
    wgmma::commit();
  }

  __device__ __forceinline__ void finish() {
    wgmma::wait<0>();
    wgmma::pin(sums);
    pin_operands();
  }

  /// A stage's products of heads and tails, added two depths at a time to ordinary registers, which lose no bits over
  /// many terms.
  __device__ __forceinline__ void multiply_split(std::uint64_t filter, int warp, int lane) {
#pragma unroll
    for (int first = 0; first < kDepths; first += kRead) {
      read_depths(first, warp, lane);
#pragma unroll
      for (int d = 0; d < kRead; ++d) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const float value = __uint_as_float(a[d][r]);
          split_tf32(value, a[d][r], tails[d][r]);
        }
      }
      multiply(wgmma::moved(filter, 2 * first * kColumns), 0);
      finish();
#pragma unroll
      for (int i = 0; i < kSums; ++i) totals[i] += sums[i];
    }
  }

  /// A stage's products, still in flight on return unless float32 is split.
  __device__ __forceinline__ void begin_stage(std::uint64_t filter, int accumulate, int warp, int lane) {
    ptx::mbarrier_wait(shared.full + 8 * ring.slot, ring.parity);
    if constexpr (kSplit) {
      multiply_split(filter, warp, lane);
    } else {
      read_depths(0, warp, lane);
      multiply(filter, accumulate);
    }
    ptx::mbarrier_arrive(shared.empty + 8 * ring.slot);
    ring.advance(p.source_stages);
  }

  /// Begins a chunk's products. No path may bypass the code between the products still in flight at the end and
  /// finish(), or the compiler waits for them immediately.
  __device__ __forceinline__ void begin(int warp, int lane) {
    if constexpr (kSplit) {
#pragma unroll
      for (float& total : totals) total = 0;
    }
    std::uint64_t filter = wgmma::matrix_descriptor(ptx::shared_address(shared.filter), kColumns * 16);
#pragma unroll 1
    for (int i = 0; i + 1 < p.stages; ++i) {
      begin_stage(filter, i, warp, lane);
      if constexpr (!kSplit) finish();
      filter = wgmma::moved(filter, 2 * kDepths * kColumns);
    }
    begin_stage(filter, p.stages - 1, warp, lane);
  }

  __device__ __forceinline__ const auto& results() const {
    if constexpr (kSplit) {
      return totals;
    } else {
      return sums;
    }
  }

  /// Stores the sums of two neighbouring columns of the source to shared memory; zeros for columns outside, so that no
  /// product with infinity is added. `left`: columns of the source from the chunk's first on.
  template <bool kAll>
  __device__ __forceinline__ void store_columns(int left, int warp, int lane) const {
    const auto& values = results();
    const int column = 16 * warp + lane / 4 * 2, used = p.used_columns();
    const std::uint32_t next = 4 * p.sum_pitch;
    std::uint32_t to = ptx::shared_address(shared.sums + p.margin + lane % 4 * 2 * p.sum_pitch + column);
    const bool first = kAll || column < left, second = kAll || column + 1 < left;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j, to += 8 * next) {
      if (8 * j >= kColumns / 2 && 8 * j >= used) break;
      ptx::store_shared_pair(to, first ? values[4 * j] : 0, second ? values[4 * j + 2] : 0);
      ptx::store_shared_pair(to + next, first ? values[4 * j + 1] : 0, second ? values[4 * j + 3] : 0);
    }
  }
  __device__ __forceinline__ void store(int left, int warp, int lane) const {
    if (left >= kCol2imChunk) {
      store_columns<true>(left, warp, lane);
    } else {
      store_columns<false>(left, warp, lane);
    }
  }
};

}  // namespace adjoint::cuda::col2im
