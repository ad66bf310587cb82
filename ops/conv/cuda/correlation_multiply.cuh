// How a consumer warpgroup of the tensor-core kernel of conv and conv_transpose multiplies. A step's instructions
// follow one another, and two warps share what a scheduler issues, so that their number decides: what a step needs of
// the plan is worked out when a stage or pass begins.
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
#include <type_traits>

namespace adjoint::cuda::correlation {

/// A warpgroup's walk through a tile's steps: its places in the rings, and where a lane reads.
/// kOneRow: a warp's positions lie in one row of the tile, so that their places are constants apart.
/// kGathers: a table tells where a step's units lie.
template <int kColumns, bool kOneRow, bool kGathers, int kMTiles>
struct StepWalk {
  const CorrelationPlan& p;
  const SharedLayout& layout;
  const std::uint32_t gather;                                 // shared address of the lane's entries of step 0
  const std::uint32_t four_units;                             // bytes from a stage's unit to the fourth after it
  const std::uint32_t empty;                                  // the slots' barriers that this lane arrives on, or 0
  std::uint32_t row[kOneRow ? 1 : kMTiles][kOneRow ? 1 : 2];  // of positions 8 apart, from a stage's first unit
  Ring x_ring, w_ring;
  std::uint32_t used_slot = 0;          // barrier of the slot whose products may still be under way; 0 for none
  std::uint32_t stage_base, step_base;  // shared addresses of the stage and of a step's first unit
  int pass, end_pass, chunk, step, end_step;

  __device__ __forceinline__ StepWalk(const CorrelationPlan& plan, const SharedLayout& shared, int first_m, int lane)
      : p(plan),
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
  }

  /// Eight units of K of the step, the fragment-th ones.
  __device__ __forceinline__ void read(int fragment, std::uint32_t (&to)[kMTiles][4]) const {
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
          to[j][r] = ptx::load_shared(row[0][0] + unit + 4 * (16 * j + r % 2 * 8));
        } else {
          to[j][r] = ptx::load_shared(row[j][r % 2] + unit);
        }
      }
    }
  }

  /// Waits for the stage of the step, and finds the step in it.
  __device__ __forceinline__ void enter_stage() {
    ptx::mbarrier_wait(layout.x_full + 8 * x_ring.slot, x_ring.parity);
    stage_base = layout.x + x_ring.slot * 4 * p.stage_size;
  }
  __device__ __forceinline__ void enter_step() { step_base = stage_base + 4 * p.steps[step].tap.x_offset; }

  /// To a class's first step; false where it has none.
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

  /// To the step after this one, of which everything is read; false after the last.
  __device__ __forceinline__ bool advance() {
    ++step;
    if (step == end_step) {
      // Every lane for itself: one lane after a __syncwarp is 1% faster at best, and racecheck takes it for a race.
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
    enter_step();
    return true;
  }

  __device__ __forceinline__ void wait_for_slot() const {
    ptx::mbarrier_wait(layout.w_full + 8 * w_ring.slot, w_ring.parity);
  }
  /// Leaves the slot, whose products may still be under way, for the next.
  __device__ __forceinline__ void leave_slot() {
    used_slot = empty != 0 ? empty + 8 * w_ring.slot : 0;
    w_ring.advance(p.w_slots, p.weights_resident ? 0 : 1);  // what is resident stays full
  }
  /// Gives back the slot that was left, when its products are done.
  __device__ __forceinline__ void release_slot() const {
    if (used_slot != 0) ptx::mbarrier_arrive_in_cluster(used_slot);
  }
};

/// Where one product a pair of fragments suffices: TF32, bfloat16, float16. While products of a piece of a step are
/// under way, which read their registers till their end, the next piece is read into other registers.
template <Arithmetic kArithmetic, int kColumns, bool kHalves, bool kOneRow, bool kGathers, int kMTiles>
struct SingleMultiplier : StepWalk<kColumns, kOneRow, kGathers, kMTiles> {
  using Walk = StepWalk<kColumns, kOneRow, kGathers, kMTiles>;
  using Walk::p, Walk::layout, Walk::step, Walk::w_ring;
  using Traits = ArithmeticTraits<kArithmetic>;
  static constexpr bool kApart = false, kPaired = false;
  static constexpr int kSlotVectors = kChunkUnits / 4 * kColumns;
  static constexpr int kPieces = kMTiles >= 4 || kColumns <= 32 ? 2 : 1;  // of a step, where registers are few
  static constexpr int kDepths = kChunkUnits / 8 / kPieces;               // products of a piece, along K

  const CorrelationOperands& operands;
  std::uint32_t a[2][kDepths][kMTiles][4];
  float sums[kMTiles][kColumns / 2];

  __device__ __forceinline__ SingleMultiplier(const CorrelationPlan& plan, const CorrelationOperands& of_launch,
                                              const SharedLayout& shared, int first_m, int lane)
      : Walk(plan, shared, first_m, lane), operands(of_launch) {
#pragma unroll
    for (int i = 0; i < 2 * kDepths * kMTiles * 4; ++i) (&a[0][0][0][0])[i] = 0;
  }

  /// Reads a piece of the step; rounds it, where the copy engine has not.
  template <int kBuffer, int kPiece>
  __device__ __forceinline__ void read_piece() {
#pragma unroll
    for (int d = 0; d < kDepths; ++d) Walk::read(kPiece * kDepths + d, a[kBuffer][d]);
    if constexpr (!Traits::kHalf) {
      if (operands.loads_boxes) return;
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

  /// Begins the products of what is read, and reads the next piece; false where there is none.
  template <int kBuffer, int kPiece>
  __device__ __forceinline__ bool turn() {
    if constexpr (kPiece == 0) Walk::wait_for_slot();
    begin_products<kBuffer, kPiece>();
    constexpr bool kEndsStep = kPiece + 1 == kPieces;
    const bool more = !kEndsStep || Walk::advance();
    wgmma::wait<1>();
    pin_fragments<1 - kBuffer>();  // until here its registers hold nothing else
    if constexpr (kPiece == 0) Walk::release_slot();
    if constexpr (kEndsStep) Walk::leave_slot();
    if (more) read_piece<1 - kBuffer, kEndsStep ? 0 : kPiece + 1>();
    return more;
  }

  __device__ __forceinline__ void multiply_tile(int class_index) {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) sums[j][i] = 0;
    }
    pin_sums();
    if (!Walk::begin(p.class_list[class_index])) return;
    read_piece<0, 0>();
#pragma unroll 1
    for (;;) {
      if (!turn<0, 0>()) break;
      if (!turn<1, kPieces - 1>()) break;
    }
    wgmma::wait<0>();
    pin_sums();
    pin_fragments<0>();
    pin_fragments<1>();
    Walk::release_slot();
  }
};

/// float32 in three products of heads and tails. Sums of a step are added to ordinary registers, which lose no bits
/// over many terms. What the next step's fragments are made of is read while products of this one are under way.
template <int kColumns, bool kOneRow, bool kGathers, int kMTiles>
struct SplitMultiplier : StepWalk<kColumns, kOneRow, kGathers, kMTiles> {
  using Walk = StepWalk<kColumns, kOneRow, kGathers, kMTiles>;
  using Walk::p, Walk::layout, Walk::w_ring;
  static constexpr bool kApart = false, kPaired = false;
  static constexpr int kSlotVectors = kChunkUnits / 4 * kColumns * 2;
  static constexpr int kFragments = kChunkUnits / 8;  // of a step

  std::uint32_t values[kFragments][kMTiles][4];  // read and not yet split
  std::uint32_t heads[kFragments][kMTiles][4], tails[kFragments][kMTiles][4];
  float sums[kMTiles][kColumns / 2], totals[kMTiles][kColumns / 2];

  __device__ __forceinline__ SplitMultiplier(const CorrelationPlan& plan, const CorrelationOperands& /*operands*/,
                                             const SharedLayout& shared, int first_m, int lane)
      : Walk(plan, shared, first_m, lane) {
#pragma unroll
    for (int i = 0; i < kFragments * kMTiles * 4; ++i) {
      (&values[0][0][0])[i] = (&heads[0][0][0])[i] = (&tails[0][0][0])[i] = 0;
    }
  }

  __device__ __forceinline__ void read_step() {
#pragma unroll
    for (int i = 0; i < kFragments; ++i) Walk::read(i, values[i]);
  }

  template <int kFragment>
  __device__ __forceinline__ void split() {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        split_tf32(__uint_as_float(values[kFragment][j][r]), heads[kFragment][j][r], tails[kFragment][j][r]);
      }
    }
  }

  template <int kFragment>
  __device__ __forceinline__ void pin_fragment() {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
      wgmma::pin(heads[kFragment][j]);
      wgmma::pin(tails[kFragment][j]);
    }
  }

  __device__ __forceinline__ void pin_sums() {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) wgmma::pin(sums[j]);
  }

  /// Products of a fragment: the step's first begins the sums anew, for the last step's are in the totals.
  template <int kFragment>
  __device__ __forceinline__ void begin_products() {
    constexpr int kTails = kChunkUnits / 4 * kColumns;  // vectors of 16 bytes from a block's heads to its tails
    const std::uint64_t slots = wgmma::matrix_descriptor(layout.w, kColumns * 16);
    const std::uint64_t b = wgmma::moved(slots, w_ring.slot * kSlotVectors + 2 * kFragment * kColumns);
    pin_fragment<kFragment>();
    pin_sums();
    wgmma::fence();
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
      constexpr wgmma::Operand kTF32 = wgmma::Operand::kTF32;
      wgmma::multiply<kTF32, kColumns>(sums[j], heads[kFragment][j], b, kFragment == 0 ? 0 : 1);
      wgmma::multiply<kTF32, kColumns>(sums[j], heads[kFragment][j], wgmma::moved(b, kTails));
      wgmma::multiply<kTF32, kColumns>(sums[j], tails[kFragment][j], b);
    }
    wgmma::commit();
  }

  /// The products of a step, and the reading of the next; false where there is none.
  __device__ __forceinline__ bool turn() {
    static_assert(kFragments == 2);
    Walk::wait_for_slot();
    begin_products<0>();
    split<1>();
    begin_products<1>();
    const bool more = Walk::advance();
    if (more) read_step();
    wgmma::wait<1>();
    pin_fragment<0>();  // until here its registers hold nothing else
    if (more) split<0>();
    wgmma::wait<0>();
    pin_fragment<1>();
    pin_sums();
    Walk::leave_slot();
    Walk::release_slot();
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) totals[j][i] += sums[j][i];
    }
    return more;
  }

  __device__ __forceinline__ void multiply_tile(int class_index) {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) sums[j][i] = totals[j][i] = 0;
    }
    if (!Walk::begin(p.class_list[class_index])) return;
    read_step();
    split<0>();
#pragma unroll 1
    while (turn()) {
    }
  }
};

template <Arithmetic kArithmetic, int kColumns, bool kHalves, bool kOneRow, bool kGathers, int kMTiles>
using Multiplier =
    std::conditional_t<ArithmeticTraits<kArithmetic>::kSplit, SplitMultiplier<kColumns, kOneRow, kGathers, kMTiles>,
                       SingleMultiplier<kArithmetic, kColumns, kHalves, kOneRow, kGathers, kMTiles>>;

}  // namespace adjoint::cuda::correlation
