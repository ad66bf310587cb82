// Packs the filter into the blocks that the tensor-core kernel of conv and conv_transpose streams.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// What a unit of K holds for one column: its first channel, and where channel 0's tap lies in the filter; -1 for
/// zeros.
struct PackedUnit {
  std::int64_t first;
  int unit;
};

/// Four units of K that a thread packs, one of every four rows of a block; locate(i) gives the i-th.
template <Arithmetic kArithmetic, class Locate>
__device__ __forceinline__ void pack_units(const CorrelationPlan& plan, const void* filter_pointer,
                                           const Locate& locate, std::int64_t k_stride, int columns,
                                           std::uint32_t* to) {
  using Traits = ArithmeticTraits<kArithmetic>;
  const auto* filter = static_cast<const typename Traits::Element*>(filter_pointer);
#pragma unroll
  for (int i = 0; i < kChunkUnits / 4; ++i, to += 4 * columns) {
    const auto [first, unit] = locate(i);
    if constexpr (Traits::kHalf) {
      const auto* halves = reinterpret_cast<const std::uint16_t*>(filter);
      const int channel = 2 * unit;
      const std::uint32_t low = first >= 0 && channel < plan.k_channels ? halves[first + channel * k_stride] : 0;
      const std::uint32_t high =
          first >= 0 && channel + 1 < plan.k_channels ? halves[first + (channel + 1) * k_stride] : 0;
      *to = low | high << 16;
    } else {
      const int channel = unit;
      const float value = first >= 0 && channel < plan.k_channels ? filter[first + channel * k_stride] : 0.0F;
      if constexpr (Traits::kSplit) {
        split_tf32(value, to[0], to[kChunkUnits * columns]);
      } else {
        *to = ptx::round_to_tf32(value);
      }
    }
  }
}

/// Filter blocks in the order of every tile's walk: [unit / 4][column][unit % 4] units, tails after heads where split.
/// A block of threads packs a chunk of all steps of a column tile: neighbouring taps, which lie in the same sectors.
template <Arithmetic kArithmetic>
__global__ void pack_filter_kernel(const __grid_constant__ CorrelationPlan plan, const void* filter,
                                   std::uint32_t* blocks) {
  const int chunk = static_cast<int>(blockIdx.x);
  const CorrelationWork work = correlation_work(plan, static_cast<std::int64_t>(blockIdx.y) * plan.cluster);
  const CorrelationClass& c = plan.class_list[work.class_index];
  const std::int64_t taps = static_cast<std::int64_t>(plan.kernel_h) * plan.kernel_w;
  const std::int64_t k_stride = plan.transposed ? plan.n_channels * taps : taps;
  const std::int64_t n_stride = plan.transposed ? taps : plan.k_channels * taps;
  const int slots = 4 * plan.tile_columns, threads = static_cast<int>(blockDim.x),
            thread = static_cast<int>(threadIdx.x);
  const int at_once = slots < threads ? slots : threads;
  for (int slot = thread % at_once; slot < slots; slot += at_once) {
    const CorrelationColumn column = correlation_column(plan, work, slot / 4);
    const std::int64_t pair =
        work.group * std::int64_t{plan.k_channels} * plan.n_channels * taps + column.channel * n_stride;
    for (int i = c.first_pass; i < c.first_pass + c.passes; ++i) {
      const CorrelationPass& pass = plan.passes[i];
      for (int s = pass.first_step + thread / at_once; s < pass.end_step; s += threads / at_once) {
        const CorrelationColumns range = correlation_columns(plan, plan.steps[s]);
        const int within = slot / 4 - range.first;
        if (within < 0 || within >= range.count) continue;
        const std::int64_t half = work.first_half + correlation_block_half(plan, pass, chunk, s);
        std::uint32_t* to = blocks + half * (plan.w_block_units / 2) + 4 * within + slot % 4;
        if (plan.gathers) {
          const auto locate = [&](int quad) {
            const CorrelationUnit unit = correlation_unit(plan, pass, s, 4 * quad + slot % 4);
            const int tap = unit.tap < 0 ? -1 : correlation_filter_tap(plan, plan.taps[unit.tap], column);
            return PackedUnit{tap < 0 ? -1 : pair + tap, unit.channel};
          };
          pack_units<kArithmetic>(plan, filter, locate, k_stride, range.count, to);
        } else {
          const int tap = correlation_filter_tap(plan, plan.steps[s].tap, column);
          const auto locate = [&](int quad) {
            return PackedUnit{tap < 0 ? -1 : pair + tap, chunk * kChunkUnits + slot % 4 + 4 * quad};
          };
          pack_units<kArithmetic>(plan, filter, locate, k_stride, range.count, to);
        }
      }
    }
  }
}

}  // namespace adjoint::cuda::correlation
