// Packs the filter into the blocks that the tensor-core kernel of conv and conv_transpose streams.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// Filter blocks in the order of every tile's walk: [unit / 4][column][unit % 4] units, tails after heads where split.
template <Arithmetic kArithmetic>
__global__ void pack_filter_kernel(const __grid_constant__ CorrelationPlan plan, const void* filter_pointer,
                                   std::uint32_t* blocks) {
  using Traits = ArithmeticTraits<kArithmetic>;
  const auto* filter = static_cast<const typename Traits::Element*>(filter_pointer);
  const int group = static_cast<int>(blockIdx.y) / plan.column_tiles;
  const int column_tile = static_cast<int>(blockIdx.y) % plan.column_tiles;
  CorrelationWork work = correlation_work(plan, static_cast<std::int64_t>(group) * plan.column_tiles + column_tile);
  const int units = kChunkUnits * plan.tile_columns;
  const std::int64_t taps = static_cast<std::int64_t>(plan.kernel_h) * plan.kernel_w;
  const std::int64_t count = static_cast<std::int64_t>(plan.class_list[work.class_index].steps) * plan.chunks * units;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const int block = static_cast<int>(i / units), within = static_cast<int>(i % units);
    const CorrelationBlock where = correlation_block(plan, work.class_index, block);
    const int column_index = within / 4 % plan.tile_columns;
    const int unit = within / (4 * plan.tile_columns) * 4 + within % 4;
    const CorrelationColumn column = correlation_column(plan, work.class_index, work.first_column + column_index);
    const int tap = correlation_filter_tap(plan, plan.steps[where.step], column);
    float values[2] = {0, 0};
    std::uint16_t bits[2] = {0, 0};
    for (int j = 0; j < plan.unit_channels; ++j) {
      const std::int64_t k = (static_cast<std::int64_t>(where.chunk) * kChunkUnits + unit) * plan.unit_channels + j;
      if (tap < 0 || k >= plan.k_channels) continue;
      const std::int64_t pair =
          plan.transposed ? (group * static_cast<std::int64_t>(plan.k_channels) + k) * plan.n_channels + column.channel
                          : (group * static_cast<std::int64_t>(plan.n_channels) + column.channel) * plan.k_channels + k;
      if constexpr (Traits::kHalf) {
        bits[j] = reinterpret_cast<const std::uint16_t*>(filter)[pair * taps + tap];
      } else {
        values[j] = filter[pair * taps + tap];
      }
    }
    std::uint32_t* to = blocks + (work.first_block + block) * plan.w_block_units + within;
    if constexpr (Traits::kHalf) {
      *to = bits[0] | static_cast<std::uint32_t>(bits[1]) << 16;
    } else if constexpr (Traits::kSplit) {
      split_tf32(values[0], to[0], to[units]);
    } else {
      *to = ptx::round_to_tf32(values[0]);
    }
  }
}

}  // namespace adjoint::cuda::correlation
