// The pipeline's products: a warpgroup's tile, box by box and tap by tap.
#pragma once

#include <adjoint/ops/conv/pipeline/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/base/cuda/wgmma_operand.cuh>
#include <adjoint/ops/conv/pipeline/cuda/shared.cuh>

#include <cstdint>

namespace adjoint::cuda::pipeline {

/// kFilter: kMN if results are the filter's inner axis; then a step's channels are rows of results. kSkips: the plan's.
template <Arithmetic kArithmetic, int kColumns, wgmma::Major kFilter, bool kSkips>
struct Multiplier {
  static constexpr int kFilterStep =
      kFilter == wgmma::Major::kK ? kStepUnits : kPipelineResults / kStepsOfLine * kLineUnits;

  const PipelinePlan& p;
  const Shared& shared;
  int team, lane;
  Ring boxes = {}, filters = {};
  int steps = 0;  // taps multiplied, until there are p.lead
  float sums[kColumns / 2];

  __device__ __forceinline__ void release(std::uint32_t barrier) const {
    if (lane == 0 && barrier != 0) ptx::mbarrier_arrive(barrier);
  }

  /// Lets the second warpgroup begin.
  __device__ __forceinline__ void count_step() {
    if (team != 0 || steps == p.lead) return;
    if (++steps == p.lead && threadIdx.x == 0) ptx::mbarrier_arrive(shared.begun);
  }

  __device__ __forceinline__ void multiply_tile(const PipelineTile& tile, PipelineSlice next) {
    const int ring = p.shares_filter ? 0 : team, first_slot = ring * kMostPipelineFilterSlots;
    const std::uint64_t filter_slots =
        wgmma::swizzled_descriptor(shared.filters + ring * p.filter_slots * kPipelineFilterBytes);
    const std::uint64_t box_slots =
        wgmma::swizzled_descriptor(shared.boxes + (p.shares_filter ? team * kPipelineStrip * kPipelineLineBytes : 0),
                                   p.box_width * kPipelineLineBytes);
    // Barriers of the data that the products in flight read; 0: no barrier.
    std::uint32_t used_filter = 0, used_box = 0;
    int accumulate = 0;
    // Pinned once: while products are in flight nothing else may seem to touch their sums, or the compiler waits for
    // them.
    wgmma::pin(sums);
#pragma unroll 1
    for (; next.left > 0; next.advance(p.boxes)) {
      if (kSkips && !pipeline_reads(p, tile, next.box)) continue;
      ptx::mbarrier_wait(shared.boxes_full + 8 * boxes.slot, boxes.parity);
      const std::uint64_t box = wgmma::moved(box_slots, boxes.slot * (p.box_bytes() / 16));
      const int end = p.first_tap[tile.phase][next.box + 1];
      const int steps_of_line = kSkips && next.chunk + 1 == p.chunks ? p.last_steps : kStepsOfLine;
#pragma unroll 1
      for (int tap = p.first_tap[tile.phase][next.box]; tap < end; ++tap) {
        ptx::mbarrier_wait(shared.filters_full + 8 * (first_slot + filters.slot), filters.parity);
        const std::uint64_t a = wgmma::moved(filter_slots, filters.slot * (kPipelineFilterBytes / 16));
        const std::uint64_t b = wgmma::moved(box, p.tap_list[tap].shift * kLineUnits);
        const auto multiply = [&](int step) {
          wgmma::multiply_blocks<kWgmmaOperand<kArithmetic>, kFilter, wgmma::Major::kK, kColumns>(
              sums, wgmma::moved(a, step * kFilterStep), wgmma::moved(b, step * kStepUnits), accumulate);
          accumulate = 1;
        };
        // The compiler wants a fence in every branch.
        if (steps_of_line == kStepsOfLine) {
          wgmma::fence();
#pragma unroll
          for (int step = 0; step < kStepsOfLine; ++step) multiply(step);
        } else {
#pragma unroll 1
          for (int step = 0; step < steps_of_line; ++step) {
            wgmma::fence();
            multiply(step);
          }
        }
        wgmma::commit();
        wgmma::wait<1>();
        count_step();
        release(used_filter);
        release(used_box);
        used_filter = shared.filters_empty + 8 * (first_slot + filters.slot);
        used_box = 0;
        filters.advance(p.filter_slots);
      }
      release(used_box);  // for a box in which this phase has no taps
      used_box = shared.boxes_empty + 8 * boxes.slot;
      boxes.advance(p.box_slots);
    }
    wgmma::wait<0>();
    release(used_filter);
    release(used_box);
    wgmma::pin(sums);
    if (kSkips && accumulate == 0) {  // no tap reads the source
#pragma unroll
      for (float& sum : sums) sum = 0;
    }
  }

  /// Lets the second warpgroup begin if there were too few steps.
  __device__ __forceinline__ void end() const {
    if (team == 0 && steps != p.lead && threadIdx.x == 0) ptx::mbarrier_arrive(shared.begun);
  }
};

}  // namespace adjoint::cuda::pipeline
