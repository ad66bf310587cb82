// The tensor-core kernel of conv_weight for sm_80 and later; weight/plan.h holds its schedule and index arithmetic.
//
// Both operands stay in shared memory as raw rows, copied asynchronously some stages ahead, and fragments are read by
// LDS at any offset: a pitch of 4 modulo 32 banks keeps eight channels' rows apart. Tensor cores round sums towards
// zero, so sums are kept short: every so many positions they are added to the workspace (float32: to ordinary
// registers).
#pragma once

#include <adjoint/ops/conv/weight/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/mma_multiply.cuh>
#include <adjoint/ops/conv/weight/cuda/common.cuh>

#include <cstdint>

namespace adjoint::cuda {

namespace weight {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = 8;

/// A warp copies every eighth channel; its lanes run over the planes, rows and columns of a channel's stage.
template <int kSize, int kVector>
__device__ __forceinline__ void load_image(const WeightPlan& p, const WeightWork& work, const WeightStage& at,
                                           const unsigned char* image, unsigned char* smem, std::uint32_t smem_base,
                                           std::uint32_t stage, int warp, int lane) {
  const WeightTapBlock& taps = p.tap_block[work.tap_block];
  const unsigned vectors = static_cast<unsigned>(p.cols) / kVector;
  const unsigned count = static_cast<unsigned>(p.planes_h * p.planes_w * p.rows) * vectors;
  const std::int64_t plane = static_cast<std::int64_t>(p.image_h) * p.image_w;
  const int channels = min(p.block_channels, p.image_channels - work.first_channel);
  const unsigned char* first =
      image + ((at.n * p.groups + work.group) * p.image_channels + work.first_channel + warp) * plane * kSize;
#pragma unroll 1
  for (unsigned item = lane; item < count; item += 32) {
    unsigned rest = item, plane_w = 0;
    if (kVector == 1 && p.planes_w > 1) {
      plane_w = rest % static_cast<unsigned>(p.planes_w);
      rest /= static_cast<unsigned>(p.planes_w);
    }
    const unsigned line = rest / vectors;
    const int col = static_cast<int>(rest - line * vectors) * kVector;
    const unsigned plane_h = line / static_cast<unsigned>(p.rows);
    const int row = static_cast<int>(line - plane_h * static_cast<unsigned>(p.rows));
    const std::int64_t h = static_cast<std::int64_t>(at.h + row + taps.h_base) * p.stride_h + taps.first_plane_h +
                           static_cast<int>(plane_h);
    const std::int64_t w = static_cast<std::int64_t>(at.w + col + taps.w_base) * p.stride_w + taps.first_plane_w +
                           static_cast<int>(plane_w);
    const bool valid = h >= 0 && h < p.image_h && w >= 0 && w < p.image_w;
    const unsigned char* source = valid ? first + (h * p.image_w + w) * kSize : image;
    std::uint32_t to =
        stage + kSize * (warp * p.image_pitch +
                         (static_cast<int>(plane_h * p.planes_w + plane_w) * p.rows + row) * p.cols + col);
#pragma unroll 4
    for (int c = warp; c < channels; c += kWarps) {
      copy_or_zero<kVector * kSize>(smem, smem_base, to, source, valid);
      source += valid ? kWarps * plane * kSize : 0;
      to += kSize * kWarps * p.image_pitch;
    }
  }
}

template <int kSize, int kVector>
__device__ __forceinline__ void load_feature(const WeightPlan& p, const WeightWork& work, const WeightStage& at,
                                             const unsigned char* feature, unsigned char* smem, std::uint32_t smem_base,
                                             std::uint32_t stage, int thread) {
  // There is a power of two of vectors a column, at most kThreads: a thread has one place, in every so-many-th column.
  constexpr int kLog2Vector = kVector == 8 ? 3 : kVector == 4 ? 2 : kVector == 2 ? 1 : 0;
  const int log2_vectors = p.log2_tile_h + p.log2_tile_w - kLog2Vector;
  const int position = (thread & ((1 << log2_vectors) - 1)) * kVector;
  const int column_step = kThreads >> log2_vectors;
  const int h = at.h + (position >> p.log2_tile_w), w = at.w + (position & ((1 << p.log2_tile_w) - 1));
  const bool inside = h < p.feature_h && w < p.feature_w;
  const int channels = p.feature_channels - work.first_column;
  const std::int64_t plane = static_cast<std::int64_t>(p.feature_h) * p.feature_w;
  const std::int64_t first_channel = (at.n * p.groups + work.group) * p.feature_channels + work.first_column;
  const int first = thread >> log2_vectors;
  const unsigned char* source =
      inside ? feature + ((first_channel + first) * plane + static_cast<std::int64_t>(h) * p.feature_w + w) * kSize
             : feature;
  const std::int64_t step = inside ? column_step * plane * kSize : 0;
  std::uint32_t to = stage + kSize * (first * p.feature_pitch + position);
#pragma unroll 4
  for (int column = first; column < p.tile_columns; column += column_step) {
    const bool valid = inside && column < channels;
    copy_or_zero<kVector * kSize>(smem, smem_base, to, valid ? source : feature, valid);
    source += step;
    to += kSize * column_step * p.feature_pitch;
  }
}

template <int kSize>
__device__ __forceinline__ void load_stage(const WeightPlan& p, const WeightOperands& operands, const WeightWork& work,
                                           std::int64_t stage_index, unsigned char* smem, std::uint32_t smem_base,
                                           std::uint32_t stage, std::uint32_t feature_stage) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  constexpr int kWide = 16 / kSize;
  const WeightStage at = weight_stage(p, stage_index);
  const auto* image = static_cast<const unsigned char*>(operands.image);
  const auto* feature = static_cast<const unsigned char*>(operands.feature);
  if (operands.image_vector == kWide) {
    load_image<kSize, kWide>(p, work, at, image, smem, smem_base, stage, warp, lane);
  } else if (operands.image_vector == 2) {
    load_image<kSize, 2>(p, work, at, image, smem, smem_base, stage, warp, lane);
  } else {
    load_image<kSize, 1>(p, work, at, image, smem, smem_base, stage, warp, lane);
  }
  if (operands.feature_vector == kWide) {
    load_feature<kSize, kWide>(p, work, at, feature, smem, smem_base, feature_stage, threadIdx.x);
  } else if (operands.feature_vector == 2) {
    load_feature<kSize, 2>(p, work, at, feature, smem, smem_base, feature_stage, threadIdx.x);
  } else {
    load_feature<kSize, 1>(p, work, at, feature, smem, smem_base, feature_stage, threadIdx.x);
  }
}

/// kMTiles x kNTiles instruction tiles a warp, kWarpRows warps along rows.
template <Arithmetic kArithmetic, int kMTiles, int kNTiles, int kWarpRows>
__global__ void __launch_bounds__(kThreads, 1)
    weight_kernel(const __grid_constant__ WeightPlan p, const WeightOperands operands) {
  constexpr bool kHalf = kArithmetic == Arithmetic::kBFloat16 || kArithmetic == Arithmetic::kFloat16;
  constexpr bool kSplit = kArithmetic == Arithmetic::kFloat32;
  constexpr int kSize = kHalf ? 2 : 4;
  constexpr int kLog2Depth = kHalf ? 4 : 3;  // positions of an instruction
  unsigned char* const smem = ptx::dynamic_smem();
  const std::uint32_t smem_base = ptx::shared_address(smem);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int first_row = (warp % kWarpRows) * 16 * kMTiles, first_column = (warp / kWarpRows) * 8 * kNTiles;

  const std::int64_t blocks = p.blocks_per_split();
  const std::int64_t split = blockIdx.x / blocks, block = blockIdx.x % blocks;
  const WeightWork work = weight_work(p, block);
  const std::int64_t first_stage = split * p.stages_per_split;
  const std::int64_t end_stage = min(first_stage + p.stages_per_split, p.stages);
  const auto image_bytes = static_cast<std::uint32_t>(mma_image_bytes(p, kSize));
  const auto stage_bytes = static_cast<std::uint32_t>(mma_stage_bytes(p, kSize));

  // Rows past the end read row 0; their sums are discarded.
  int row_offset[kMTiles][2];
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const WeightRow row = weight_row(p, work, first_row + 16 * i + 8 * half + g);
      row_offset[i][half] = row.valid ? weight_row_offset(p, work, row) : 0;
    }
  }

  float sums[kMTiles][kNTiles][4] = {};
  float* partial = operands.partial + (split * blocks + block) * p.tile_rows * p.tile_columns;
  bool flushed = false;
  const auto flush = [&] {
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* to = partial + (first_column + 2 * t) * p.tile_rows + first_row + 16 * i + 8 * half + g;
#pragma unroll
        for (int j = 0; j < kNTiles; ++j) {
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            float& value = sums[i][j][2 * half + c];
            float* place = to + (8 * j + c) * p.tile_rows;
            *place = flushed ? value + *place : value;
            value = 0;
          }
        }
      }
    }
    flushed = true;
  };

  std::int64_t next = first_stage;
  int load_slot = 0;
  const auto load_next = [&] {
    if (next < end_stage) {
      const std::uint32_t stage = load_slot * stage_bytes;
      load_stage<kSize>(p, operands, work, next, smem, smem_base, stage, stage + image_bytes);
    }
    ptx::cp_async_commit();
    ++next;
    load_slot = load_slot + 1 == p.smem_stages ? 0 : load_slot + 1;
  };
  load_next();
  load_next();

  const int steps = 1 << (p.log2_tile_h + p.log2_tile_w - kLog2Depth);
  const int log2_row_steps = p.log2_tile_w - kLog2Depth;
  const int stages_per_sum = kSumPositions >> (p.log2_tile_h + p.log2_tile_w);
  int slot = 0, unflushed = 0;
  for (std::int64_t s = first_stage; s < end_stage; ++s) {
    ptx::cp_async_wait<1>();
    __syncthreads();
    load_next();
    const auto* image = reinterpret_cast<const std::uint32_t*>(smem + slot * stage_bytes);
    const auto* feature = reinterpret_cast<const std::uint32_t*>(smem + slot * stage_bytes + image_bytes) +
                          ((first_column + g) * p.feature_pitch) / (kHalf ? 2 : 1) + t;
#pragma unroll 2
    for (int step = 0; step < steps; ++step) {
      const int row = step >> log2_row_steps, col = (step & ((1 << log2_row_steps) - 1)) << kLog2Depth;
      const int image_offset = row * p.cols + col;
      std::uint32_t b[kNTiles][2], b_tail[kSplit ? kNTiles : 1][2];
#pragma unroll
      for (int j = 0; j < kNTiles; ++j) {
        const std::uint32_t* from = feature + (8 * j * p.feature_pitch) / (kHalf ? 2 : 1) + 8 * step;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const std::uint32_t value = from[4 * r];
          if constexpr (kSplit) {
            split_tf32(__uint_as_float(value), b[j][r], b_tail[j][r]);
          } else {
            b[j][r] = kHalf ? value : ptx::round_to_tf32(__uint_as_float(value));
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
        std::uint32_t a[4], a_tail[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int offset = row_offset[i][r & 1] + image_offset;
          if constexpr (kHalf) {
            const std::uint32_t* from = image + (offset >> 1) + t + 4 * (r / 2);
            a[r] = __funnelshift_r(from[0], from[1], 16 * (offset & 1));
          } else {
            const std::uint32_t value = image[offset + t + 4 * (r / 2)];
            if constexpr (kSplit) {
              split_tf32(__uint_as_float(value), a[r], a_tail[r]);
            } else {
              a[r] = ptx::round_to_tf32(__uint_as_float(value));
            }
          }
        }
#pragma unroll
        for (int j = 0; j < kNTiles; ++j) {
          if constexpr (kSplit) {
            // Short sums, the small products first, added by ordinary instructions, because tensor cores round towards
            // zero.
            float of_step[4] = {};
            mma_multiply<kArithmetic>(of_step, a, b_tail[j]);
            mma_multiply<kArithmetic>(of_step, a_tail, b[j]);
            mma_multiply<kArithmetic>(of_step, a, b[j]);
#pragma unroll
            for (int r = 0; r < 4; ++r) sums[i][j][r] += of_step[r];
          } else {
            mma_multiply<kArithmetic>(sums[i][j], a, b[j]);
          }
        }
      }
    }
    slot = slot + 1 == p.smem_stages ? 0 : slot + 1;
    if (!kSplit && ++unflushed == stages_per_sum) {
      unflushed = 0;
      flush();
    }
  }
  if (unflushed > 0 || !flushed) flush();
}

}  // namespace weight
}  // namespace adjoint::cuda
