// How a consumer warpgroup of the tensor-core kernel of conv and conv_transpose multiplies where one product a pair of
// fragments suffices: TF32, bfloat16, float16.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/correlation.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/core/cuda/wgmma_256.cuh>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/cuda/correlation_ring.cuh>
#include <adjoint/ops/conv/cuda/wgmma_operand.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// A warpgroup's walk: its places in the rings, its fragments and its sums. While products of a piece of a step are
/// under way, which read their registers till their end, the next piece is read into other registers. A step's
/// instructions follow one another, and two warps share what a scheduler issues, so their number decides: all that a
/// step needs of the plan is worked out when a stage or pass begins.
/// kOneRow: a warp's positions lie in one row of the tile, so that their places are constants apart.
/// kGathers: a table tells where a step's units lie.
template <Arithmetic kArithmetic, int kColumns, bool kHalves, bool kOneRow, bool kGathers, int kMTiles>
struct Multiplier {
  using Traits = ArithmeticTraits<kArithmetic>;
  static constexpr bool kApart = false, kPaired = false;
  static constexpr int kSlotVectors = kChunkUnits / 4 * kColumns;
  static constexpr int kPieces = kMTiles >= 4 || kColumns <= 32 ? 2 : 1;  // of a step, where registers are few
  static constexpr int kDepths = kChunkUnits / 8 / kPieces;               // products of a piece, along K
  static_assert(!Traits::kSplit);

  const CorrelationPlan& p;
  const CorrelationOperands& operands;
  const SharedLayout& layout;
  const std::uint32_t gather;                                 // shared address of the lane's entries of step 0
  const std::uint32_t four_units;                             // bytes from a stage's unit to the fourth after it
  const std::uint32_t empty;                                  // the slots' barriers that this lane arrives on, or 0
  std::uint32_t row[kOneRow ? 1 : kMTiles][kOneRow ? 1 : 2];  // of positions 8 apart, from a stage's first unit
  Ring x_ring, w_ring;
  std::uint32_t used_slot = 0;          // barrier of the slot whose products may still be under way; 0 for none
  std::uint32_t stage_base, step_base;  // shared addresses of the stage and of a step's first unit
  int pass, end_pass, chunk, step, end_step;
  std::uint32_t a[2][kDepths][kMTiles][4];
  float sums[kMTiles][kColumns / 2];

  __device__ __forceinline__ Multiplier(const CorrelationPlan& plan, const CorrelationOperands& of_launch,
                                        const SharedLayout& shared, int first_m, int lane)
      : p(plan),
        operands(of_launch),
        layout(shared),
        gather(shared.gather + 16 * (lane % 4)),
        // By way of a shuffle, or every read would fetch the pitch from constant memory anew, and wait for it.
        four_units(ptx::uniform(16U * plan.unit_pitch)),
        empty(lane < plan.cluster && !plan.weights_resident ? ptx::address_in_cluster(shared.w_empty, lane) : 0) {
#pragma unroll
    for (int j = 0; j < (kOneRow ? 1 : kMTiles); ++j) {
#pragma unroll
      for (int h = 0; h < (kOneRow ? 1 : 2); ++h) {
        const int m = first_m + 16 * j + 8 * h + lane / 4;
        const std::uint32_t offset = 4 * (correlation_stage_offset(p, m) + (kGathers ? 0 : lane % 4 * p.unit_pitch));
        // Opaque where registers allow it, or every step works it out again.
        row[j][h] = kColumns >= 128 || (kOneRow && kMTiles < 4) ? ptx::opaque(offset) : offset;
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * kDepths * kMTiles * 4; ++i) (&a[0][0][0][0])[i] = 0;
  }

  /// Reads a piece of a step, rounded where it is not yet.
  template <int kBuffer, int kPiece>
  __device__ __forceinline__ void read() {
#pragma unroll
    for (int d = 0; d < kDepths; ++d) {
      const int fragment = kPiece * kDepths + d;
      std::uint32_t first, second;  // shared addresses of the lane's units, less its positions' offsets
      if constexpr (kGathers) {
        std::uint32_t offsets[2];
        ptx::load_shared_pair(offsets, gather + 4 * (kChunkUnits * step + 2 * fragment));
        first = (offsets[0] & 1) != 0 ? layout.zeros : step_base + offsets[0];
        second = (offsets[1] & 1) != 0 ? layout.zeros : step_base + offsets[1];
      } else {
        first = step_base + 2 * fragment * four_units;
        second = first + four_units;
      }
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int j = 0; j < kMTiles; ++j) {
          const std::uint32_t unit = r < 2 ? first : second;
          if constexpr (kOneRow) {
            a[kBuffer][d][j][r] = ptx::load_shared(row[0][0] + unit + 4 * (16 * j + r % 2 * 8));
          } else {
            a[kBuffer][d][j][r] = ptx::load_shared(row[j][r % 2] + unit);
          }
        }
      }
    }
  }

  template <int kBuffer>
  __device__ __forceinline__ void round() {
    if constexpr (!Traits::kHalf) {
      if (operands.loads_boxes) return;  // the copy engine has
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
#pragma unroll
        for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            a[kBuffer][d][j][r] = ptx::round_to_tf32(__uint_as_float(a[kBuffer][d][j][r]));
          }
        }
      }
    }
  }

  template <int kBuffer>
  __device__ __forceinline__ void pin_fragments() {
#pragma unroll
    for (int d = 0; d < kDepths; ++d) {
#pragma unroll
      for (int j = 0; j < kMTiles; ++j) wgmma::pin(a[kBuffer][d][j]);
    }
  }

  __device__ __forceinline__ void pin_sums() {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) wgmma::pin(sums[j]);
  }

  /// The sums of the lower or the upper half of a tile's columns.
  template <int kUpper>
  __device__ __forceinline__ auto& half_of(int j) {
    return *reinterpret_cast<float(*)[kColumns / 4]>(sums[j] + kUpper * (kColumns / 4));
  }

  /// A piece's products with the filter block at slot `w_ring.slot`.
  template <int kBuffer, int kPiece>
  __device__ __forceinline__ void begin_products() {
    constexpr wgmma::Operand kOperand = kWgmmaOperand<kArithmetic>;
    pin_fragments<kBuffer>();
    wgmma::fence();
    if constexpr (!kHalves) {
      const std::uint64_t slots = wgmma::matrix_descriptor(layout.w, kColumns * 16);
      const std::uint64_t b = wgmma::moved(slots, w_ring.slot * kSlotVectors + 2 * kPiece * kDepths * kColumns);
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
#pragma unroll
        for (int j = 0; j < kMTiles; ++j) {
          wgmma::multiply<kOperand, kColumns>(sums[j], a[kBuffer][d][j], wgmma::moved(b, 2 * d * kColumns));
        }
      }
    } else {
      // Always products of one width with the same registers: the compiler serialises those of several.
      constexpr int kHalf = kColumns / 2;
      const CorrelationRange range = p.steps[step].range;
      const int width = range == CorrelationRange::kAll ? kColumns : kHalf;
      const std::uint64_t slots = wgmma::matrix_descriptor(layout.w, width * 16);
      const std::uint64_t b = wgmma::moved(slots, w_ring.slot * kSlotVectors + 2 * kPiece * kDepths * width);
      if (range != CorrelationRange::kUpper) {
#pragma unroll
        for (int d = 0; d < kDepths; ++d) {
#pragma unroll
          for (int j = 0; j < kMTiles; ++j) {
            wgmma::multiply<kOperand, kHalf>(half_of<0>(j), a[kBuffer][d][j], wgmma::moved(b, 2 * d * width));
          }
        }
      }
      if (range != CorrelationRange::kLower) {
        const int first = range == CorrelationRange::kAll ? kHalf : 0;
#pragma unroll
        for (int d = 0; d < kDepths; ++d) {
#pragma unroll
          for (int j = 0; j < kMTiles; ++j) {
            wgmma::multiply<kOperand, kHalf>(half_of<1>(j), a[kBuffer][d][j], wgmma::moved(b, first + 2 * d * width));
          }
        }
      }
    }
    wgmma::commit();
  }

  __device__ __forceinline__ void enter_stage() {
    ptx::mbarrier_wait(layout.x_full + 8 * x_ring.slot, x_ring.parity);
    stage_base = layout.x + x_ring.slot * 4 * p.stage_size;
  }

  /// To the step after this one; false after the last. What products of this one read is read.
  __device__ __forceinline__ bool advance() {
    ++step;
    if (step == end_step) {
      ptx::mbarrier_arrive(layout.x_empty + 8 * x_ring.slot);
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
    step_base = stage_base + 4 * p.steps[step].tap.x_offset;
    return true;
  }

  __device__ __forceinline__ void release_slot() {
    if (used_slot != 0) ptx::mbarrier_arrive_in_cluster(used_slot);
  }

  /// Begins the products of what is read, and reads the next piece; false where there is none.
  template <int kBuffer, int kPiece>
  __device__ __forceinline__ bool turn() {
    if constexpr (kPiece == 0) ptx::mbarrier_wait(layout.w_full + 8 * w_ring.slot, w_ring.parity);
    begin_products<kBuffer, kPiece>();
    constexpr bool kEndsStep = kPiece + 1 == kPieces;
    const bool more = !kEndsStep || advance();
    wgmma::wait<1>();
    pin_fragments<1 - kBuffer>();  // until here its registers hold nothing else
    if constexpr (kPiece == 0) release_slot();
    if constexpr (kEndsStep) {
      used_slot = empty != 0 ? empty + 8 * w_ring.slot : 0;
      w_ring.advance(p.w_slots, p.weights_resident ? 0 : 1);  // what is resident stays full
    }
    if (more) {
      read<1 - kBuffer, kEndsStep ? 0 : kPiece + 1>();
      round<1 - kBuffer>();
    }
    return more;
  }

  __device__ __forceinline__ void multiply_tile(int class_index) {
    const CorrelationClass& c = p.class_list[class_index];
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) sums[j][i] = 0;
    }
    pin_sums();
    if (c.passes == 0) return;
    pass = c.first_pass;
    end_pass = c.first_pass + c.passes;
    chunk = 0;
    step = p.passes[pass].first_step;
    end_step = p.passes[pass].end_step;
    used_slot = 0;
    enter_stage();
    step_base = stage_base + 4 * p.steps[step].tap.x_offset;
    read<0, 0>();
    round<0>();
#pragma unroll 1
    for (;;) {
      if (!turn<0, 0>()) break;
      if (!turn<1, kPieces - 1>()) break;
    }
    wgmma::wait<0>();
    pin_sums();
    pin_fragments<0>();
    pin_fragments<1>();
    release_slot();
  }
};

}  // namespace adjoint::cuda::correlation
