// conv_weight with few channels of one operand (few_results/plan.h describes how the work is cut). Products outside the
// image are not computed, so NaN and infinity spread as in the plain kernels.
#pragma once

#include <adjoint/ops/conv/few_results/plan.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda::few_results {

template <class T>
struct WeightOperands {
  const T* image;
  const T* feature;
  T* filter;
  float* partial;  // or null: receives the slices' sums, [group][slice][the filter's order]
};

/// The warp's sums of each of kCount values: value lane / (32 / kCount) in every lane.
template <int kCount>
__device__ __forceinline__ float sum_of_warp(float (&values)[kCount]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int bit = 16;
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2, bit /= 2) {
    // Each of two lanes keeps one half of the values and gives the other away.
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float kept = upper ? values[i + half] : values[i], given = upper ? values[i] : values[i + half];
      values[i] = kept + __shfl_xor_sync(0xffffffffU, given, bit);
    }
  }
#pragma unroll
  for (int rest = 32 / kCount / 2; rest > 0; rest /= 2) values[0] += __shfl_xor_sync(0xffffffffU, values[0], rest);
  return values[0];
}

template <class T, int kImage, int kFeature, int kTaps>
__global__ void __launch_bounds__(kFewThreads)
    weight_kernel(const __grid_constant__ FewWeightPlan p, const WeightOperands<T> operands) {
  constexpr int kSums = kTaps * kImage * kFeature;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int index = static_cast<int>(blockIdx.x) * (kFewThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  if (index >= p.tiles() * p.slices) return;
  const FewWeightTile tile = few_weight_tile(p, index);
  const int image_h = static_cast<int>(p.image[0]), image_w = static_cast<int>(p.image[1]);
  const int image_plane = image_h * image_w, feature_plane = static_cast<int>(p.feature[0] * p.feature[1]);
  // A channel or tap past the last one repeats it; its sum is not stored.
  int images[kImage], features[kFeature], tap_row[kTaps], tap_column[kTaps];
#pragma unroll
  for (int i = 0; i < kImage; ++i) images[i] = min(tile.image_channel + i, p.image_channels - 1) * image_plane;
#pragma unroll
  for (int f = 0; f < kFeature; ++f)
    features[f] = min(tile.feature_channel + f, p.feature_channels - 1) * feature_plane;
#pragma unroll
  for (int t = 0; t < kTaps; ++t) {
    const int tap = min(tile.tap + t, p.taps - 1), row = tap / p.kernel_w;
    tap_row[t] = row * p.dilation[0] - p.padding[0];
    tap_column[t] = (tap - row * p.kernel_w) * p.dilation[1] - p.padding[1];
  }

  float sums[kSums] = {};  // (tap, image channel, feature channel)
  const int end = min(p.total, (tile.slice + 1) * p.slice_positions);
  [[maybe_unused]] constexpr int kUnroll = kTaps == 1 ? 4 : 1;
#pragma unroll kUnroll
  for (int n = tile.slice * p.slice_positions + lane; n < end; n += 32) {
    int column = n;
    int row = p.row_divider.split(column);
    const int sample = p.plane_divider.split(row), sample_group = sample * p.groups + tile.group;
    const T* feature = operands.feature + sample_group * p.feature_channels * feature_plane +
                       row * static_cast<int>(p.feature[1]) + column;
    const T* image = operands.image + sample_group * p.image_channels * image_plane;
    const int top = row * p.stride[0], left = column * p.stride[1];
    float by[kFeature], values[kTaps][kImage];
    bool inside[kTaps];
#pragma unroll
    for (int f = 0; f < kFeature; ++f) by[f] = to_float(feature[features[f]]);
      // A tap outside is replaced by another place, so that all loads are in flight together.
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      const int image_row = top + tap_row[t], image_column = left + tap_column[t];
      inside[t] = static_cast<unsigned>(image_row) < static_cast<unsigned>(image_h) &&
                  static_cast<unsigned>(image_column) < static_cast<unsigned>(image_w);
      const T* from = image + (inside[t] ? image_row * image_w + image_column : 0);
#pragma unroll
      for (int i = 0; i < kImage; ++i) values[t][i] = to_float(from[images[i]]);
    }
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
#pragma unroll
      for (int i = 0; i < kImage; ++i) {
#pragma unroll
        for (int f = 0; f < kFeature; ++f) {
          float& sum = sums[(t * kImage + i) * kFeature + f];
          if (inside[t]) sum = fmaf(values[t][i], by[f], sum);
        }
      }
    }
  }

  constexpr int kLanes = 32 / kSums;  // lanes that hold the same sum
  const float sum = sum_of_warp(sums);
  const int place = lane / kLanes, f = place % kFeature, i = place / kFeature % kImage, t = place / kFeature / kImage;
  const int feature_channel = tile.feature_channel + f, image_channel = tile.image_channel + i, tap = tile.tap + t;
  if (lane % kLanes != 0 || feature_channel >= p.feature_channels || image_channel >= p.image_channels ||
      tap >= p.taps) {
    return;
  }
  const std::int64_t numel =
      std::int64_t{p.feature_channels} * p.image_channels * p.taps;  // elements of a group's filter
  const std::int64_t at = (std::int64_t{feature_channel} * p.image_channels + image_channel) * p.taps + tap;
  if (operands.partial != nullptr) {
    operands.partial[(std::int64_t{tile.group} * p.slices + tile.slice) * numel + at] = sum;
  } else {
    operands.filter[tile.group * numel + at] = from_float<T>(sum);
  }
}

template <class T>
using WeightKernel = void (*)(FewWeightPlan, WeightOperands<T>);

/// The plan's kernel.
template <class T>
WeightKernel<T> select_weight(const FewWeightPlan& p) {
  const auto tile = [&p](auto one, auto several) { return p.tile_taps == 1 ? one : several; };
  switch (p.tile_image) {
    case 1: return tile(weight_kernel<T, 1, 4, 1>, weight_kernel<T, 1, 4, kFewTaps>);
    case 2: return tile(weight_kernel<T, 2, 2, 1>, weight_kernel<T, 2, 2, kFewTaps>);
    default: return tile(weight_kernel<T, 4, 1, 1>, weight_kernel<T, 4, 1, kFewTaps>);
  }
}

}  // namespace adjoint::cuda::few_results
