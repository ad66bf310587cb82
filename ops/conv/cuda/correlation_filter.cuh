// How the tensor-core kernel of conv and conv_transpose gets its filter: one thread streams packed blocks into a ring
// of slots with a full and an empty mbarrier each. In a cluster each block's thread copies a part of every filter block
// to all blocks, once all of their multipliers have given the slot back.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/correlation.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/cuda/correlation_stage.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// The filter blocks of a tile, in the order of its walk.
__device__ __forceinline__ void stream_tile_filter(const CorrelationPlan& p, const CorrelationClass& c,
                                                   const SharedLayout& layout, const unsigned char* source,
                                                   Ring& ring) {
  const int half_bytes = 2 * p.w_block_units, rank = p.cluster > 1 ? ptx::cluster_rank() : 0;
  for (int i = c.first_pass; i < c.first_pass + c.passes; ++i) {
    const CorrelationPass& pass = p.passes[i];
    for (int chunk = 0; chunk < p.chunks; ++chunk) {
      for (int s = pass.first_step; s < pass.end_step; ++s) {
        const int bytes = half_bytes * p.steps[s].halves();
        ptx::mbarrier_wait(layout.w_empty + 8 * ring.slot, ring.parity ^ 1);
        ptx::mbarrier_arrive_expect_bytes(layout.w_full + 8 * ring.slot, bytes);
        const std::uint32_t to = layout.w + ring.slot * 2 * half_bytes, full = layout.w_full + 8 * ring.slot;
        if (p.cluster == 1) {
          ptx::bulk_copy(to, source, bytes, full);
        } else {
          const int part = bytes / p.cluster;
          ptx::bulk_copy_to_cluster(to + rank * part, source + rank * part, part, full, p.cluster);
        }
        source += bytes;
        ring.advance(p.w_slots);
      }
    }
  }
}

/// One thread: every tile's blocks, or all of them once where they are resident.
__device__ __forceinline__ void stream_filter(const CorrelationPlan& p, const CorrelationOperands& operands,
                                              const SharedLayout& layout) {
  Ring ring;
  const int tiles = static_cast<int>(p.tiles());
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    const CorrelationWork work = correlation_work(p, tile);
    const auto* source =
        static_cast<const unsigned char*>(operands.filter_blocks) + work.first_half * (2 * p.w_block_units);
    stream_tile_filter(p, p.class_list[work.class_index], layout, source, ring);
    if (p.weights_resident) break;
  }
}

}  // namespace adjoint::cuda::correlation
