// The products of a consumer warpgroup of the tensor-core kernel of conv and conv_transpose if one product per pair of
// fragments suffices: TF32, bfloat16, float16.
#pragma once

#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/base/cuda/wgmma_operand.cuh>
#include <adjoint/ops/conv/correlation/cuda/rows/walk.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// While products of a piece of a step run, which read their registers until they end, the next piece is read into
/// other registers. kHalves: steps come in pairs of a lower and an upper one, whose products follow one another without
/// a branch: with branches the compiler would wait for each branch's products before it starts the next.
template <Arithmetic kArithmetic, int kColumns, bool kHalves, bool kOneRow, bool kGathers, int kMTiles>
struct SingleMultiplier : StepWalk<kColumns, kOneRow, kGathers, kMTiles, kHalves ? 2 : 1> {
  static constexpr int kSteps = kHalves ? 2 : 1, kWidth = kColumns / kSteps;  // columns of a step's products
  using Walk = StepWalk<kColumns, kOneRow, kGathers, kMTiles, kSteps>;
  using Walk::p, Walk::layout, Walk::w_ring;
  using Traits = ArithmeticTraits<kArithmetic>;
  static constexpr bool kApart = false, kPaired = kHalves;
  static constexpr int kSlotVectors = kChunkUnits / 4 * kColumns;
  static constexpr int kPieces = kMTiles * kSteps >= 4 || kColumns <= 32 ? 2 : 1;  // per step, if registers are scarce
  static constexpr int kDepths = kChunkUnits / 8 / kPieces;                        // products per piece, along K

  const CorrelationOperands& operands;
  std::uint32_t a[2][kSteps][kDepths][kMTiles][4];
  float sums[kMTiles][kColumns / 2];
  bool more = false;  // true if another step follows the ones that are completely read

  __device__ __forceinline__ SingleMultiplier(const CorrelationPlan& plan, const CorrelationOperands& of_launch,
                                              const SharedLayout& shared, int first_m, int lane)
      : Walk(plan, shared, first_m, lane), operands(of_launch) {}

  /// Calls `use(fragment)` for each fragment of a buffer.
  template <int kBuffer, class Use>
  __device__ __forceinline__ void for_fragments(const Use& use) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
#pragma unroll
        for (int j = 0; j < kMTiles; ++j) use(a[kBuffer][s][d][j]);
      }
    }
  }

  /// Reads a piece of the step or steps; rounds it, unless the copy engine has.
  template <int kBuffer, int kPiece>
  __device__ __forceinline__ void read_piece() {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
      for (int d = 0; d < kDepths; ++d) Walk::read(s, kPiece * kDepths + d, a[kBuffer][s][d]);
    }
    if constexpr (!Traits::kHalf) {
      if (operands.loads_boxes) return;
      for_fragments<kBuffer>([](std::uint32_t(&fragment)[4]) {
#pragma unroll
        for (int r = 0; r < 4; ++r) fragment[r] = ptx::round_to_tf32(__uint_as_float(fragment[r]));
      });
    }
  }

  template <int kBuffer>
  __device__ __forceinline__ void pin_fragments() {
    for_fragments<kBuffer>([](std::uint32_t(&fragment)[4]) { wgmma::pin(fragment); });
  }

  /// Zero, available only after all reads into a buffer are complete; the compiler does not know that it is zero.
  template <int kBuffer>
  __device__ __forceinline__ std::uint32_t zero_of() {
    std::uint32_t bits = 0;
    for_fragments<kBuffer>([&](const std::uint32_t(&fragment)[4]) {
#pragma unroll
      for (int r = 0; r < 4; ++r) bits |= fragment[r];
    });
    return bits & operands.zero;
  }

  __device__ __forceinline__ void pin_sums() {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) wgmma::pin(sums[j]);
  }

  /// A piece's products with the filter blocks at slot `w_ring.slot`.
  template <int kBuffer, int kPiece>
  __device__ __forceinline__ void begin_products() {
    constexpr wgmma::Operand kOperand = kWgmmaOperand<kArithmetic>;
    pin_fragments<kBuffer>();
    wgmma::fence();
    const std::uint64_t slots = wgmma::matrix_descriptor(layout.w, kWidth * 16);
    const std::uint64_t b = wgmma::moved(slots, w_ring.slot * kSlotVectors + 2 * kPiece * kDepths * kWidth);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
        const std::uint64_t columns = wgmma::moved(b, s * (kSlotVectors / kSteps) + 2 * d * kWidth);
#pragma unroll
        for (int j = 0; j < kMTiles; ++j) {
          auto& of_step = *reinterpret_cast<float(*)[kWidth / 2]>(sums[j] + s * (kWidth / 2));
          wgmma::multiply<kOperand, kWidth>(of_step, a[kBuffer][s][d][j], columns);
        }
      }
    }
    wgmma::commit();
  }

  /// Starts the products of the data that was read, and reads the next; returns false if there are no further data. The
  /// computations and waits for the read after that follow the loads, so they cost no extra time.
  template <int kBuffer, int kPiece>
  __device__ __forceinline__ bool turn() {
    constexpr bool kEndsStep = kPiece + 1 == kPieces;
    if constexpr (kPiece == 0) Walk::wait_for_slot();
    begin_products<kBuffer, kPiece>();
    wgmma::wait<1>();
    pin_fragments<1 - kBuffer>();  // until here its registers hold nothing else
    if constexpr (kPiece == 0) Walk::release_slot();
    if constexpr (kEndsStep) Walk::leave_slot();
    if (kEndsStep && !more) return false;
    read_next<1 - kBuffer, kEndsStep ? 0 : kPiece + 1>();
    return true;
  }

  /// Reads a piece, and after a step's last piece moves to the next step.
  template <int kBuffer, int kPiece>
  __device__ __forceinline__ void read_next() {
    read_piece<kBuffer, kPiece>();
    if constexpr (kPiece + 1 == kPieces) more = Walk::advance([&] { return zero_of<kBuffer>(); });
  }

  __device__ __forceinline__ void multiply_tile(int class_index) {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) sums[j][i] = 0;
    }
    pin_sums();
    // Pins fragments before they are written, or they would occupy registers from one tile to the next.
#pragma unroll
    for (int i = 0; i < kSteps * kDepths * kMTiles * 4; ++i) (&a[1][0][0][0][0])[i] = 0;
    if (!Walk::begin(p.class_list[class_index])) return;
    read_next<0, 0>();
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
