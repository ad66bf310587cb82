// The tensor-core kernel of conv and conv_transpose for sm_90a; correlation_plan.h holds its schedule and index
// arithmetic.
//
// Positions are wgmma's rows and columns its columns. A fragments are read by LDS straight from the staged raw rows
// (any offset, no bank conflicts because of the pitch) and rounded in registers; B blocks are packed for the
// descriptor. Three warps stage the input (correlation_roles.cuh has the others). No sum depends on the grid, on
// alignment or on the number of multiprocessors.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/correlation.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/core/cuda/wgmma_256.cuh>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/cuda/correlation_multiply.cuh>
#include <adjoint/ops/conv/cuda/correlation_roles.cuh>
#include <adjoint/ops/conv/cuda/correlation_stage.cuh>
#include <adjoint/ops/conv/cuda/wgmma_operand.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::correlation {

/// The sums of the lower or the upper half of a tile's columns.
template <int kUpper, int kCount>
__device__ __forceinline__ auto& half_of(float (&sums)[kCount]) {
  return *reinterpret_cast<float(*)[kCount / 2]>(sums + kUpper * (kCount / 2));
}

/// A consumer warpgroup's walk: its places in the rings, its fragments and its sums. Two fragments of eight units of K
/// are kept, since a product reads its registers till its end. What the next ones are made of is read while products of
/// these are under way: a step ahead where registers allow it, so that no read is waited for.
/// kOneRow: a warp's positions lie in one row of the tile, so that their places are constants apart.
/// kGathers: a table tells where a step's units lie.
template <Arithmetic kArithmetic, int kColumns, bool kHalves, bool kOneRow, bool kGathers, int kMTiles>
struct SplitMultiplier {
  using Traits = ArithmeticTraits<kArithmetic>;
  static constexpr bool kSplit = Traits::kSplit, kApart = false, kPaired = false;
  static constexpr int kBlockBytes = 4 * kChunkUnits * kColumns * (kSplit ? 2 : 1);
  /// Whether to read a step ahead: registers allow it, and what is read is not yet the fragment, as halves are.
  static constexpr bool kReadAhead = !Traits::kHalf && kMTiles * (kColumns / 2 * (kSplit ? 2 : 1) + 16) <= 160;
  static_assert(kChunkUnits == 16, "a step is two fragments");

  const CorrelationPlan& p;
  const SharedLayout& layout;
  const std::uint32_t gather;                                 // shared address of the lane's entries of step 0
  const std::uint32_t four_units;                             // bytes from a stage's unit to the fourth after it
  const std::uint32_t empty;                                  // the slots' barriers that this lane arrives on, or 0
  std::uint32_t row[kOneRow ? 1 : kMTiles][kOneRow ? 1 : 2];  // of positions 8 apart, from a stage's first unit
  Ring x_ring, w_ring;
  std::uint32_t pending = 0;            // the barrier of the slot whose products may still be under way
  std::uint32_t stage_base, step_base;  // shared addresses of the stage and of a step's first unit
  // Of the stage: where its steps end, and the step after them where there is one.
  int end_step, following_step;
  bool last_stage;
  std::uint32_t values[kReadAhead ? 2 : 1][kMTiles][4];  // read and not yet rounded
  std::uint32_t a[2][kMTiles][4];
  std::uint32_t tail[2][kSplit ? kMTiles : 1][4];
  float sums[kMTiles][kColumns / 2];
  float totals[kSplit ? kMTiles : 1][kSplit ? kColumns / 2 : 1];

  __device__ __forceinline__ SplitMultiplier(const CorrelationPlan& plan, const CorrelationOperands& /*operands*/,
                                             const SharedLayout& shared, int first_m, int lane)
      : p(plan),
        layout(shared),
        gather(shared.gather + 16 * (lane % 4)),
        // By way of a shuffle, or every read would fetch the pitch from constant memory anew, and wait for it.
        four_units(__shfl_sync(0xffffffff, 16U * plan.unit_pitch, 0)),
        empty(lane < plan.cluster && !plan.weights_resident ? ptx::address_in_cluster(shared.w_empty, lane) : 0) {
#pragma unroll
    for (int j = 0; j < (kOneRow ? 1 : kMTiles); ++j) {
#pragma unroll
      for (int h = 0; h < (kOneRow ? 1 : 2); ++h) {
        const int m = first_m + 16 * j + 8 * h + lane / 4;
        // Opaque, or every step works it out again.
        row[j][h] = ptx::opaque(4 * (correlation_stage_offset(p, m) + (kGathers ? 0 : lane % 4 * p.unit_pitch)));
      }
    }
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        values[0][j][r] = a[0][j][r] = a[1][j][r] = 0;
        if constexpr (kReadAhead) values[1][j][r] = 0;
        if constexpr (kSplit) tail[0][j][r] = tail[1][j][r] = 0;
      }
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) {
        sums[j][i] = 0;
        if constexpr (kSplit) totals[j][i] = 0;
      }
    }
  }

  __device__ __forceinline__ void release_slot() {
    if (pending != 0) ptx::mbarrier_arrive_in_cluster(pending);
  }

  /// Waits for all products and gives their slot back.
  __device__ __forceinline__ void drain() {
    wgmma::wait<0>();
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) wgmma::pin(sums[j]);
    release_slot();
    pending = 0;
  }

  /// Adds the sums to ordinary registers, which lose no bits over many terms.
  __device__ __forceinline__ void promote() {
    wgmma::wait<0>();
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
      wgmma::pin(sums[j]);
#pragma unroll
      for (int n = 0; n < kColumns / 2; ++n) {
        totals[j][n] += sums[j][n];
      }
    }
  }

  /// Reads eight units of K of a step, the first ones or the last.
  template <int kFragment>
  __device__ __forceinline__ void read(int step) {
    auto& to = Traits::kHalf ? a[kFragment] : values[kReadAhead ? kFragment : 0];
    std::uint32_t first, second;  // shared addresses of the lane's units, less its positions' offsets
    if constexpr (kGathers) {
      std::uint32_t offsets[2];
      ptx::load_shared_pair(offsets, gather + 4 * (kChunkUnits * step + 2 * kFragment));
      first = (offsets[0] & 1) != 0 ? layout.zeros : step_base + offsets[0];
      second = (offsets[1] & 1) != 0 ? layout.zeros : step_base + offsets[1];
    } else {
      first = step_base + 2 * kFragment * four_units;
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

  /// After the wait for its products: until here its registers hold nothing else.
  template <int kFragment>
  __device__ __forceinline__ void release_fragment() {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
      wgmma::pin(a[kFragment][j]);
      if constexpr (kSplit) wgmma::pin(tail[kFragment][j]);
    }
  }

  /// Makes what was read a fragment.
  template <int kFragment>
  __device__ __forceinline__ void round() {
    const auto& from = values[kReadAhead ? kFragment : 0];
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        if constexpr (kSplit) {
          split_tf32(__uint_as_float(from[j][r]), a[kFragment][j][r], tail[kFragment][j][r]);
        } else if constexpr (!Traits::kHalf) {
          a[kFragment][j][r] = ptx::round_to_tf32(__uint_as_float(from[j][r]));
        }
      }
    }
  }

  template <int kFragment, int kWidth>
  __device__ __forceinline__ void multiply_columns(float (&d)[kWidth / 2], int j, std::uint64_t b, int tails) {
    // Sums that promote() has added up are not cleared: a step's first product begins anew.
    wgmma::multiply<kWgmmaOperand<kArithmetic>, kWidth>(d, a[kFragment][j], b, kSplit && kFragment == 0 ? 0 : 1);
    if constexpr (kSplit) {
      wgmma::multiply<kWgmmaOperand<kArithmetic>, kWidth>(d, a[kFragment][j], b + (tails >> 4));
      wgmma::multiply<kWgmmaOperand<kArithmetic>, kWidth>(d, tail[kFragment][j], b);
    }
  }

  /// Products of a fragment with one range of columns: one an m-tile, or three where float32 is split.
  template <CorrelationRange kRange, int kFragment>
  __device__ __forceinline__ void multiply(std::uint64_t b) {
    constexpr int kTails = 4 * kChunkUnits * (kRange == CorrelationRange::kAll ? kColumns : kColumns / 2);
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
      wgmma::pin(a[kFragment][j]);
      if constexpr (kSplit) wgmma::pin(tail[kFragment][j]);
      if (kSplit || kFragment == 0) wgmma::pin(sums[j]);
    }
    wgmma::fence();
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
      if constexpr (!kHalves) {
        multiply_columns<kFragment, kColumns>(sums[j], j, b, kTails);
      } else {
        // Always the same registers together: the compiler serialises products of several widths.
        constexpr int kHalf = kColumns / 2;
        if constexpr (kRange != CorrelationRange::kUpper) {
          multiply_columns<kFragment, kHalf>(half_of<0>(sums[j]), j, b, kTails);
        }
        if constexpr (kRange != CorrelationRange::kLower) {
          constexpr int kFirst = kRange == CorrelationRange::kAll ? kHalf : 0;
          multiply_columns<kFragment, kHalf>(half_of<1>(sums[j]), j, b + kFirst, kTails);
        }
      }
    }
    wgmma::commit();
  }

  /// Waits for the ring's stage; `x_offset` is its first step's.
  __device__ __forceinline__ void enter_stage(std::int32_t x_offset) {
    ptx::mbarrier_wait(layout.x_full + 8 * x_ring.slot, x_ring.parity);
    stage_base = layout.x + x_ring.slot * 4 * p.stage_size;
    step_base = stage_base + 4 * x_offset;
  }

  /// Every lane for itself: one lane after a __syncwarp is 1% faster at best, and racecheck takes it for a race.
  __device__ __forceinline__ void release_stage(int slot) { ptx::mbarrier_arrive(layout.x_empty + 8 * slot); }

  /// To the step after `step`, in the next stage where this one ends.
  __device__ __forceinline__ void move_on(int step, bool leaves, bool ends) {
    if (leaves) {
      x_ring.advance(layout.x_stages);
      if (!ends) enter_stage(p.steps[following_step].tap.x_offset);
    } else {
      step_base = stage_base + 4 * p.steps[step + 1].tap.x_offset;
    }
  }

  /// Steps [first, end) of a stage, all of one range. Products of the last may still be under way afterwards.
  template <CorrelationRange kRange>
  __device__ __forceinline__ void multiply_steps(int first, int end) {
    constexpr int kWidth = kRange == CorrelationRange::kAll ? kColumns : kColumns / 2;
    const std::uint64_t slots = wgmma::matrix_descriptor(layout.w, kWidth * 16);
#pragma unroll 1
    for (int s = first; s < end; ++s) {
      const bool leaves = s + 1 == end_step, ends = leaves && last_stage;
      ptx::mbarrier_wait(layout.w_full + 8 * w_ring.slot, w_ring.parity);
      // No slot's address carries over into the descriptor's other fields.
      const std::uint64_t b = slots >> 32 << 32 | (static_cast<std::uint32_t>(slots) +
                                                   static_cast<std::uint32_t>(w_ring.slot * (kBlockBytes / 16)));
      multiply<kRange, 0>(b);
      const int stage = x_ring.slot, next = leaves ? following_step : s + 1;
      // With two stages the loaders need the time until the products of this one are all begun.
      const bool early = kReadAhead && (!leaves || layout.x_stages > 2);
      if (early) {
        move_on(s, leaves, ends);
        if (!ends) read<0>(next);
      }
      wgmma::wait<1>();
      release_fragment<1>();
      release_slot();
      if constexpr (!kReadAhead) read<1>(s);
      round<1>();
      if (kReadAhead && leaves) release_stage(stage);
      multiply<kRange, 1>(b + ((8 * kWidth * 4) >> 4));
      if constexpr (kReadAhead) {
        if (!early) {
          move_on(s, leaves, ends);
          if (!ends) read<0>(next);
        }
        if (!ends) read<1>(next);
      }
      wgmma::wait<1>();
      release_fragment<0>();
      if constexpr (!kReadAhead) {
        if (leaves) release_stage(stage);
        move_on(s, leaves, ends);
        if (!ends) read<0>(next);
      }
      round<0>();
      pending = empty != 0 ? empty + 8 * w_ring.slot : 0;
      w_ring.advance(p.w_slots, p.weights_resident ? 0 : 1);  // what is resident stays full
      if constexpr (kSplit) promote();
    }
  }

  __device__ __forceinline__ void multiply_tile(int class_index) {
    const CorrelationClass& c = p.class_list[class_index];
    const int end_pass = c.first_pass + c.passes;
    clear();
    pending = 0;
    if (c.passes == 0) return;
    const int first_step = p.passes[c.first_pass].first_step;
    enter_stage(p.steps[first_step].tap.x_offset);
    read<0>(first_step);
    if constexpr (kReadAhead) read<1>(first_step);
    round<0>();
#pragma unroll 1
    for (int i = c.first_pass; i < end_pass; ++i) {
      const CorrelationPass& pass = p.passes[i];
      end_step = pass.end_step;
#pragma unroll 1
      for (int chunk = 0; chunk < p.chunks; ++chunk) {
        const bool last_chunk = chunk + 1 == p.chunks;
        last_stage = last_chunk && i + 1 == end_pass;
        following_step = last_chunk ? end_step : pass.first_step;
        multiply_steps<CorrelationRange::kAll>(pass.first_step, pass.lower_step);
        if constexpr (kHalves) {
          // The compiler keeps products under way only through loops of one shape.
          drain();
          multiply_steps<CorrelationRange::kLower>(pass.lower_step, pass.upper_step);
          drain();
          multiply_steps<CorrelationRange::kUpper>(pass.upper_step, pass.end_step);
          drain();
        }
      }
    }
    drain();
  }
};

template <Arithmetic kArithmetic, int kColumns, bool kHalves, bool kOneRow, bool kGathers, int kMTiles, int kConsumers,
          int kBlocksPerSM>
__global__ void __launch_bounds__(128 * (kConsumers + 1), kBlocksPerSM)
    correlation_kernel(const __grid_constant__ CorrelationPlan plan,
                       const __grid_constant__ CorrelationOperands operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which nothing launches
  using Multiplies = std::conditional_t<ArithmeticTraits<kArithmetic>::kSplit,
                                        SplitMultiplier<kArithmetic, kColumns, kHalves, kOneRow, kGathers, kMTiles>,
                                        Multiplier<kArithmetic, kColumns, kHalves, kOneRow, kGathers, kMTiles>>;
  unsigned char* const smem = ptx::dynamic_smem();
  // Opaque, or every use works out again where the block's shared memory begins.
  SharedLayout layout = lay_out<kConsumers, kColumns, kMTiles, false>(plan, ptx::opaque(ptx::shared_address(smem)));
  layout.items = layout.x;
  layout.gather = layout.zeros = layout.items + correlation_item_bytes(plan);
  layout.x = layout.gather + (kGathers ? correlation_gather_bytes(plan) : 0);
  if constexpr (kGathers) fill_gather(plan, layout, smem + (layout.gather - ptx::shared_address(smem)));
  layout.x_stages = operands.load_bytes == 2 ? plan.x_stages / 2 : plan.x_stages;
  init_barriers<kConsumers>(plan, layout, operands.loads_boxes ? 1 : kLoaderThreads);
  run_roles<kArithmetic, kColumns, kMTiles, kConsumers, kBlocksPerSM, Multiplies>(
      plan, operands, layout, smem, [&](int warp) {
        if (warp == kLoaderThreads / 32) return;
        if (operands.loads_boxes) {
          if (warp == 0 && threadIdx.x % 32 == 0) copy_input_boxes(plan, operands.in_map, layout);
          return;
        }
        constexpr bool kHalf = ArithmeticTraits<kArithmetic>::kHalf;
        stage_input<kHalf, kGathers>(plan, operands, layout, static_cast<int>(threadIdx.x) - 128 * kConsumers);
      });
#endif
}

}  // namespace adjoint::cuda::correlation
