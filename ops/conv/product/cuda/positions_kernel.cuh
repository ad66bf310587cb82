// Convolutions that are products of matrices whose positions reach wgmma from registers, in TF32 (product/plan.h
// describes how the work is cut). wgmma reads floats from shared memory only along the depth, and planes are contiguous
// along positions; so positions are its rows, and the filter's channels its columns. Blocks of 32 positions x 32
// channels are copied unchanged, each for one warp. A lane reads four neighbouring positions of a channel together:
// they are rows g and g + 8 of two products. The lane's part of a result's line is again four neighbours, which it
// stores alone. Two warpgroups multiply the same filter block; a thread of the third starts the copies of both factors.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/base/cuda/register_split.h>
#include <adjoint/ops/conv/product/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/product/cuda/factors.cuh>
#include <adjoint/ops/conv/product/cuda/store.cuh>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda::product {

/// The positions that a lane reads from a block: the first, and their number. Each line is eight vectors, which the
/// copy engine exchanges by the channel's number, so that lanes that read together, from four channels, reach all banks
/// if their vectors differ in the upper of three bits.
template <int kProducts>
struct LanePositions {
  static constexpr int kCount = 2 * kProducts;  // neighbours
  int vector, first;                            // in the block

  /// Two products: a warp has its own block. One product: two warps share a block, each taking a half of each half.
  __device__ __forceinline__ LanePositions(int warp, int lane) {
    const int group = lane / 4;
    if constexpr (kProducts == 2) {
      vector = group / 2 + group % 2 * 4;
      first = 4 * vector;
    } else {
      vector = warp % 2 * 2 + group / 4 + group / 2 % 2 * 4;
      first = 4 * vector + group % 2 * 2;
    }
  }
  /// Bytes from the block to its first position in channel lane % 4 of a stage, and from there to the channel four
  /// further.
  __device__ __forceinline__ int place(int lane) const {
    return lane % 4 * kProductLineBytes + (vector ^ lane % 4) * 16 + first % 4 * 4;
  }
  __device__ __forceinline__ int four_channels(int lane) const {
    return 4 * kProductLineBytes + ((vector ^ lane % 4) < 4 ? 64 : -64);
  }
};

/// A warpgroup's products and their sums: one or two products of 64 positions. In each, a thread holds rows lane / 4
/// and lane / 4 + 8 of its warp, and two neighbouring channels of every eight.
template <int kProducts>
struct PositionMultiplier {
  static constexpr int kSteps = 2;  // a stage's fragments come in two parts of this many wgmma depths
  using Lane = LanePositions<kProducts>;
  float sums[kProducts][kProductColumns / 2] = {};
  std::uint32_t fragments[2][kSteps][kProducts][4] = {};  // [part][step][product]
  Ring row_ring, column_ring;

  __device__ __forceinline__ void pin() {
#pragma unroll
    for (int product = 0; product < kProducts; ++product) wgmma::pin(sums[product]);
  }
  template <int kPart>
  __device__ __forceinline__ void pin_fragments() {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int product = 0; product < kProducts; ++product) wgmma::pin(fragments[kPart][step][product]);
    }
  }

  /// Reads a part of a stage; `from`: the lane's positions in its first channels.
  template <int kPart>
  __device__ __forceinline__ void read_part(const unsigned char* from, int four_channels) {
    using Positions = Pack<std::uint32_t, Lane::kCount>;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const unsigned char* const of_step = from + (kSteps * kPart + step) * 8 * kProductLineBytes;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Positions positions = *reinterpret_cast<const Positions*>(of_step + half * four_channels);
#pragma unroll
        for (int i = 0; i < Lane::kCount; ++i) fragments[kPart][step][i / 2][2 * half + i % 2] = positions.values[i];
      }
    }
  }

  /// Begins the products of the fragments read with the filter's block, and waits for the previous ones, so that their
  /// registers may be written.
  template <int kPart>
  __device__ __forceinline__ void multiply_part(std::uint64_t filter, int& accumulate) {
    pin_fragments<kPart>();
    wgmma::fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const std::uint64_t columns = wgmma::moved(filter, (kSteps * kPart + step) * wgmma::kMajorStep<wgmma::Major::kK>);
#pragma unroll
      for (int product = 0; product < kProducts; ++product) {
        wgmma::multiply<wgmma::Operand::kTF32, kProductColumns>(sums[product], fragments[kPart][step][product], columns,
                                                                accumulate);
      }
      accumulate = 1;
    }
    wgmma::commit();
    wgmma::wait<1>();
    pin_fragments<1 - kPart>();
  }

  /// All products of a tile.
  __device__ __forceinline__ void multiply_tile(const ProductPlan& p, const Shared& shared, int stages, int warp,
                                                int lane) {
    const std::uint64_t filter = wgmma::block_descriptor<wgmma::Major::kK>(shared.rows);
    const Lane positions(warp, lane);
    const unsigned char* const of_lane =
        shared.column_data + block_of_warp(warp) * p.column_block_bytes() + positions.place(lane);
    const int four_channels = positions.four_channels(lane);
    const auto wait_for_positions = [&] {
      ptx::mbarrier_wait(shared.columns_full + 8 * column_ring.slot, column_ring.parity);
      return of_lane + column_ring.slot * p.column_slot_bytes();
    };
    // Barriers of the data that the products in flight read; 0: no barrier.
    std::uint32_t used_rows = 0, used_columns = 0;
    const auto release = [&] {
      if (used_columns == 0) return;
      if (!p.rows_stay) ptx::mbarrier_arrive(used_rows);
      ptx::mbarrier_arrive(used_columns);
    };
    int accumulate = 0;
    pin();
    const unsigned char* from = wait_for_positions();
    read_part<0>(from, four_channels);
#pragma unroll 1
    for (int stage = 1;; ++stage) {
      ptx::mbarrier_wait(shared.rows_full + 8 * row_ring.slot, row_ring.parity);
      const std::uint64_t columns = wgmma::moved(filter, row_ring.slot * (p.row_slot_bytes() / 16));
      multiply_part<0>(columns, accumulate);
      release();
      read_part<1>(from, four_channels);
      used_rows = shared.rows_empty + 8 * row_ring.slot;
      used_columns = shared.columns_empty + 8 * column_ring.slot;
      if (p.rows_stay) {
        row_ring.slot = stage == stages ? 0 : stage;
      } else {
        row_ring.advance(p.row_slots);
      }
      column_ring.advance(p.column_slots);
      multiply_part<1>(columns, accumulate);
      if (stage == stages) break;
      from = wait_for_positions();
      read_part<0>(from, four_channels);
    }
    wgmma::wait<0>();
    release();
    pin_fragments<0>();
    pin_fragments<1>();
    pin();
  }

  /// A warp's block of the tile.
  __device__ __forceinline__ static int block_of_warp(int warp) { return kProducts == 2 ? warp : warp / 2; }

  /// Calls put(row, values) with a lane's positions of each of its rows of the tile.
  template <class Put>
  __device__ __forceinline__ void for_rows(const float* biases, int lane, const Put& put) const {
#pragma unroll
    for (int i = 0; i < kProductColumns / 4; ++i) {
      const int row = i / 2 * 8 + lane % 4 * 2 + i % 2, at = i / 2 * 4 + i % 2;
      const float bias = biases[row];
      float values[Lane::kCount];
#pragma unroll
      for (int j = 0; j < Lane::kCount; ++j) values[j] = sums[j / 2][at + j % 2 * 2] + bias;
      put(row, values);
    }
  }
};

/// Stores a warp's results of a tile.
template <int kProducts>
__device__ __forceinline__ void store_positions(const ProductPlan& p, const Operands<float>& operands,
                                                const ProductTile& tile,
                                                const PositionMultiplier<kProducts>& multiplier, const float* biases,
                                                int warp, int lane) {
  constexpr int kCount = LanePositions<kProducts>::kCount;
  const int block = tile.column_block + multiplier.block_of_warp(warp);
  if (block >= p.all_column_blocks) return;
  const ProductPlace place = product_place(p.column_blocks_divider, block, p.column_block);
  const std::int64_t first = place.first + LanePositions<kProducts>(warp, lane).first;
  const std::int64_t left = p.result.width - first;
  const std::int64_t rows = p.result.extents[1] - tile.row;
  if (left <= 0) return;
  if (operands.partial != nullptr) {
    float* const to = operands.partial + place.sample * p.partial_sample + tile.group * p.partial_group +
                      tile.slice * p.partial_slice + tile.row * p.partial_row + first;
    multiplier.for_rows(biases, lane, [&](int row, const float(&values)[kCount]) {
      if (row < rows) write_neighbours(to + row * p.partial_row, values, left, operands.stores_vectors);
    });
    return;
  }
  const std::int64_t at =
      place.sample * p.result.strides[3] + tile.group * p.result.strides[2] + tile.row * p.result.strides[1] + first;
  const bool has_linear = operands.linear != nullptr;
  float* const to = (has_linear ? operands.linear : operands.out) + at;
  multiplier.for_rows(biases, lane, [&](int row, const float(&values)[kCount]) {
    if (row < rows) write_neighbours(to + row * p.result.strides[1], values, left, operands.stores_vectors);
  });
  // Read again for the activation, whose code, repeated for every row, would not fit into the instruction cache.
  if (!has_linear && operands.activate.is_none()) return;
#pragma unroll 1
  for (int row = lane % 4 * 2; row < min(rows, std::int64_t{kProductColumns}); row += row % 2 == 0 ? 1 : 7) {
    const std::int64_t line = row * p.result.strides[1];
    float values[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = i < left ? to[line + i] : 0.0F;
    operands.activate(values);
    write_neighbours(operands.out + at + line, values, left, operands.stores_vectors);
  }
}

/// T: float.
template <class T, int kProducts>
__global__ void __launch_bounds__(kProductThreads, 1)
    product_positions_kernel(const __grid_constant__ ProductPlan p, const __grid_constant__ Operands<T> operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which is never launched
  const Shared shared = shared_of(p);
  if (threadIdx.x == 0) init_barriers(shared, kProductTeams);
  __syncthreads();

  constexpr int kMultipliers = kProductTeams * kProductTeam, kLoaders = kProductThreads - kMultipliers;
  constexpr int kLoaderRegisters = 40;
  constexpr int kRegisters = multiplier_registers(kProductThreads, kLoaders, kLoaderRegisters);
  ptx::wait_for_earlier_kernels();
  const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= kMultipliers / 32) {
    ptx::lower_register_limit<kLoaderRegisters>();
    if (static_cast<int>(threadIdx.x) == kMultipliers) {
      copy_factors<wgmma::Major::kK, wgmma::Major::kMN, false>(p, operands, shared);
    }
    return;
  }
  ptx::raise_register_limit<kRegisters>();
  const int thread = static_cast<int>(threadIdx.x) % kProductTeam, team = warp / (kProductTeam / 32),
            lane = thread % 32;
  float* const biases = shared.biases + team * kProductBiases;
  PositionMultiplier<kProducts> multiplier;
#pragma unroll 1
  for (int index = first_tile(); index < p.tiles(); index += tile_step()) {
    const ProductTile tile = product_tile(p, index);
    ptx::barrier<kProductTeam>(team + 1);  // the previous tile's biases have been read
    fill_biases(p, tile, operands, biases, thread);
    ptx::barrier<kProductTeam>(team + 1);
    multiplier.multiply_tile(p, shared, tile.stages, warp, lane);
    store_positions(p, operands, tile, multiplier, biases, warp, lane);
  }
#endif
}

}  // namespace adjoint::cuda::product
