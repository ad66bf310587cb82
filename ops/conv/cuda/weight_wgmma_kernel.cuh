// The wgmma kernel of conv_weight for sm_90a; weight_plan.h holds its schedule and index arithmetic.
//
// Two warpgroups multiply, each half of a tile's rows; two fill stages (weight_wgmma_stage.cuh). Rows' fragments
// are read by LDS straight from the raw image (any offset, no bank conflicts because of the pitch) and rounded in
// registers; the feature is the operand in shared memory. While one group of products runs, the next group's fragments
// are read. Tensor cores round sums towards zero, so they are kept short: added to the workspace (float32: to ordinary
// registers) every so many positions.
#pragma once

#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/ops/conv/cuda/weight_wgmma_stage.cuh>
#include <adjoint/ops/conv/cuda/wgmma_operand.cuh>

#include <cstdint>

namespace adjoint::cuda::weight {

inline constexpr int kMultipliers = 2;  // warpgroups
inline constexpr int kWgmmaThreads = 128 * (kMultipliers + 2);

/// One multiplier's share of a tile: kMTiles of 64 rows, all columns.
template <Arithmetic kArithmetic, int kMTiles, int kColumns>
struct WgmmaTile {
  using Traits = ArithmeticTraits<kArithmetic>;
  static constexpr bool kSplit = Traits::kSplit;
  static constexpr bool kHalf = Traits::kHalf;
  static constexpr int kRows = 64 * kMTiles * kMultipliers;
  // M tiles whose products run together: few columns take more of them to cover the next fragments' latency.
  static constexpr int kGroup = kColumns >= 128 || (kSplit && kColumns >= 32) ? 1
                                : kMTiles % 3 == 0                            ? 3
                                : kMTiles % 2 == 0                            ? 2
                                                                              : 1;
  static constexpr int kGroups = kMTiles / kGroup;
  static constexpr int kSums = kColumns / 2;
};

/// A group's operand registers.
template <class Tile>
struct Fragments {
  std::uint32_t a[Tile::kGroup][4];
  std::uint32_t tail[Tile::kSplit ? Tile::kGroup : 1][4];

  __device__ __forceinline__ void pin() {
#pragma unroll
    for (int j = 0; j < Tile::kGroup; ++j) {
      wgmma::pin(a[j]);
      if constexpr (Tile::kSplit) wgmma::pin(tail[j]);
    }
  }
};

/// What a group's fragments are made of, read ahead.
template <class Tile>
struct RawFragments {
  std::uint32_t value[Tile::kGroup][4];
  std::uint32_t next[Tile::kHalf ? Tile::kGroup : 1][4];

  /// `row` are bytes from a stage to a row's first unit of this lane, whose first half is of no use where its bit of
  /// `odd` is set; `first` and `second` lead to the instruction's first and second four units.
  template <int kMTiles>
  __device__ __forceinline__ void load(const std::uint32_t (&row)[kMTiles][2], unsigned odd, int tile,
                                       std::uint32_t first, std::uint32_t second) {
#pragma unroll
    for (int j = 0; j < Tile::kGroup; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const std::uint32_t from = row[tile + j][r & 1] + (r < 2 ? first : second);
        value[j][r] = ptx::load_shared(from);
        if constexpr (Tile::kHalf) {
          next[j][r] = is_odd(odd, tile + j, r) ? ptx::load_shared(from + 4) : 0;
        }
      }
    }
  }

  __device__ __forceinline__ void convert(unsigned odd, int tile, Fragments<Tile>& to) const {
#pragma unroll
    for (int j = 0; j < Tile::kGroup; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        if constexpr (Tile::kSplit) {
          split_tf32(__uint_as_float(value[j][r]), to.a[j][r], to.tail[j][r]);
        } else if constexpr (Tile::kHalf) {
          to.a[j][r] = is_odd(odd, tile + j, r) ? __byte_perm(value[j][r], next[j][r], 0x5432) : value[j][r];
        } else {
          to.a[j][r] = ptx::round_to_tf32(__uint_as_float(value[j][r]));
        }
      }
    }
  }

  static __device__ __forceinline__ bool is_odd(unsigned odd, int tile, int r) {
    return (odd & 1U << (2 * tile + (r & 1))) != 0;
  }
};

template <int kTiles, int kSums>
__device__ __forceinline__ void pin_sums(float (&sums)[kTiles][kSums]) {
#pragma unroll
  for (int j = 0; j < kTiles; ++j) wgmma::pin(sums[j]);
}

template <int kTiles, int kSums>
__device__ __forceinline__ void add_and_clear(float (&totals)[kTiles][kSums], float (&sums)[kTiles][kSums]) {
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      totals[j][i] += sums[j][i];
      sums[j][i] = 0;
    }
  }
}

/// Writes a warp's sums to the workspace, or adds them to what is there, and clears them. Some reads are under way at a
/// time: one by one they would take as long as thousands of positions.
template <int kRows, int kMTiles, int kSums>
__device__ __forceinline__ void flush_sums(float (&sums)[kMTiles][kSums], float* partial, bool add) {
  constexpr int kBatch = kSums < 32 ? kSums : 32;
  // sums[4 n + 2 h + c] is (row g + 8 h, column 8 n + 2 t + c).
  const auto place = [&](int j, int i) { return partial + (i / 4 * 8 + i % 2) * kRows + 64 * j + i / 2 % 2 * 8; };
#pragma unroll
  for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
    for (int first = 0; first < kSums; first += kBatch) {
      if (add) {
        float before[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) before[i] = *place(j, first + i);
#pragma unroll
        for (int i = 0; i < kBatch; ++i) sums[j][first + i] += before[i];
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        *place(j, first + i) = sums[j][first + i];
        sums[j][first + i] = 0;
      }
    }
  }
}

/// kLines: the positions of a line of 128 bytes of features are neighbours in the image too.
template <Arithmetic kArithmetic, int kMTiles, int kColumns, bool kLines>
__device__ __forceinline__ void multiply_stages(const WeightPlan& p, const WgmmaBlock& block, std::uint32_t steps,
                                                float* partial, int warpgroup, int warp, int lane) {
  using Tile = WgmmaTile<kArithmetic, kMTiles, kColumns>;
  constexpr bool kSplit = Tile::kSplit;
  constexpr int kSize = Tile::kHalf ? 2 : 4;
  constexpr auto kOperand = kWgmmaOperand<kArithmetic>;
  constexpr std::uint32_t kStepBytes = 32;  // of an instruction's depth
  const int g = lane / 4, t = lane % 4, first_row = warpgroup * 64 * kMTiles + warp * 16;
  std::uint32_t row[kMTiles][2];
  unsigned odd = 0;
#pragma unroll
  for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      // A row that is none reads the first one's values; its sums are not used.
      const WeightRow r = weight_row(p, block.work, first_row + 64 * j + 8 * h + g);
      const int offset = r.valid ? weight_row_offset(p, block.work, r) : 0;
      odd |= static_cast<unsigned>(offset & 1) << (2 * j + h);
      row[j][h] = block.smem_base + block.feature_bytes + 4 * t + (Tile::kHalf ? offset / 2 * 4 : offset * 4);
    }
  }
  partial += 2 * t * Tile::kRows + first_row + g;

  float sums[kMTiles][Tile::kSums] = {};
  float totals[kSplit ? kMTiles : 1][kSplit ? Tile::kSums : 1] = {};
  Fragments<Tile> fragments[2];
  RawFragments<Tile> raw;
  pin_sums(sums);
  const int row_bytes = kSize << p.log2_positions();  // of the feature: one or more lines of 128 bytes
  const std::uint32_t step_mask = row_bytes / 4 - 1;  // of the table's bytes: 8 for each 32
  const int stages = static_cast<int>(block.end_stage - block.first_stage);
  const int stages_per_sum = kSumPositions >> p.log2_positions();  // a power of two
  WgmmaRing ring;
  std::uint32_t stage = 0, step[2], next_step[2];  // next_step is a step, or a line, ahead of raw
  ptx::load_shared_pair(step, steps);
  ptx::load_shared_pair(next_step, steps + (kLines ? 32 & step_mask : 8));
  if constexpr (kLines) step[1] = step[0] + kStepBytes / 2;
  if (stages > 0) {
    ptx::mbarrier_wait(block.full, 0);
    raw.load(row, odd, 0, step[0], step[1]);
  }
#pragma unroll 1
  for (int s = 0; s < stages; ++s) {
#pragma unroll 1
    for (int line = 0; line < row_bytes; line += 128) {
      const std::uint64_t b = wgmma::swizzled_descriptor(block.smem_base + stage + line * kColumns);
#pragma unroll
      for (int u = 0; u < 4; ++u) {
#pragma unroll
        for (int i = 0; i < Tile::kGroups; ++i) {
          Fragments<Tile>& now = fragments[(u * Tile::kGroups + i) % 2];
          raw.convert(odd, i * Tile::kGroup, now);
          if (i + 1 < Tile::kGroups) {
            raw.load(row, odd, (i + 1) * Tile::kGroup, stage + step[0], stage + step[1]);
          } else {
            if (u == 3 && line + 128 == row_bytes) {
              // The next stage's first fragments; behind the last stage, a stage that is full anyway.
              ring.advance(p.smem_stages);
              if (s + 1 < stages) ptx::mbarrier_wait(block.full + 8 * ring.slot, ring.parity);
              stage = s + 1 < stages ? ring.slot * block.stage_bytes : stage;
            }
            if (!kLines || u == 3) {
              step[0] = next_step[0];
              step[1] = kLines ? step[0] + kStepBytes / 2 : next_step[1];
              ptx::load_shared_pair(next_step, steps + ((line / 4 + (kLines ? 64 : 8 * u + 16)) & step_mask));
            } else {
              step[0] += kStepBytes;
              step[1] += kStepBytes;
            }
            raw.load(row, odd, 0, stage + step[0], stage + step[1]);
          }
          now.pin();
          wgmma::fence();
#pragma unroll
          for (int j = 0; j < Tile::kGroup; ++j) {
            auto& to = sums[i * Tile::kGroup + j];
            wgmma::multiply<kOperand, kColumns>(to, now.a[j], b + 2 * u);
            if constexpr (kSplit) {
              wgmma::multiply<kOperand, kColumns>(to, now.a[j], b + 2 * u + (block.feature_bytes / 2 >> 4));
              wgmma::multiply<kOperand, kColumns>(to, now.tail[j], b + 2 * u);
            }
          }
          wgmma::commit();
          wgmma::wait<1>();
          // Until here the products before read their fragments' registers.
          fragments[(u * Tile::kGroups + i + 1) % 2].pin();
          if (u == 0 && i == 0 && line == 0 && s > 0) {
            // The stage before is done with. Every lane for itself: racecheck takes one lane after a __syncwarp for a
            // race.
            ptx::mbarrier_arrive(block.empty + 8 * (ring.slot == 0 ? p.smem_stages - 1 : ring.slot - 1));
          }
        }
      }
    }
    if constexpr (kSplit) {
      wgmma::wait<0>();
      pin_sums(sums);
      add_and_clear(totals, sums);
      pin_sums(sums);
    } else if (((s + 1) & (stages_per_sum - 1)) == 0 && s + 1 < stages) {
      wgmma::wait<0>();
      pin_sums(sums);
      flush_sums<Tile::kRows>(sums, partial, s >= stages_per_sum);
      pin_sums(sums);
    }
  }
  wgmma::wait<0>();
  pin_sums(sums);
  if constexpr (kSplit) {
    flush_sums<Tile::kRows>(totals, partial, false);
  } else {
    flush_sums<Tile::kRows>(sums, partial, stages > stages_per_sum);
  }
}

template <Arithmetic kArithmetic, int kMTiles, int kColumns>
__global__ void __launch_bounds__(kWgmmaThreads, 1)
    wgmma_weight_kernel(const __grid_constant__ WeightPlan p, const WeightOperands operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which nothing launches
  using Tile = WgmmaTile<kArithmetic, kMTiles, kColumns>;
  constexpr int kMostSteps = 128 / 8;
  __shared__ __align__(8) std::uint64_t barriers[2 * kMaxWeightStages];
  __shared__ __align__(8) uint2 steps[kMostSteps];
  const int thread = static_cast<int>(threadIdx.x), warpgroup = thread / 128;
  WgmmaBlock block;
  block.smem = ptx::dynamic_smem();
  // Pinned: the compiler would work them out again at every use.
  std::uint32_t addresses[] = {ptx::shared_address(block.smem), ptx::shared_address(barriers),
                               ptx::shared_address(steps)};
  wgmma::pin(addresses);
  block.smem_base = addresses[0];
  block.full = addresses[1];
  block.empty = addresses[1] + 8 * kMaxWeightStages;
  block.stage_bytes = wgmma_stage_bytes(p, Tile::kSplit);
  block.feature_bytes = wgmma_feature_bytes(p, Tile::kSplit);
  auto* items = reinterpret_cast<uint2*>(block.smem + p.smem_stages * block.stage_bytes);
  block.items = items;
  fill_items<kWgmmaThreads>(p, operands.image_vector, items);
  constexpr int kHalfStep = Tile::kHalf ? 8 : 4, kSize = Tile::kHalf ? 2 : 4;  // positions of four units
  if (thread < 1 << p.log2_positions() >> (Tile::kHalf ? 4 : 3)) {
    const int position = thread * 2 * kHalfStep;
    steps[thread] = make_uint2(kSize * weight_position_offset(p, position),
                               kSize * weight_position_offset(p, position + kHalfStep));
  }
  if (thread == 0) {
    for (int i = 0; i < p.smem_stages; ++i) {
      ptx::mbarrier_init(block.full + 8 * i, 2 * kLoaders);
      ptx::mbarrier_init(block.empty + 8 * i, 128 * kMultipliers);
    }
    ptx::fence_mbarrier_init();
  }
  const std::int64_t blocks = p.blocks_per_split();
  const std::int64_t split = blockIdx.x / blocks, index = blockIdx.x % blocks;
  block.work = weight_work(p, index);
  block.first_stage = split * p.stages_per_split;
  block.end_stage = min(block.first_stage + p.stages_per_split, p.stages);
  __syncthreads();

  // Sums and totals of 192 registers leave less to the loaders.
  constexpr bool kLarge = kMTiles * Tile::kSums * (Tile::kSplit ? 2 : 1) > 128;
  constexpr bool kBothLoops = !kLarge && !(Tile::kHalf && kMTiles > 3);  // the others spill registers
  if (warpgroup == kMultipliers) {
    ptx::lower_register_limit<kLarge ? 40 : 72>();
    load_features<kArithmetic, kColumns>(p, operands, block, thread % 128);
  } else if (warpgroup == kMultipliers + 1) {
    ptx::lower_register_limit<kLarge ? 40 : 56>();
    load_images<Tile::kHalf ? 2 : 4>(p, operands, block, thread % 128);
  } else {
    ptx::raise_register_limit<kLarge ? 216 : 192>();
    float* partial = operands.partial + (split * blocks + index) * Tile::kRows * kColumns;
    const int warp = thread / 32 % 4, lane = thread % 32;
    if (kBothLoops && kSize << p.log2_tile_w >= 128) {
      multiply_stages<kArithmetic, kMTiles, kColumns, kBothLoops>(p, block, addresses[2], partial, warpgroup, warp,
                                                                  lane);
    } else {
      multiply_stages<kArithmetic, kMTiles, kColumns, false>(p, block, addresses[2], partial, warpgroup, warp, lane);
    }
  }
#endif
}

}  // namespace adjoint::cuda::weight
