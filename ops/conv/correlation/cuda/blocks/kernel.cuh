// The tensor-core kernel of conv and conv_transpose for sm_90a that reads a copy of the input in channel blocks, which
// pack_operands_kernel makes; correlation/plan.h holds its schedule (`blocked`). The copy engine brings both operands
// of its products to shared memory in their final layout: multipliers do not read, round or wait for anything else. If
// a group has many channels and results, the copy costs less than reading, rounding and packing for every tile.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>
#include <adjoint/ops/conv/base/cuda/add_sum.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/base/cuda/wgmma_operand.cuh>
#include <adjoint/ops/conv/correlation/cuda/roles.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::blocked {

using correlation::SharedLayout;

/// A consumer warpgroup's loop over a tile: its places in the rings and its sums.
template <Arithmetic kArithmetic, int kColumns, bool kHalves, int kMTiles>
struct Multiplier {
  static constexpr bool kSplit = ArithmeticTraits<kArithmetic>::kSplit, kApart = true, kPaired = kHalves;
  static constexpr int kDepths = kChunkUnits / 8;  // instructions along K per step
  static constexpr int kSlotVectors = kChunkUnits / 4 * kColumns * (kSplit ? 2 : 1);

  const CorrelationPlan& p;
  const SharedLayout& layout;
  const std::uint32_t empty;  // the slots' barriers that this lane arrives on, or 0
  const std::uint64_t boxes;  // descriptor of the first stage's boxes for this warpgroup's positions
  Ring x_ring, w_ring;
  // Barriers of the memory that running products read; 0: no barrier.
  std::uint32_t used_stage = 0, used_slot = 0;
  float sums[kMTiles][kColumns / 2];
  float totals[kSplit ? kMTiles : 1][kSplit ? kColumns / 2 : 1];

  __device__ __forceinline__ Multiplier(const CorrelationPlan& plan, const CorrelationOperands& /*operands*/,
                                        const SharedLayout& shared, int first_m, int lane)
      : p(plan),
        layout(shared),
        empty(lane < plan.cluster && !plan.weights_resident ? ptx::address_in_cluster(shared.w_empty, lane) : 0),
        boxes(wgmma::matrix_descriptor(shared.x + 16 * ptx::uniform(first_m / kBoxPositions) * plan.box_vectors,
                                       16 * plan.box_positions, 16 * plan.box_step())) {}

  /// Releases the memory that finished products have read.
  __device__ __forceinline__ void release() {
    if (used_slot != 0) ptx::mbarrier_arrive_in_cluster(used_slot);
    if (used_stage != 0) ptx::mbarrier_arrive(used_stage);
    used_slot = used_stage = 0;
  }

  __device__ __forceinline__ void pin_sums() {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) wgmma::pin(sums[j]);
  }

  /// A slot's products with some of the tile's columns, whose sums begin at kFirst of each m-tile's. `a` and `b` are
  /// the descriptors of the first units.
  template <int kFirst, int kWidth>
  __device__ __forceinline__ void begin_products(std::uint64_t a, std::uint64_t b) {
    constexpr wgmma::Operand kOperand = kWgmmaOperand<kArithmetic>;
    const auto multiply = [&](int k, int j, int tail_of_a, int tail_of_b, int accumulate) {
      const std::uint64_t rows = wgmma::moved(a, (2 * k + 4 * tail_of_a) * p.box_positions + j * p.box_vectors);
      auto& d = *reinterpret_cast<float(*)[kWidth / 2]>(sums[j] + kFirst);
      wgmma::multiply_shared<kOperand, kWidth>(d, rows, wgmma::moved(b, (2 * k + 4 * tail_of_b) * kWidth), accumulate);
    };
    if constexpr (kSplit) {
#pragma unroll
      for (int k = 0; k < kDepths; ++k) {
#pragma unroll
        for (int j = 0; j < kMTiles; ++j) {
          multiply(k, j, 0, 1, k == 0 ? 0 : 1);
          multiply(k, j, 1, 0, 1);
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kDepths; ++k) {
#pragma unroll
      for (int j = 0; j < kMTiles; ++j) multiply(k, j, 0, 0, 1);
    }
  }

  /// Adds kCount of each m-tile's sums, from kFirst on, to ordinary registers, which lose no bits over many terms.
  template <int kFirst, int kCount, class Add>
  __device__ __forceinline__ void promote(const Add& add) {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int n = kFirst; n < kFirst + kCount; ++n) totals[j][n] = add(totals[j][n], sums[j][n]);
    }
  }

  /// Starts a slot's products by `begin(descriptor of its filter blocks)` and releases the memory that the previous
  /// ones have read. kWidth: columns of a filter block. kFirst, kCount: the products' sums in each m-tile.
  template <int kWidth, int kFirst, int kCount, class Begin>
  __device__ __forceinline__ void multiply_slot(const Begin& begin) {
    const std::uint64_t slots = wgmma::matrix_descriptor(layout.w, kWidth * 16);
    // Sums are added only when others replace them, so the last ones are known to be the last.
    if constexpr (kSplit) promote<kFirst, kCount>(AddSum{});
    ptx::mbarrier_wait(layout.w_full + 8 * w_ring.slot, w_ring.parity);
    if constexpr (kSplit) pin_sums();
    wgmma::fence();
    begin(wgmma::moved(slots, w_ring.slot * kSlotVectors));
    wgmma::commit();
    if constexpr (kSplit) {
      wgmma::wait<0>();
      pin_sums();
    } else {
      wgmma::wait<1>();
      release();
    }
    used_slot = empty != 0 ? empty + 8 * w_ring.slot : 0;
    if constexpr (kSplit) release();
    w_ring.advance(p.w_slots, p.weights_resident ? 0 : 1);  // resident slots stay full
  }

  /// A pass's steps with a stage; `stage`: descriptor of its boxes for this warpgroup.
  __device__ __forceinline__ void multiply_stage(const CorrelationPass& pass, std::uint64_t stage) {
    const auto place = [&](int step) { return wgmma::moved(stage, p.taps[step].x_offset); };
    if constexpr (!kHalves) {
#pragma unroll 1
      for (int s = pass.first_step; s < pass.end_step; ++s) {
        multiply_slot<kColumns, 0, kColumns / 2>([&](std::uint64_t b) { begin_products<0, kColumns>(place(s), b); });
      }
    } else {
      // Always products of one width, because the compiler serialises those of several widths.
      constexpr int kHalf = kColumns / 2, kSums = kHalf / 2;
#pragma unroll 1
      for (int s = pass.first_step; s < pass.upper_step; s += 2) {
        multiply_slot<kHalf, 0, 2 * kSums>([&](std::uint64_t b) {
          begin_products<0, kHalf>(place(s), b);
          begin_products<kSums, kHalf>(place(s + 1), wgmma::moved(b, kSlotVectors / 2));
        });
      }
      if (pass.upper_step == pass.end_step) return;
      if (p.steps[pass.upper_step].range == CorrelationRange::kLower) {
#pragma unroll 1
        for (int s = pass.upper_step; s < pass.end_step; ++s) {
          multiply_slot<kHalf, 0, kSums>([&](std::uint64_t b) { begin_products<0, kHalf>(place(s), b); });
        }
      } else {
#pragma unroll 1
        for (int s = pass.upper_step; s < pass.end_step; ++s) {
          multiply_slot<kHalf, kSums, kSums>([&](std::uint64_t b) { begin_products<kSums, kHalf>(place(s), b); });
        }
      }
    }
  }

  __device__ __forceinline__ void multiply_tile(int class_index) {
    const CorrelationClass& c = p.class_list[class_index];
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) {
        sums[j][i] = 0;
        if constexpr (kSplit) totals[j][i] = 0;
      }
    }
    pin_sums();
#pragma unroll 1
    for (int i = c.first_pass; i < c.first_pass + c.passes; ++i) {
      const CorrelationPass& pass = p.passes[i];
#pragma unroll 1
      for (int chunk = 0; chunk < p.chunks; ++chunk) {
        ptx::mbarrier_wait(layout.x_full + 8 * x_ring.slot, x_ring.parity);
        const std::uint64_t stage = wgmma::moved(boxes, x_ring.slot * (kMTiles * p.consumers * p.box_vectors));
        multiply_stage(pass, stage);
        used_stage = layout.x_empty + 8 * x_ring.slot;
        if constexpr (kSplit) release();
        x_ring.advance(layout.x_stages);
      }
    }
    wgmma::wait<0>();
    pin_sums();
    release();
    if constexpr (kSplit) promote<0, kColumns / 2>(AddLastSum{});
  }
};

/// Run by one thread: copies every tile's boxes, in the order of the block's tiles.
__device__ __forceinline__ void copy_boxes(const CorrelationPlan& p, const TensorMap& map, const SharedLayout& layout) {
  const int tiles = static_cast<int>(p.tiles()), boxes = p.m_tiles * p.consumers;
  const int box_bytes = 16 * p.box_blocks * p.box_positions;
  Ring ring;
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    const CorrelationWork work = correlation_work(p, tile);
    const CorrelationClass& c = p.class_list[work.class_index];
    for (int i = c.first_pass; i < c.first_pass + c.passes; ++i) {
      const CorrelationPass& pass = p.passes[i];
      for (int chunk = 0; chunk < p.chunks; ++chunk) {
        const std::uint32_t full = layout.x_full + 8 * ring.slot;
        ptx::mbarrier_wait(layout.x_empty + 8 * ring.slot, ring.parity ^ 1);
        ptx::mbarrier_arrive_expect_bytes(full, boxes * box_bytes);
        const int block = p.copy().block(work.group, pass.h_residue, pass.first_plane, chunk);
        for (int box = 0; box < boxes; ++box) {
          const CorrelationPosition q = correlation_position(p, box * kBoxPositions);
          const int at[kTensorMapAxes] = {kMapElements * (work.w + q.w + pass.w_base), work.h + q.h + pass.h_base,
                                          static_cast<int>(work.n) + q.n, block, 0};
          ptx::tensor_copy(layout.x + 16 * (ring.slot * boxes + box) * p.box_vectors, &map, at, full);
        }
        ring.advance(layout.x_stages);
      }
    }
  }
}

/// kPartial: halves' results are float32. With both kinds in one kernel some 40 layers took 5 to 18% longer.
template <Arithmetic kArithmetic, int kColumns, bool kHalves, int kMTiles, int kConsumers, bool kPartial>
__global__ void __launch_bounds__(128 * (kConsumers + 1), 1)
    blocked_kernel(const __grid_constant__ CorrelationPlan plan, const __grid_constant__ TensorMap map,
                   const __grid_constant__ CorrelationOperands operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which is never launched
  using Result = std::conditional_t<kPartial, float, typename ArithmeticTraits<kArithmetic>::Element>;
  using Multiplies = Multiplier<kArithmetic, kColumns, kHalves, kMTiles>;
  unsigned char* const smem = ptx::dynamic_smem();
  const SharedLayout layout =
      correlation::lay_out<kConsumers, kColumns, kMTiles, true, false>(plan, ptx::uniform(ptx::shared_address(smem)));
  correlation::init_barriers<kConsumers>(plan, layout, 1);
  ptx::wait_for_earlier_kernels();
  correlation::run_roles<kArithmetic, kColumns, kMTiles, kConsumers, 1, Multiplies, Result>(
      plan, operands, layout, smem, [&](int warp) {
        if (warp == 0 && threadIdx.x % 32 == 0) copy_boxes(plan, map, layout);
      });
#endif
}

}  // namespace adjoint::cuda::blocked
