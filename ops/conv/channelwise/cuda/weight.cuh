// conv_weight with few channels a group (channelwise/plan.h describes how the work is split): a block sums one pair of
// channels over a run of tiles, with every tap's sum in each thread's registers.
#pragma once

#include <adjoint/ops/conv/channelwise/cuda/stage.cuh>
#include <adjoint/ops/conv/channelwise/cuda/walk.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::channelwise {

template <class T>
struct WeightOperands {
  const T* image;
  const T* feature;
  float* partial;  // (splits, pairs, taps)
};

/// A block's taps, channels and tiles.
struct WeightWork {
  std::int64_t pair, split;
  std::int64_t image_channel, feature_channel;  // of all groups
  std::int64_t first_tile, end_tile;
  int first_tap_h, first_tap_w;
};

__device__ __forceinline__ WeightWork weight_work(const ChannelwiseWeightPlan& p, unsigned block) {
  WeightWork work;
  const auto tap_blocks = static_cast<unsigned>(p.tap_row_blocks * p.tap_column_blocks);
  const unsigned tap_block = block % tap_blocks;
  block /= tap_blocks;
  work.first_tap_h = static_cast<int>(tap_block) / p.tap_column_blocks * p.walk.taps_h;
  work.first_tap_w = static_cast<int>(tap_block) % p.tap_column_blocks * p.walk.taps_w;
  const auto pairs = static_cast<unsigned>(p.pairs), split = block / pairs, pair = block - split * pairs;
  const auto image_channels = static_cast<unsigned>(p.image_channels);
  const unsigned feature_channel = pair / image_channels;
  work.pair = pair;
  work.split = split;
  work.feature_channel = feature_channel;
  work.image_channel =
      feature_channel / static_cast<unsigned>(p.feature_channels) * image_channels + pair % image_channels;
  work.first_tile = work.split * p.tiles_per_split;
  work.end_tile = min(work.first_tile + p.tiles_per_split, p.walk.tiles());
  return work;
}

/// The tile as seen by the block's first tap.
__device__ __forceinline__ ChannelwiseTile weight_tile(const ChannelwiseWeightPlan& p, const WeightWork& work,
                                                       std::int64_t index) {
  ChannelwiseTile tile = channelwise_tile(p.walk, static_cast<int>(index));
  tile.source_row += work.first_tap_h * p.walk.h.tap_spacing;
  tile.source_column += work.first_tap_w * p.walk.w.tap_spacing;
  return tile;
}

/// The feature's rows that one chunk walks down or, along a row, its columns.
struct FeatureLine {
  int row, column, count, row_step, column_step;
};

__device__ __forceinline__ FeatureLine feature_line(const ChannelwisePlan& p, const ChannelwiseTile& tile, int lane,
                                                    int chunk) {
  const int first_step = chunk * kChannelwiseWalk;
  FeatureLine line{channelwise_rows(p, tile, 0).result_row, tile.column + lane, 0, 0, 0};
  if (p.along_row != 0) {
    line.column += first_step * p.lanes;
    line.column_step = p.lanes;
    line.count = (p.w.result - line.column + p.lanes - 1) / p.lanes;
  } else {
    line.row += first_step * p.h.residues;
    line.row_step = p.h.residues;
    line.count = line.column < p.w.result ? (p.h.result - line.row + p.h.residues - 1) / p.h.residues : 0;
  }
  line.count = min(line.count, kChannelwiseWalk);
  return line;
}

template <class T>
__device__ __forceinline__ const T* feature_plane(const ChannelwiseWeightPlan& p, const WeightOperands<T>& operands,
                                                  const WeightWork& work, std::int64_t sample) {
  const std::int64_t channels = static_cast<std::int64_t>(p.walk.groups) * p.feature_channels;
  return operands.feature +
         (sample * channels + work.feature_channel) * (static_cast<std::int64_t>(p.walk.h.result) * p.walk.w.result);
}

/// A thread's part of the feature for one chunk, and the image under it.
struct FeatureChunk {
  float values[kChannelwiseWalk];
  int image;  // the stage's element under tap (0, 0) of the first value; -1: no value
};

/// Line `index` of a tile.
template <class T>
__device__ __forceinline__ FeatureChunk load_feature(const ChannelwiseWeightPlan& plan,
                                                     const WeightOperands<T>& operands, const WeightWork& work,
                                                     const ChannelwiseTile& tile, int lane, int index) {
  const ChannelwisePlan& p = plan.walk;
  FeatureChunk chunk;
  chunk.image = -1;
  if (index >= tile.units * p.chunks) return chunk;
  const auto unit = static_cast<int>(p.chunk_divider.divide(static_cast<unsigned>(index)));
  const int in_tile = index - unit * p.chunks;
  const FeatureLine line = feature_line(p, tile, lane, in_tile);
  if (line.count <= 0) return chunk;
  const T* feature = feature_plane(plan, operands, work, tile.unit + unit) + (line.row * p.w.result + line.column);
#pragma unroll
  for (int step = 0; step < kChannelwiseWalk; ++step, feature += p.result_step) {
    chunk.values[step] = step < line.count ? to_float(*feature) : 0.0F;
  }
  chunk.image = unit * p.unit_pitch + in_tile * kChannelwiseWalk * p.step_pitch + lane * p.w.period_source;
  return chunk;
}

template <int kTapsH, int kTapsW, int kShift, bool kAdjacent>
__device__ __forceinline__ void add_chunk(const ChannelwisePlan& p, const FeatureChunk& chunk, const float* stage,
                                          float (&sums)[kTapsH][kTapsW]) {
  if (chunk.image < 0) return;
  const auto meet = [&](int step, int i, const float(&image)[kTapsW]) {
#pragma unroll
    for (int j = 0; j < kTapsW; ++j) sums[i][j] = fmaf(image[j], chunk.values[step], sums[i][j]);
  };
  const int spacing = kAdjacent ? 1 : p.w.tap_spacing;
  if constexpr (kTapsH == 1) {
    walk<1, kTapsW, 1>(stage + chunk.image, p.step_pitch, 1, spacing, meet);
  } else {
    walk<kTapsH, kTapsW, kShift>(stage + chunk.image, p.pitch, p.h.shift, spacing, meet);
  }
}

/// This thread's share of one tap's sum by definition: only products with a place in the image.
template <class T>
__device__ __forceinline__ float defined_share(const ChannelwiseWeightPlan& plan, const WeightOperands<T>& operands,
                                               const WeightWork& work, int tap_h, int tap_w) {
  const ChannelwisePlan& p = plan.walk;
  float sum = 0;
  for (std::int64_t index = work.first_tile; index < work.end_tile; ++index) {
    const ChannelwiseTile tile = channelwise_tile(p, static_cast<int>(index));
    const int count = tile.units * p.chunks * p.lanes;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      const int line_index = i / p.lanes, unit = line_index / p.chunks;
      const FeatureLine line = feature_line(p, tile, i % p.lanes, line_index % p.chunks);
      const std::int64_t sample = tile.unit + unit;
      const T* feature = feature_plane(plan, operands, work, sample);
      const T* image = operands.image + sample * p.unit_stride +
                       work.image_channel * (static_cast<std::int64_t>(p.h.source) * p.w.source);
      for (int step = 0; step < line.count; ++step) {
        const std::int64_t row = line.row + step * line.row_step, column = line.column + step * line.column_step;
        const std::int64_t h = p.h.run[0].source + row * p.h.period_source + tap_h * p.h.tap_spacing;
        const std::int64_t w = p.w.run[0].source + column * p.w.period_source + tap_w * p.w.tap_spacing;
        if (h < 0 || h >= p.h.source || w < 0 || w >= p.w.source) continue;
        sum = fmaf(to_float(image[h * p.w.source + w]), to_float(feature[row * p.w.result + column]), sum);
      }
    }
  }
  return sum;
}

__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffU, value, distance);
  return value;
}

template <class T, int kTapsH, int kTapsW, int kShift, bool kAdjacent>
__global__ void __launch_bounds__(kChannelwiseThreads, kTapsH* kTapsW >= 8 && kTapsH * kTapsW <= 16 ? 3 : 2)
    weight_kernel(const __grid_constant__ ChannelwiseWeightPlan plan, const WeightOperands<T> operands) {
  constexpr int kTaps = kTapsH * kTapsW;
  const ChannelwisePlan& p = plan.walk;
  // Two stages in memory's format; for halves preceded by a widened one, which is as large as two of them.
  constexpr bool kWidens = !std::is_same_v<T, float>;
  float* const smem = reinterpret_cast<float*>(ptx::dynamic_smem());
  T* const stages = reinterpret_cast<T*>(smem + (kWidens ? p.stage_floats : 0));
  T* stage = stages;
  const WeightWork work = weight_work(plan, blockIdx.x);
  const auto thread_line = static_cast<int>(p.lane_divider.divide(threadIdx.x));
  const int lane = static_cast<int>(threadIdx.x) - thread_line * p.lanes;
  const T* image = operands.image + work.image_channel * (static_cast<std::int64_t>(p.h.source) * p.w.source);

  float sums[kTapsH][kTapsW] = {};
  const auto first_of = [&](const ChannelwiseTile& tile) {
    return image + tile.unit * p.unit_stride + static_cast<std::int64_t>(tile.source_row) * p.w.source +
           tile.source_column;
  };
  // One tile is copied while another one is summed. Threads past the last line have no work.
  const int line = thread_line < p.lines ? thread_line : p.tile_units * p.chunks;
  ChannelwiseTile tile = weight_tile(plan, work, work.first_tile);
  stage_tile(p, tile, operands.image, first_of(tile), stage);
  ptx::cp_async_commit();
  FeatureChunk chunk = load_feature(plan, operands, work, tile, lane, line);
  for (std::int64_t index = work.first_tile; index < work.end_tile; ++index) {
    // Opaque: the compiler would compute both stages' addresses ahead of the loop, and spill them.
    T* next_stage = stage == stages ? stages + ptx::opaque(p.stage_floats) : stages;
    ChannelwiseTile next = tile;
    FeatureChunk next_chunk = chunk;
    if (index + 1 < work.end_tile) {
      next = weight_tile(plan, work, index + 1);
      stage_tile(p, next, operands.image, first_of(next), next_stage);
      next_chunk = load_feature(plan, operands, work, next, lane, line);
    }
    ptx::cp_async_commit();
    ptx::cp_async_wait<1>();
    __syncthreads();
    const float* staged;
    if constexpr (kWidens) {
      widen_stage(p, stage, smem);
      __syncthreads();
      staged = smem;
    } else {
      staged = stage;
    }
    staged += stage_shift(p, first_of(tile));
    add_chunk<kTapsH, kTapsW, kShift, kAdjacent>(p, chunk, staged, sums);
    for (int other = line + p.lines; other < tile.units * p.chunks; other += p.lines) {
      add_chunk<kTapsH, kTapsW, kShift, kAdjacent>(p, load_feature(plan, operands, work, tile, lane, other), staged,
                                                   sums);
    }
    if constexpr (!kWidens) __syncthreads();  // otherwise the barrier before the next widening suffices
    tile = next;
    chunk = next_chunk;
    stage = next_stage;
  }

  if constexpr (kWidens) __syncthreads();
  // In place of the stages, because static arrays would exceed the plan's shared memory.
  float* const warp_sums = smem;  // (warps, taps)
  float* const totals = smem + kChannelwiseMostWarps * kTaps;
  const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < kTapsH; ++i) {
#pragma unroll
    for (int j = 0; j < kTapsW; ++j) {
      const float sum = sum_of_warp(sums[i][j]);
      if (threadIdx.x % 32 == 0) warp_sums[warp * kTaps + i * kTapsW + j] = sum;
    }
  }
  __syncthreads();
  float* partial = operands.partial + (work.split * plan.pairs + work.pair) * p.taps;
  for (int tap = static_cast<int>(threadIdx.x); tap < kTaps; tap += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int i = 0; i < warps; ++i) sum += warp_sums[i * kTaps + tap];
    totals[tap] = sum;
    const int h = work.first_tap_h + tap / kTapsW, w = work.first_tap_w + tap % kTapsW;
    if (h < plan.kernel_h && w < p.kernel_w) partial[h * p.kernel_w + w] = sum;
  }
  __syncthreads();
  // Zeros outside the image and past the feature's end turn infinite factors into NaN: sums that are NaN are recomputed
  // by definition.
#pragma unroll 1
  for (int tap = 0; tap < kTaps; ++tap) {
    const int h = work.first_tap_h + tap / kTapsW, w = work.first_tap_w + tap % kTapsW;
    if (h >= plan.kernel_h || w >= p.kernel_w || totals[tap] == totals[tap]) continue;
    const float share = sum_of_warp(defined_share(plan, operands, work, h, w));
    if (threadIdx.x % 32 == 0) warp_sums[warp] = share;
    __syncthreads();
    if (threadIdx.x == 0) {
      float sum = 0;
      for (int i = 0; i < warps; ++i) sum += warp_sums[i];
      partial[h * p.kernel_w + w] = sum;
    }
    __syncthreads();
  }
}

/// The splits' sums in order, in float64.
template <class T>
__global__ void add_pair_splits(const float* __restrict__ partial, T* __restrict__ filter, std::int64_t count,
                                int splits) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    double sum = 0;
#pragma unroll 8
    for (int split = 0; split < splits; ++split) sum += static_cast<double>(partial[split * count + i]);
    filter[i] = from_float<T>(static_cast<float>(sum));
  }
}

template <class T>
using WeightKernel = void (*)(ChannelwiseWeightPlan, WeightOperands<T>);

template <class T, int kTapsH, int kTapsW>
WeightKernel<T> select_weight_shift(const ChannelwisePlan& p) {
  if (p.walk_shift == 1) return weight_kernel<T, kTapsH, kTapsW, 1, true>;
  if constexpr (kTapsH > 2) {
    if (p.walk_shift == 2) return weight_kernel<T, kTapsH, kTapsW, 2, true>;
  }
  return weight_kernel<T, kTapsH, kTapsW, 0, true>;
}

/// The plan's kernel.
template <class T>
WeightKernel<T> select_weight(const ChannelwisePlan& p) {
  if (p.w.tap_spacing != 1) {
    return p.taps_w == 4 ? weight_kernel<T, 1, 4, 1, false> : weight_kernel<T, 1, 16, 1, false>;
  }
  switch (p.taps_h) {
    case 1:
      if (p.taps_w == 2) return weight_kernel<T, 1, 2, 1, true>;
      if (p.taps_w == 4) return weight_kernel<T, 1, 4, 1, true>;
      return p.taps_w == 8 ? weight_kernel<T, 1, 8, 1, true> : weight_kernel<T, 1, 16, 1, true>;
    case 2: return select_weight_shift<T, 2, 2>(p);
    case 3: return select_weight_shift<T, 3, 3>(p);
    case 4: return select_weight_shift<T, 4, 4>(p);
    case 5: return select_weight_shift<T, 5, 5>(p);
    default: return select_weight_shift<T, 7, 7>(p);
  }
}

}  // namespace adjoint::cuda::channelwise
