// Brings the filter of the tensor-core kernel of conv and conv_transpose: one thread streams packed blocks into a ring
// of slots with a full and an empty mbarrier each. In a cluster each block's thread copies a part of every filter block
// to all blocks, once all of their multipliers have released the slot.
#pragma once

#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/correlation/cuda/layout.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// The streaming thread's data on a half of a filter block. A step leaves it some 500 clocks, and a single integer
/// division needs a hundred.
struct FilterHalf {
  int bytes;
  int part, first;  // the part of the bytes that this block copies to its cluster's blocks, and its start
};

/// The filter blocks of a tile, in the order of their use. kPaired: a slot holds those of a pair of steps.
template <bool kPaired>
__device__ __forceinline__ void stream_tile_filter(const CorrelationPlan& p, const CorrelationClass& c,
                                                   const SharedLayout& layout, const FilterHalf& half,
                                                   const unsigned char* source, Ring& ring) {
  for (int i = c.first_pass; i < c.first_pass + c.passes; ++i) {
    const int first = p.passes[i].first_step, end = p.passes[i].end_step;
    const int whole = kPaired ? p.passes[i].upper_step : p.passes[i].lower_step;  // slots are filled up to here
    for (int chunk = 0; chunk < p.chunks; ++chunk) {
#pragma unroll 1
      for (int s = first; s < end; s += kPaired && s < whole ? 2 : 1) {
        const int halves = s < whole ? 2 : 1;
        const std::uint32_t to = layout.w + ring.slot * 2 * half.bytes, full = layout.w_full + 8 * ring.slot;
        ptx::mbarrier_wait(layout.w_empty + 8 * ring.slot, ring.parity ^ 1);
        ptx::mbarrier_arrive_expect_bytes(full, halves * half.bytes);
        const int from = halves * half.first, bytes = halves * half.part;
        if (p.cluster == 1) {
          ptx::bulk_copy(to, source, bytes, full);
        } else {
          ptx::bulk_copy_to_cluster(to + from, source + from, bytes, full, p.cluster);
        }
        source += halves * half.bytes;
        ring.advance(p.w_slots);
      }
    }
  }
}

/// Run by one thread: streams every tile's blocks, or all blocks once if they are resident.
template <bool kPaired>
__device__ __forceinline__ void stream_filter(const CorrelationPlan& p, const CorrelationOperands& operands,
                                              const SharedLayout& layout) {
  Ring ring;
  FilterHalf half{2 * p.w_block_units, 2 * p.w_block_units / p.cluster, 0};
  if (p.cluster > 1) half.first = ptx::cluster_rank() * half.part;
  const int tiles = static_cast<int>(p.tiles());
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    const CorrelationWork work = correlation_work(p, tile);
    const auto* source = static_cast<const unsigned char*>(operands.filter_blocks) + work.first_half * half.bytes;
    stream_tile_filter<kPaired>(p, p.class_list[work.class_index], layout, half, source, ring);
    if (p.weights_resident) break;
  }
}

}  // namespace adjoint::cuda::correlation
