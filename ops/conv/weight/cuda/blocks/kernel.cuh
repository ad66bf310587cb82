// The tensor-core kernel of conv_weight for sm_90a that reads copies of both operands in channel blocks, and the kernel
// that makes them; weight/blocks_plan.h holds the schedule. wgmma reads both operands from shared memory in their order
// there, channels contiguous, and a tap is a constant in a descriptor. A thread of the last warpgroup starts the copies
// of a stage's boxes, through a ring with a full and an empty mbarrier for each slot; the others multiply two units
// each and write their sums straight from registers.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/base/cuda/register_split.h>
#include <adjoint/ops/conv/weight/blocks_plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/base/cuda/wgmma_operand.cuh>
#include <adjoint/ops/conv/layouts/cuda/channel_blocks.cuh>

#include <cstdint>

namespace adjoint::cuda::blocked_weight {

inline constexpr int kMultipliers = 2;  // warpgroups
inline constexpr int kThreads = 128 * (kMultipliers + 1);
inline constexpr int kUnits = kWeightTileUnits / kMultipliers;  // of a warpgroup

struct Maps {
  TensorMap rows, columns;
};

/// Tensor maps of the copies, in a stage's boxes; `encode(layout)` makes them.
template <class Encode>
Maps maps_of(const BlockedWeightPlan& p, const void* image, const void* feature, const Encode& encode) {
  constexpr std::int32_t kBlockChannels = 8;
  const auto map = [&](const ChannelBlocks& copy, bool of_image, std::int32_t positions, std::int32_t channels) {
    return encode(
        channel_blocks_layout(copy, of_image ? image : feature, {positions, 1, 1, channels / kBlockChannels}));
  };
  return {map(p.rows(), p.rows_are_image, p.row_positions(), kWeightUnitRows),
          map(p.columns(), !p.rows_are_image, p.column_positions(), kWeightTileColumns)};
}

/// The blocks of threads that copy: the image's, and then the feature's.
struct Copies {
  channel_blocks::CopyGrid image, feature;
};

template <Arithmetic kArithmetic>
__global__ void __launch_bounds__(channel_blocks::kCopyThreads)
    copy_operands_kernel(const ChannelBlocks image, const ChannelBlocks feature, const __grid_constant__ Copies copies,
                         const typename ArithmeticTraits<kArithmetic>::Element* from_image,
                         const typename ArithmeticTraits<kArithmetic>::Element* from_feature, uint4* to_image,
                         uint4* to_feature) {
  const auto index = static_cast<int>(blockIdx.x), of_image = static_cast<int>(copies.image.blocks);
  if (index < of_image) {
    channel_blocks::copy_positions<kArithmetic>(image, copies.image, index, from_image, to_image);
  } else {
    channel_blocks::copy_positions<kArithmetic>(feature, copies.feature, index - of_image, from_feature, to_feature);
  }
}

/// Shared addresses.
struct Shared {
  std::uint32_t full, empty;  // mbarriers, one for each slot
  std::uint32_t slots;        // boxes of columns, then those of rows
};

/// Starts the copies of the boxes of a block's tiles; one thread.
__device__ __forceinline__ void copy_boxes(const BlockedWeightPlan& p, const TensorMap& rows, const TensorMap& columns,
                                           const Shared& shared) {
  constexpr int kBlockChannels = 8;
  Ring ring;
#pragma unroll 1
  for (int index = static_cast<int>(blockIdx.x); index < p.tiles(); index += static_cast<int>(gridDim.x)) {
    const BlockedWeightTile tile = blocked_weight_tile(p, index);
    // For the tile's units: if a box of rows, and of columns, begins, and its place in the copies.
    bool begins_row[kWeightTileUnits], begins_column[kWeightTileUnits];
    int first[kWeightTileUnits], row_block[kWeightTileUnits], column_block[kWeightTileUnits], bytes = 0;
#pragma unroll
    for (int i = 0; i < kWeightTileUnits; ++i) {
      const int unit = min(tile.unit + i, p.units - 1);
      const BlockedWeightUnit at = blocked_weight_unit(p, unit);
      const BlockedWeightBox& box = p.box_list[p.tap_list[at.tap].box];
      const BlockedWeightBoxes begins = i == 0 ? BlockedWeightBoxes{1, 1} : begins_boxes(p, unit);
      begins_row[i] = i < tile.units && begins.row != 0;
      begins_column[i] = i < tile.units && begins.column != 0;
      first[i] = box.first;
      row_block[i] = at.row / kBlockChannels + (p.rows_are_image ? box.block : 0);
      column_block[i] = tile.column / kBlockChannels + (p.rows_are_image ? 0 : box.block);
      bytes += (begins_row[i] ? p.row_bytes() : 0) + (begins_column[i] ? p.column_bytes() : 0);
    }
#pragma unroll 1
    for (int stage = tile.stage; stage < tile.stage + tile.stages; ++stage) {
      const std::uint32_t full = shared.full + 8 * ring.slot;
      std::uint32_t column = shared.slots + ring.slot * p.slot_bytes();
      std::uint32_t row = column + p.column_boxes * p.column_bytes();
      ptx::mbarrier_wait(shared.empty + 8 * ring.slot, ring.parity ^ 1);
      ptx::mbarrier_arrive_expect_bytes(full, bytes);
#pragma unroll
      for (int i = 0; i < kWeightTileUnits; ++i) {
        const int of_feature = kMapElements * kWeightStage * stage, of_image = of_feature + kMapElements * first[i];
        if (begins_column[i]) {
          const int at[kTensorMapAxes] = {p.rows_are_image ? of_feature : of_image, 0, 0, column_block[i], 0};
          ptx::tensor_copy(column, &columns, at, full);
          column += p.column_bytes();
        }
        if (begins_row[i]) {
          const int at[kTensorMapAxes] = {p.rows_are_image ? of_image : of_feature, 0, 0, row_block[i], 0};
          ptx::tensor_copy(row, &rows, at, full);
          row += p.row_bytes();
        }
      }
      ring.advance(p.slots);
    }
  }
}

/// Stores a unit's sums, which lanes hold in the order of wgmma.cuh. `sums`: [tap][slice][feature channel][image
/// channel].
__device__ __forceinline__ void store_unit(const BlockedWeightPlan& p, const BlockedWeightTile& tile,
                                           const BlockedWeightUnit& unit, const float (&values)[64], float* sums,
                                           int warp, int lane) {
  const int first_row = unit.row + 16 * warp + lane / 4, first_column = tile.column + lane % 4 * 2;
  const std::int64_t image_channels = p.image.channels;
  const std::int64_t row_step = p.rows_are_image ? 1 : image_channels;
  const std::int64_t column_step = p.rows_are_image ? image_channels : 1;
  float* to = sums + p.tap_list[unit.tap].tap * p.gather.tap_stride + tile.slice * p.gather.slice_stride +
              first_row * row_step + first_column * column_step;
  const int rows = p.rows().channels - first_row, columns = p.columns().channels - first_column;  // those that are left
#pragma unroll
  for (int j = 0; j < 16; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (8 * j + i < columns) {
        if (rows > 0) to[i * column_step] = values[4 * j + i];
        if (rows > 8) to[i * column_step + 8 * row_step] = values[4 * j + 2 + i];
      }
    }
    to += 8 * column_step;
  }
}

/// Multiplies a warpgroup's units of every tile of the block.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void multiply_and_store(const BlockedWeightPlan& p, const Shared& shared, float* sums,
                                                   int warpgroup) {
  constexpr wgmma::Operand kOperand = kWgmmaOperand<kArithmetic>;
  constexpr wgmma::Major kChannels = wgmma::Major::kMN;
  constexpr int kDepth = 16;     // positions of a product, and vectors of a block
  constexpr int kCore = 8 * 16;  // bytes from eight positions to the next
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4, lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint64_t columns = wgmma::matrix_descriptor(shared.slots, kCore, 16 * p.column_positions());
  const std::uint64_t rows =
      wgmma::matrix_descriptor(shared.slots + p.column_boxes * p.column_bytes(), kCore, 16 * p.row_positions());
  Ring ring;
#pragma unroll 1
  for (int index = static_cast<int>(blockIdx.x); index < p.tiles(); index += static_cast<int>(gridDim.x)) {
    const BlockedWeightTile tile = blocked_weight_tile(p, index);
    const int first_unit = tile.unit + kUnits * warpgroup, end_unit = tile.unit + tile.units;
    // The places of the boxes that units read; units past the last read the tile's first boxes.
    std::uint64_t of_rows[kUnits], of_columns[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = first_unit + i < end_unit ? first_unit + i : tile.unit;
      const BlockedWeightBoxes boxes = blocked_weight_boxes(p, tile, unit);
      const int shift = p.tap_list[blocked_weight_unit(p, unit).tap].shift;
      of_rows[i] = wgmma::moved(rows, boxes.row * (p.row_bytes() / 16) + (p.rows_are_image ? shift : 0));
      of_columns[i] = wgmma::moved(columns, boxes.column * (p.column_bytes() / 16) + (p.rows_are_image ? 0 : shift));
    }
    float values[kUnits][64] = {};
    std::uint32_t used = 0;  // the barrier of the stage that products in flight read; 0: no barrier
    int accumulate = 0;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) wgmma::pin(values[i]);
    wgmma::fence();
#pragma unroll 1
    for (int stage = 0; stage < tile.stages; ++stage) {
      ptx::mbarrier_wait(shared.full + 8 * ring.slot, ring.parity);
      const int slot = ring.slot * (p.slot_bytes() / 16);
#pragma unroll
      for (int k = 0; k < kWeightStage / kDepth; ++k) {
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
          wgmma::multiply_blocks<kOperand, kChannels, kChannels>(values[i], wgmma::moved(of_rows[i], slot + k * kDepth),
                                                                 wgmma::moved(of_columns[i], slot + k * kDepth),
                                                                 accumulate);
        }
        accumulate = 1;
      }
      wgmma::commit();
      wgmma::wait<1>();
      if (used != 0) ptx::mbarrier_arrive(used);
      used = shared.empty + 8 * ring.slot;
      ring.advance(p.slots);
    }
    wgmma::wait<0>();
    if (used != 0) ptx::mbarrier_arrive(used);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) wgmma::pin(values[i]);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      if (first_unit + i < end_unit)
        store_unit(p, tile, blocked_weight_unit(p, first_unit + i), values[i], sums, warp, lane);
    }
  }
}

template <Arithmetic kArithmetic>
__global__ void __launch_bounds__(kThreads, 1)
    blocked_weight_kernel(const __grid_constant__ BlockedWeightPlan plan, const __grid_constant__ TensorMap rows,
                          const __grid_constant__ TensorMap columns, float* sums) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which is never launched
  const std::uint32_t smem = ptx::shared_address(ptx::dynamic_smem());
  const Shared shared{smem, smem + 8 * kMostWeightSlots, smem + kWeightBarrierBytes};
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.slots; ++i) {
      ptx::mbarrier_init(shared.full + 8 * i, 1);
      ptx::mbarrier_init(shared.empty + 8 * i, 128 * kMultipliers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  constexpr int kLoaderRegisters = 40;
  constexpr int kRegisters = multiplier_registers(kThreads, 128, kLoaderRegisters);
  ptx::wait_for_earlier_kernels();
  const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == kMultipliers) {
    ptx::lower_register_limit<kLoaderRegisters>();
    if (threadIdx.x == 128 * kMultipliers) copy_boxes(plan, rows, columns, shared);
  } else {
    ptx::raise_register_limit<kRegisters>();
    multiply_and_store<kArithmetic>(plan, shared, sums, warpgroup);
  }
#endif
}

}  // namespace adjoint::cuda::blocked_weight
