// The multipliers of conv_weight's wgmma kernels: two warpgroups, each half of a tile's rows.
//
// Rows' fragments are read by LDS straight from the image (at any offset; the pitch avoids bank conflicts); the feature
// is the operand in shared memory. While one group of products runs, the next group's fragments are read. Tensor cores
// round sums towards zero, so sums are kept short: every so many positions they are added to the workspace (float32: to
// ordinary registers).
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/ops/conv/base/cuda/add_sum.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/base/cuda/wgmma_operand.cuh>
#include <adjoint/ops/conv/weight/cuda/block.cuh>

#include <cstdint>

namespace adjoint::cuda::weight {

/// One multiplier's share of a tile: kMTiles of 64 rows, all columns.
template <Arithmetic kArithmetic, int kMTiles, int kColumns>
struct WgmmaTile {
  using Traits = ArithmeticTraits<kArithmetic>;
  static constexpr bool kSplit = Traits::kSplit;
  static constexpr bool kHalf = Traits::kHalf;
  static constexpr int kRows = 64 * kMTiles * kMultipliers;
  // M tiles whose products run together: few columns need more of them to cover the next fragments' latency.
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

/// The places of a lane's rows in a stage. kBoxes: halves of neighbouring positions are a stride apart.
template <class Tile, int kMTiles, bool kBoxes>
struct RowPlaces {
  static constexpr bool kApart = Tile::kHalf && kBoxes;
  std::uint32_t first[kMTiles][2];  // address of the first unit's word in the first stage
  unsigned odd = 0;                 // neighbouring halves: a bit for each row that begins with its word's second half
  std::uint32_t next[kApart ? kMTiles : 1][2];      // bytes to the word with the unit's second half
  std::uint32_t selector[kApart ? kMTiles : 1][2];  // selects the unit's bytes from both words

  __device__ __forceinline__ RowPlaces(const WeightPlan& p, const WgmmaBlock& block, int first_row, int lane) {
    const int unit = weight_position_offset(p, lane % 4 * p.unit_elements);
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        // Rows past the end read row 0; their sums are discarded.
        const WeightRow r = weight_row(p, block.work, first_row + 64 * j + 8 * h + lane / 4);
        const int offset = unit + (r.valid ? weight_row_offset(p, block.work, r) : 0);
        first[j][h] = block.smem_base + block.feature_bytes + (Tile::kHalf ? offset / 2 * 4 : offset * 4);
        if constexpr (kApart) {
          const int odd_first = offset & 1, second = odd_first + p.stride_w;
          next[j][h] = static_cast<std::uint32_t>(second / 2 * 4);
          selector[j][h] = (odd_first != 0 ? 0x0032U : 0x0010U) | (second % 2 != 0 ? 0x7600U : 0x5400U);
        } else {
          odd |= static_cast<unsigned>(offset & 1) << (2 * j + h);
        }
      }
    }
  }
  __device__ __forceinline__ bool is_odd(int tile, int r) const { return (odd & 1U << (2 * tile + (r & 1))) != 0; }
};

/// The values of a group's fragments, read ahead. kBoxes: float32 that is not split was already rounded by the copy.
template <class Tile, int kMTiles, bool kBoxes>
struct RawFragments {
  using Places = RowPlaces<Tile, kMTiles, kBoxes>;
  std::uint32_t value[Tile::kGroup][4];
  std::uint32_t next[Tile::kHalf ? Tile::kGroup : 1][4];

  /// `first` and `second` lead from a row's first unit to the instruction's first and second four units.
  __device__ __forceinline__ void load(const Places& places, int tile, std::uint32_t first, std::uint32_t second) {
#pragma unroll
    for (int j = 0; j < Tile::kGroup; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const std::uint32_t from = places.first[tile + j][r & 1] + (r < 2 ? first : second);
        value[j][r] = ptx::load_shared(from);
        if constexpr (Places::kApart) {
          next[j][r] = ptx::load_shared(from + places.next[tile + j][r & 1]);
        } else if constexpr (Tile::kHalf) {
          next[j][r] = places.is_odd(tile + j, r) ? ptx::load_shared(from + 4) : 0;
        }
      }
    }
  }

  __device__ __forceinline__ void convert(const Places& places, int tile, Fragments<Tile>& to) const {
#pragma unroll
    for (int j = 0; j < Tile::kGroup; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        if constexpr (Tile::kSplit) {
          split_tf32(__uint_as_float(value[j][r]), to.a[j][r], to.tail[j][r]);
        } else if constexpr (Places::kApart) {
          to.a[j][r] = __byte_perm(value[j][r], next[j][r], places.selector[tile + j][r & 1]);
        } else if constexpr (Tile::kHalf) {
          to.a[j][r] = places.is_odd(tile + j, r) ? __byte_perm(value[j][r], next[j][r], 0x5432) : value[j][r];
        } else {
          to.a[j][r] = kBoxes ? value[j][r] : ptx::round_to_tf32(__uint_as_float(value[j][r]));
        }
      }
    }
  }
};

template <int kTiles, int kSums>
__device__ __forceinline__ void pin_sums(float (&sums)[kTiles][kSums]) {
#pragma unroll
  for (int j = 0; j < kTiles; ++j) wgmma::pin(sums[j]);
}

/// Adds the products' sums to ordinary registers, once all products are done.
template <int kTiles, int kSums, class Add>
__device__ __forceinline__ void promote(float (&totals)[kTiles][kSums], float (&sums)[kTiles][kSums], const Add& add) {
  wgmma::wait<0>();
  pin_sums(sums);
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) totals[j][i] = add(totals[j][i], sums[j][i]);
  }
  pin_sums(sums);
}

/// Writes a warp's sums to the workspace, or adds them to its values, and clears them. Several reads are in flight at a
/// time: one by one they would last as long as thousands of positions.
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

/// Positions on a line of 128 bytes of features; steps of four times eight units.
template <class Tile>
inline constexpr int kLinePositions = Tile::kHalf ? 64 : 32;

/// kBoxes: for a plan with boxes. kDense: a line's positions are neighbours in the stage; a constant lets the compiler
/// use that.
template <Arithmetic kArithmetic, int kMTiles, int kColumns, bool kBoxes, bool kDense>
__device__ __forceinline__ void multiply_stages(const WeightPlan& p, const WgmmaBlock& block, int thread) {
  using Tile = WgmmaTile<kArithmetic, kMTiles, kColumns>;
  constexpr bool kSplit = Tile::kSplit;
  constexpr int kSize = Tile::kHalf ? 2 : 4;
  // If kSplit: with 1, errors are even smaller, and a filter's gradient takes 10% longer.
  constexpr int kStepsPerSum = 2;
  constexpr auto kOperand = kWgmmaOperand<kArithmetic>;
  const int lane = thread % 32, first_row = thread / 128 * 64 * kMTiles + thread / 32 % 4 * 16;
  const RowPlaces<Tile, kMTiles, kBoxes> places(p, block, first_row, lane);
  float* const partial = block.partial + 2 * (lane % 4) * Tile::kRows + first_row + lane / 4;

  float sums[kMTiles][Tile::kSums] = {};
  float totals[kSplit ? kMTiles : 1][kSplit ? Tile::kSums : 1] = {};
  Fragments<Tile> fragments[2];
  RawFragments<Tile, kMTiles, kBoxes> raw;
  pin_sums(sums);
  const int lines = (1 << p.log2_positions()) / kLinePositions<Tile>;
  const int stages = static_cast<int>(block.end_stage - block.first_stage);
  const int stages_per_sum = kSumPositions >> p.log2_positions();  // a power of two
  Ring ring;
  std::uint32_t stage = 0, line_at = 0;  // the stage and line that raw belongs to, in bytes
  // From a row's first unit to others: a position's bits add up.
  const auto offset = [&](int bit, bool is_set) {
    if (!is_set) return 0U;
    return kDense && bit < 3 ? 16U << bit : static_cast<std::uint32_t>(kSize * p.quad_offsets[bit]);
  };
  const auto load = [&](int group, int step) {
    const std::uint32_t first = line_at + offset(1, step % 2 != 0) + offset(2, step / 2 != 0);
    raw.load(places, group * Tile::kGroup, first, first + offset(0, true));
  };
  if (stages > 0) {
    ptx::mbarrier_wait(block.full, 0);
    load(0, 0);
  }
#pragma unroll 1
  for (int s = 0; s < stages; ++s) {
#pragma unroll 1
    for (int line = 0; line < lines; ++line) {
      const std::uint64_t b = wgmma::swizzled_descriptor(block.smem_base + stage + line * (128 * kColumns));
#pragma unroll
      for (int u = 0; u < 4; ++u) {
#pragma unroll
        for (int i = 0; i < Tile::kGroups; ++i) {
          Fragments<Tile>& now = fragments[(u * Tile::kGroups + i) % 2];
          raw.convert(places, i * Tile::kGroup, now);
          if (i + 1 < Tile::kGroups) {
            load(i + 1, u);
          } else {
            if (u == 3) {
              const bool turns = line + 1 == lines;
              if (turns) {
                // The next stage's first fragments; after the last stage, those of a stage that is full anyway.
                ring.advance(p.smem_stages);
                if (s + 1 < stages) ptx::mbarrier_wait(block.full + 8 * ring.slot, ring.parity);
                stage = s + 1 < stages ? ring.slot * block.stage_bytes : stage;
              }
              const int next = turns ? 0 : line + 1;
              line_at = stage + offset(3, next % 2 != 0) + offset(4, next / 2 != 0);
            }
            load(0, (u + 1) % 4);
          }
          if constexpr (kSplit) {
            if (i == 0 && u % kStepsPerSum == 0) promote(totals, sums, AddSum{});
          }
          now.pin();
          wgmma::fence();
#pragma unroll
          for (int j = 0; j < Tile::kGroup; ++j) {
            auto& to = sums[i * Tile::kGroup + j];
            if constexpr (kSplit) {
              wgmma::multiply<kOperand, kColumns>(to, now.a[j], b + 2 * u + (block.feature_bytes / 2 >> 4),
                                                  u % kStepsPerSum == 0 ? 0 : 1);
              wgmma::multiply<kOperand, kColumns>(to, now.tail[j], b + 2 * u);
            }
            wgmma::multiply<kOperand, kColumns>(to, now.a[j], b + 2 * u);
          }
          wgmma::commit();
          wgmma::wait<1>();
          // Until here the previous products read their fragments' registers.
          fragments[(u * Tile::kGroups + i + 1) % 2].pin();
          if (u == 0 && i == 0 && line == 0 && s > 0) {
            // The previous stage is free. Every lane arrives separately: racecheck reports one lane after a __syncwarp
            // as a race.
            ptx::mbarrier_arrive(block.empty + 8 * (ring.slot == 0 ? p.smem_stages - 1 : ring.slot - 1));
          }
        }
      }
    }
    if constexpr (!kSplit) {
      if (((s + 1) & (stages_per_sum - 1)) == 0 && s + 1 < stages) {
        wgmma::wait<0>();
        pin_sums(sums);
        flush_sums<Tile::kRows>(sums, partial, s >= stages_per_sum);
        pin_sums(sums);
      }
    }
  }
  if constexpr (kSplit) {
    // For the largest tiles that threads copy, it would spill registers.
    constexpr bool kRoundsAway = kBoxes || kMTiles * Tile::kSums < 96;
    promote(totals, sums, [](float total, float sum) {
      if constexpr (!kRoundsAway) return AddSum{}(total, sum);
      return AddLastSum{}(total, sum) + 0.0F;  // no -0
    });
    flush_sums<Tile::kRows>(totals, partial, false);
  } else {
    wgmma::wait<0>();
    pin_sums(sums);
    flush_sums<Tile::kRows>(sums, partial, stages > stages_per_sum);
  }
}

/// Multiplies in the way of the two that applies.
template <Arithmetic kArithmetic, int kMTiles, int kColumns, bool kBoxes>
__device__ __forceinline__ void multiply_stages(const WeightPlan& p, const WgmmaBlock& block, int thread) {
  constexpr int kLine = kLinePositions<WgmmaTile<kArithmetic, kMTiles, kColumns>>;
  if (1 << p.log2_tile_w >= kLine && (!kBoxes || p.stride_w == 1)) {
    multiply_stages<kArithmetic, kMTiles, kColumns, kBoxes, true>(p, block, thread);
  } else {
    multiply_stages<kArithmetic, kMTiles, kColumns, kBoxes, false>(p, block, thread);
  }
}

}  // namespace adjoint::cuda::weight
