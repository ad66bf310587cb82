// How a consumer warpgroup of the tensor-core kernel of conv and conv_transpose multiplies where one product a pair of
// fragments suffices: TF32, bfloat16, float16.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/correlation.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/core/cuda/wgmma_256.cuh>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/cuda/correlation_walk.cuh>
#include <adjoint/ops/conv/cuda/wgmma_operand.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// While products of a piece of a step are under way, which read their registers till their end, the next piece is read
/// into other registers.
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
      : Walk(plan, shared, first_m, lane), operands(of_launch) {}

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
      // Always products of one width with the same registers: the compiler serialises those of several. Each branch
      // ends a group of its own, so that turn()'s wait for all but the last leaves nothing under way: right, but slow.
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
    // What is pinned before it is written, or it would take registers from one tile to the next.
#pragma unroll
    for (int i = 0; i < kDepths * kMTiles * 4; ++i) (&a[1][0][0][0])[i] = 0;
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

}  // namespace adjoint::cuda::correlation
