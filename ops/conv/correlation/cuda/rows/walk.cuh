// The steps of a consumer warpgroup of the tensor-core kernel of conv and conv_transpose through a tile. A step's
// instructions follow one another, and two warps share a scheduler's issue slots, so the number of instructions
// matters: values of the plan that a step needs are computed when a stage or pass begins.
#pragma once

#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/correlation/cuda/layout.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// A warpgroup's position in a tile's steps: its places in the rings, and a lane's read addresses. kOneRow: a warp's
/// positions are in one row of the tile, so that their places are constants apart. kGathers: a table has the places of
/// a step's units. kSteps: steps at a time, 1 or 2.
template <int kColumns, bool kOneRow, bool kGathers, int kMTiles, int kSteps = 1>
struct StepWalk {
  const CorrelationPlan& p;
  const SharedLayout& layout;
  const std::uint32_t gather;                                 // shared address of the lane's entries of step 0
  const std::uint32_t four_units;                             // bytes from a stage's unit to the fourth after it
  const std::uint32_t empty;                                  // the slots' barriers that this lane arrives on, or 0
  std::uint32_t row[kOneRow ? 1 : kMTiles][kOneRow ? 1 : 2];  // of positions 8 apart, from a stage's first unit
  Ring x_ring, w_ring;
  std::uint32_t used_slot = 0;      // barrier of the slot whose products may still be running; 0: no barrier
  std::uint32_t stage_base;         // shared address of the stage
  std::uint32_t step_base[kSteps];  // of the first units of the steps that begin with `step`
  int pass, end_pass, chunk, step, end_step;

  __device__ __forceinline__ StepWalk(const CorrelationPlan& plan, const SharedLayout& shared, int first_m, int lane)
      : p(plan),
        layout(shared),
        gather(shared.gather + 16 * (lane % 4)),
        // Through a shuffle, or every read would fetch the pitch from constant memory again, and wait for it.
        four_units(ptx::uniform(16U * plan.unit_pitch)),
        empty(lane < plan.cluster && !plan.weights_resident ? ptx::address_in_cluster(shared.w_empty, lane) : 0) {
#pragma unroll
    for (int j = 0; j < (kOneRow ? 1 : kMTiles); ++j) {
#pragma unroll
      for (int h = 0; h < (kOneRow ? 1 : 2); ++h) {
        const int m = first_m + 16 * j + 8 * h + lane / 4;
        const std::uint32_t offset = 4 * (correlation_stage_offset(p, m) + (kGathers ? 0 : lane % 4 * p.unit_pitch));
        // Opaque if registers allow it, or every step would recompute it.
        row[j][h] = kColumns >= 128 || (kOneRow && kMTiles < 4) ? ptx::opaque(offset) : offset;
      }
    }
  }

  /// Reads eight units of K of the which-th step, the fragment-th ones.
  __device__ __forceinline__ void read(int which, int fragment, std::uint32_t (&to)[kMTiles][4]) const {
    std::uint32_t first, second;  // shared addresses of the lane's units, without its positions' offsets
    if constexpr (kGathers) {
      std::uint32_t offsets[2];
      ptx::load_shared_pair(offsets, gather + 4 * (kChunkUnits * step + 2 * fragment));
      first = (offsets[0] & 1) != 0 ? layout.zeros : step_base[which] + offsets[0];
      second = (offsets[1] & 1) != 0 ? layout.zeros : step_base[which] + offsets[1];
    } else {
      first = step_base[which] + 2 * fragment * four_units;
      second = first + four_units;
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int j = 0; j < kMTiles; ++j) {
        const std::uint32_t unit = r < 2 ? first : second;
        if constexpr (kOneRow) {
          to[j][r] = ptx::load_shared(row[0][0] + unit + 4 * (16 * j + r % 2 * 8));
        } else {
          to[j][r] = ptx::load_shared(row[j][r % 2] + unit);
        }
      }
    }
  }

  /// Waits for the stage of the step.
  __device__ __forceinline__ void enter_stage() {
    ptx::mbarrier_wait(layout.x_full + 8 * x_ring.slot, x_ring.parity);
    stage_base = layout.x + x_ring.slot * 4 * p.stage_size;
  }
  __device__ __forceinline__ void enter_step() {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) step_base[i] = stage_base + (kGathers ? 0 : 4 * p.taps[step + i].x_offset);
  }

  /// Moves to a class's first step; returns false if it has no step.
  __device__ __forceinline__ bool begin(const CorrelationClass& c) {
    used_slot = 0;
    if (c.passes == 0) return false;
    pass = c.first_pass;
    end_pass = c.first_pass + c.passes;
    chunk = 0;
    step = p.passes[pass].first_step;
    end_step = p.passes[pass].end_step;
    enter_stage();
    enter_step();
    return true;
  }

  /// Moves past the step or steps, whose data is completely read; returns false after the last. read_zero(): zero,
  /// computed from the last values read. A load from shared memory does not wait for its value, nor an arrival for
  /// earlier loads, and the copy engine overtakes both if other kernels keep the multiprocessor's shared memory busy
  /// (seen on an H200): the arrival's address therefore waits for the values.
  template <class ReadZero>
  __device__ __forceinline__ bool advance(const ReadZero& read_zero) {
    step += kSteps;
    if (step == end_step) {
      // Every lane arrives: a single lane after a __syncwarp is at best 1% faster, and racecheck reports it as a race.
      ptx::mbarrier_arrive(layout.x_empty + 8 * x_ring.slot + read_zero());
      x_ring.advance(layout.x_stages);
      ++chunk;
      if (chunk == p.chunks) {
        ++pass;
        if (pass == end_pass) return false;
        chunk = 0;
        end_step = p.passes[pass].end_step;
      }
      step = p.passes[pass].first_step;
      enter_stage();
    }
    enter_step();
    return true;
  }

  __device__ __forceinline__ void wait_for_slot() const {
    ptx::mbarrier_wait(layout.w_full + 8 * w_ring.slot, w_ring.parity);
  }
  /// Leaves the slot, whose products may still be running, for the next.
  __device__ __forceinline__ void leave_slot() {
    used_slot = empty != 0 ? empty + 8 * w_ring.slot : 0;
    w_ring.advance(p.w_slots, p.weights_resident ? 0 : 1);  // resident slots stay full
  }
  /// Releases the slot that was left, after its products are done.
  __device__ __forceinline__ void release_slot() const {
    if (used_slot != 0) ptx::mbarrier_arrive_in_cluster(used_slot);
  }
};

}  // namespace adjoint::cuda::correlation
