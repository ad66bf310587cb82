// The tensor-core kernel of conv and conv_transpose for sm_80 and later, by mma.sync; correlation/plan.h holds its
// schedule and index arithmetic.
//
// Positions are the product's rows, a warp's sixteen at a time as in the kernel for sm_90a; every warp computes all
// columns of a tile for its positions. A fragments are read straight from the staged raw rows (any offset, no bank
// conflicts because of the pitch) and rounded in registers; B fragments by ldmatrix from the packed filter blocks. All
// threads load, multiply and store; one __syncthreads() a step.
#pragma once

#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/cuda/mma/prefetch.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/base/cuda/mma_multiply.cuh>
#include <adjoint/ops/conv/correlation/cuda/mma/load.cuh>
#include <adjoint/ops/conv/correlation/cuda/store/store.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation_mma {

/// A warp's sums over a tile: 16 * kMTiles positions, all columns.
template <Arithmetic kArithmetic, int kColumns, int kMTiles>
struct Multiplier {
  using Traits = ArithmeticTraits<kArithmetic>;
  static constexpr bool kSplit = Traits::kSplit;
  static constexpr int kSize = Traits::kHalf ? 2 : 4;
  // Instructions along K whose fragments are read together: four matrices per read, of two depths or of head and tail.
  static constexpr int kDepths = kSplit ? 1 : 2;

  /// A fragments: heads, and tails if float32 is split.
  struct Fragments {
    std::uint32_t head[kDepths][kMTiles][4];
    std::uint32_t tail[kSplit ? kDepths : 1][kSplit ? kMTiles : 1][4];
  };

  const CorrelationPlan& p;
  std::uint32_t row[kMTiles][2];
  float sums[kMTiles][kColumns / 2];

  __device__ __forceinline__ Multiplier(const CorrelationPlan& plan, int first_m, int lane) : p(plan) {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int m = first_m + 16 * j + 8 * h + lane / 4;
        row[j][h] = kSize * correlation_stage_offset(p, m) + 4 * (lane % 4) * p.unit_pitch;
      }
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) sums[j][i] = 0;
    }
  }

  /// The unit at an address of a stage: a float, or the halves of two channels.
  __device__ __forceinline__ std::uint32_t load_unit(std::uint32_t address) const {
    if constexpr (Traits::kHalf) {
      const std::uint32_t low = ptx::load_shared_half(address);
      return low | ptx::load_shared_half(address + 2 * p.unit_pitch) << 16;
    } else {
      return ptx::load_shared(address);
    }
  }

  __device__ __forceinline__ void load_fragments(std::uint32_t first_unit, Fragments& a) const {
#pragma unroll
    for (int k = 0; k < kDepths; ++k) {
#pragma unroll
      for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const std::uint32_t unit = load_unit(row[j][r & 1] + (first_unit + (2 * k + r / 2) * 16 * p.unit_pitch));
          if constexpr (kSplit) {
            split_tf32(__uint_as_float(unit), a.head[k][j][r], a.tail[k][j][r]);
          } else if constexpr (Traits::kHalf) {
            a.head[k][j][r] = unit;
          } else {
            a.head[k][j][r] = ptx::round_to_tf32(__uint_as_float(unit));
          }
        }
      }
    }
  }

  /// kCount neighbouring eights of columns. One product at a time for all of them, because each waits for the previous
  /// one on its sums. For split float32 the small products come first, and ordinary instructions add their sums: tensor
  /// cores round towards zero.
  template <int kCount>
  __device__ __forceinline__ void multiply_eights(const Fragments& a, int first, std::uint32_t b) {
    std::uint32_t matrices[kCount][4];
#pragma unroll
    for (int i = 0; i < kCount; ++i) ptx::load_matrices(matrices[i], b + 128 * i);
    float of_step[kSplit ? kCount : 1][kSplit ? kMTiles : 1][4] = {};
#pragma unroll
    for (int product = 0; product < (kSplit ? 3 : kDepths); ++product) {
      const int by = kSplit ? (product == 0 ? 2 : 0) : 2 * product;  // split: head * tail, tail * head, head * head
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
#pragma unroll
        for (int j = 0; j < kMTiles; ++j) {
          if constexpr (kSplit) {
            const auto& rows = product == 1 ? a.tail[0][j] : a.head[0][j];
            mma_multiply<kArithmetic>(of_step[i][j], rows, {matrices[i][by], matrices[i][by + 1]});
          } else {
            auto& d = *reinterpret_cast<float(*)[4]>(sums[j] + 4 * (first + i));
            mma_multiply<kArithmetic>(d, a.head[product][j], {matrices[i][by], matrices[i][by + 1]});
          }
        }
      }
    }
    if constexpr (kSplit) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
#pragma unroll
        for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
          for (int r = 0; r < 4; ++r) sums[j][4 * (first + i) + r] += of_step[i][j][r];
        }
      }
    }
  }

  /// Half of the tile's columns, from the kFirst-th eight on; `b` is the lane's address in the first one's matrices.
  template <int kFirst>
  __device__ __forceinline__ void multiply_half(const Fragments& a, std::uint32_t b) {
    constexpr int kEights = kColumns / 16, kAtOnce = kEights < 2 ? kEights : 2;
#pragma unroll
    for (int i = 0; i < kEights; i += kAtOnce) multiply_eights<kAtOnce>(a, kFirst + i, b + 128 * i);
  }

  /// One step, with the stage and the filter block at the addresses.
  __device__ __forceinline__ void multiply_step(int index, std::uint32_t stage, std::uint32_t block, int lane) {
    const CorrelationStep& step = p.steps[index];
    const std::uint32_t four_units = step.halves() * (kColumns / 2) * 16, tails = kChunkUnits / 4 * four_units;
    std::uint32_t unit = stage + kSize * p.taps[index].x_offset, b = block + lane % 8 * 16;
    b += kSplit ? lane / 8 % 2 * four_units + lane / 16 * tails : lane / 8 * four_units;
#pragma unroll
    for (int k = 0; k < kChunkUnits / 8; k += kDepths) {
      Fragments a;
      load_fragments(unit + k * 32 * p.unit_pitch, a);
      const std::uint32_t lower = b + k * 2 * four_units;
      if (step.range != CorrelationRange::kUpper) multiply_half<0>(a, lower);
      if (step.range != CorrelationRange::kLower) {
        multiply_half<kColumns / 16>(a, step.range == CorrelationRange::kAll ? lower + kColumns / 2 * 16 : lower);
      }
    }
  }
};

/// Waits for all of this thread's copies except those of the last ahead - 1 steps.
__device__ __forceinline__ void wait_for_step(int ahead) {
  static_assert(kMostStepsAhead == 3);
  if (ahead == 3) {
    ptx::cp_async_wait<2>();
  } else if (ahead == 2) {
    ptx::cp_async_wait<1>();
  } else {
    ptx::cp_async_wait<0>();
  }
}

template <Arithmetic kArithmetic, int kColumns, int kMTiles, int kWarps, int kBlocksPerSM>
__global__ void __launch_bounds__(32 * kWarps, kBlocksPerSM)
    correlation_mma_kernel(const __grid_constant__ CorrelationPlan p, const CorrelationOperands operands,
                           const LoadOptions load) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  constexpr int kStagingFloats = correlation_staged_columns(kColumns, false) * (16 * kMTiles + 4);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::uint32_t stage_bytes = 4 * kChunkUnits * p.unit_pitch, block_bytes = 4 * p.w_block_units;

  SharedLayout shared;
  shared.smem = ptx::dynamic_smem();
  shared.base = ptx::shared_address(shared.smem);
  const CorrelationMmaSmem at = correlation_mma_smem(p, kWarps, kColumns, kMTiles);
  shared.w = shared.base + at.w;
  shared.x = shared.base + at.x;
  shared.items = reinterpret_cast<Item*>(shared.smem + at.items);
  auto* const biases = reinterpret_cast<float*>(shared.smem);
  float* const staging = reinterpret_cast<float*>(shared.smem + at.staging) + warp * kStagingFloats;

  Loader<Traits::kHalf, kWarps> loader(p, operands, shared, load.vector);
  for (int i = 0; i < load.ahead; ++i) {
    __syncthreads();  // the table of items has been read
    loader.load_step();
  }

  const int first_m = warp * 16 * kMTiles;
  Multiplier<kArithmetic, kColumns, kMTiles> multiplier(p, first_m, lane);
  int x_slot = 0, w_slot = 0;
  const int tiles = static_cast<int>(p.tiles());
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    const CorrelationWork work = correlation_work(p, tile);
    __syncthreads();  // the last tile's columns have been read
    correlation::fill_biases(p, work, static_cast<const T*>(operands.bias), biases, static_cast<int>(threadIdx.x));
    multiplier.clear();
    const CorrelationClass& c = p.class_list[work.class_index];
    for (int i = c.first_pass; i < c.first_pass + c.passes; ++i) {
      for (int chunk = 0; chunk < p.chunks; ++chunk) {
        for (int s = p.passes[i].first_step; s < p.passes[i].end_step; ++s) {
          wait_for_step(load.ahead);
          __syncthreads();
          loader.load_step();
          multiplier.multiply_step(s, shared.x + x_slot * stage_bytes, shared.w + w_slot * block_bytes, lane);
          w_slot = w_slot + 1 == p.w_slots ? 0 : w_slot + 1;
        }
        x_slot = x_slot + 1 == p.x_stages ? 0 : x_slot + 1;
      }
    }
    __syncthreads();  // a tile without steps fills its columns only here
    correlation::store_tile<T, false, kColumns, kMTiles>(p, operands, work, multiplier.sums, biases, staging, first_m,
                                                         lane);
  }
}

}  // namespace adjoint::cuda::correlation_mma
