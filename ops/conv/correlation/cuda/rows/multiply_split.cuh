// The float32 products of a consumer warpgroup of the tensor-core kernel of conv and conv_transpose: three products of
// heads and tails.
#pragma once

#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/ops/conv/base/cuda/add_sum.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/correlation/cuda/rows/walk.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// Sums of a step are added to ordinary registers, which lose no bits over many terms. The values for the next step's
/// fragments are read while products of this one run.
template <int kColumns, bool kOneRow, bool kGathers, int kMTiles>
struct SplitMultiplier : StepWalk<kColumns, kOneRow, kGathers, kMTiles> {
  using Walk = StepWalk<kColumns, kOneRow, kGathers, kMTiles>;
  using Walk::p, Walk::layout, Walk::w_ring;
  static constexpr bool kApart = false, kPaired = false;
  static constexpr int kSlotVectors = kChunkUnits / 4 * kColumns * 2;
  static constexpr int kFragments = kChunkUnits / 8;  // per step
  static constexpr wgmma::Operand kTF32 = wgmma::Operand::kTF32;

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
    for (int i = 0; i < kFragments; ++i) Walk::read(0, i, values[i]);
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

  /// The descriptor of the filter's rows that a fragment is multiplied with.
  template <int kFragment>
  __device__ __forceinline__ std::uint64_t filter_rows() const {
    const std::uint64_t slots = wgmma::matrix_descriptor(layout.w, kColumns * 16);
    return wgmma::moved(slots, w_ring.slot * kSlotVectors + 2 * kFragment * kColumns);
  }

  /// A fragment's products with tails: the step's first product restarts the sums, because the last step's are in the
  /// totals.
  template <int kFragment>
  __device__ __forceinline__ void begin_tails() {
    constexpr int kTails = kChunkUnits / 4 * kColumns;  // vectors of 16 bytes from a block's heads to its tails
    const std::uint64_t b = filter_rows<kFragment>();
    pin_fragment<kFragment>();
    pin_sums();
    wgmma::fence();
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
      wgmma::multiply<kTF32, kColumns>(sums[j], heads[kFragment][j], wgmma::moved(b, kTails), kFragment == 0 ? 0 : 1);
      wgmma::multiply<kTF32, kColumns>(sums[j], tails[kFragment][j], b);
    }
  }

  template <int kFragment>
  __device__ __forceinline__ void begin_heads() {
    const std::uint64_t b = filter_rows<kFragment>();
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) wgmma::multiply<kTF32, kColumns>(sums[j], heads[kFragment][j], b);
    wgmma::commit();
  }

  template <class Add>
  __device__ __forceinline__ void add_sums(const Add& add) {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) totals[j][i] = add(totals[j][i], sums[j][i]);
    }
  }

  /// Computes a step's products and reads the next step; returns false if there is no next step, and then the sums are
  /// not added yet.
  __device__ __forceinline__ bool turn() {
    static_assert(kFragments == 2);
    Walk::wait_for_slot();
    begin_tails<0>();
    wgmma::commit();
    split<1>();
    begin_tails<1>();
    begin_heads<0>();
    begin_heads<1>();
    const bool more = Walk::advance([] { return 0U; });  // the values that were read are split already
    if (more) read_step();
    wgmma::wait<1>();
    pin_fragment<0>();  // until here its registers hold nothing else
    if (more) split<0>();
    wgmma::wait<0>();
    pin_fragment<1>();
    pin_sums();
    Walk::leave_slot();
    Walk::release_slot();
    if (more) add_sums(AddSum{});
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
    add_sums(AddLastSum{});
  }
};

}  // namespace adjoint::cuda::correlation
