// Makes the copy engine bring a boxed plan's input to the tensor-core kernel of conv and conv_transpose.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/correlation/cuda/layout.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// Run by one thread: copies every tile's boxes, in the order of the block's tiles.
__device__ __forceinline__ void copy_input_boxes(const CorrelationPlan& p, const TensorMap& map,
                                                 const SharedLayout& layout) {
  const int tiles = static_cast<int>(p.tiles()), box_bytes = 4 * p.stage_units * p.unit_pitch;
  Ring ring;
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    const CorrelationWork work = correlation_work(p, tile);
    const CorrelationClass& c = p.class_list[work.class_index];
    for (int i = c.first_pass; i < c.first_pass + c.passes; ++i) {
      for (int chunk = 0; chunk < p.chunks; ++chunk) {
        const std::uint32_t full = layout.x_full + 8 * ring.slot;
        ptx::mbarrier_wait(layout.x_empty + 8 * ring.slot, ring.parity ^ 1);
        ptx::mbarrier_arrive_expect_bytes(full, p.boxes * box_bytes);
        for (int box = 0; box < p.boxes; ++box) {
          const CorrelationPosition q = correlation_position(p, box << p.log2_box);
          const CorrelationPass& pass = p.passes[i];
          const int first_column = (work.w + q.w) * p.in_stride_w + pass.w_base;
          const int at[kTensorMapAxes] = {first_column * p.unit_columns,
                                          (work.h + q.h + pass.h_base) * p.in_stride_h + pass.h_residue,
                                          static_cast<int>(work.n) + q.n, chunk * kChunkUnits, work.group};
          ptx::tensor_copy(layout.x + 4 * (ring.slot * p.stage_size + box * p.box_units), &map, at, full);
        }
        ring.advance(layout.x_stages);
      }
    }
  }
}

}  // namespace adjoint::cuda::correlation
