// conv_weight with few channels a group: a block sums one pair of channels over a split of the feature's rows, all taps
// at once in registers. The number of splits depends on the shape alone, and every sum has one order.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/cuda/channelwise.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 28;
constexpr std::int64_t kMaxPairs = 16;  // channels times channels of a group; more is work for tensor cores
constexpr std::int64_t kBlocksWanted = 4096;
constexpr std::int64_t kLeastPerThread = 32;  // values of the feature

struct PairSum {
  std::int32_t image_h, image_w, feature_h, feature_w;
  std::int32_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
  std::int32_t groups, image_channels, feature_channels;  // a group
  std::int32_t column_threads;
  std::int64_t rows, rows_per_split;  // of the feature, over the batch
  std::int64_t pairs;
  std::int32_t segments, segment_columns;  // a split is some rows of a segment of columns
  std::int32_t splits;
};

template <class T, int kTapsH, int kTapsW>
__global__ void __launch_bounds__(kThreads)
    channelwise_weight(const __grid_constant__ PairSum p, const T* __restrict__ image, const T* __restrict__ feature,
                       float* __restrict__ partial) {
  const std::int64_t pair = blockIdx.x % p.pairs, split = blockIdx.x / p.pairs;
  const auto image_channel = static_cast<int>(pair % p.image_channels);
  const auto feature_channel = static_cast<std::int64_t>(pair / p.image_channels);  // of all groups
  const std::int64_t group = feature_channel / p.feature_channels;
  const int segment = static_cast<int>(split % p.segments) * p.segment_columns;
  const int first_column = segment + static_cast<int>(threadIdx.x) % p.column_threads;
  const int end_column = min(segment + p.segment_columns, p.feature_w);
  const int lines = kThreads / p.column_threads;
  const std::int64_t first_row = split / p.segments * p.rows_per_split,
                     end_row = min(first_row + p.rows_per_split, p.rows);

  float sums[kTapsH][kTapsW] = {};
  for (int column = first_column; column < end_column; column += p.column_threads) {
    const int image_w = column * p.stride_w - p.padding_w;
    unsigned inside = 0;
#pragma unroll
    for (int j = 0; j < kTapsW; ++j) {
      const int w = image_w + j * p.dilation_w;
      if (j < p.kernel_w && w >= 0 && w < p.image_w) inside |= 1U << j;
    }
#pragma unroll 2
    for (std::int64_t row = first_row + threadIdx.x / p.column_threads; row < end_row; row += lines) {
      const std::int64_t n = row / p.feature_h;
      const auto h = static_cast<int>(row - n * p.feature_h);
      const float value = to_float(
          feature[((n * p.groups * p.feature_channels + feature_channel) * p.feature_h + h) * p.feature_w + column]);
      const T* plane = image +
                       ((n * p.groups + group) * p.image_channels + image_channel) *
                           (static_cast<std::int64_t>(p.image_h) * p.image_w) +
                       image_w;
#pragma unroll
      for (int i = 0; i < kTapsH; ++i) {
        const int image_h = h * p.stride_h - p.padding_h + i * p.dilation_h;
        const bool row_inside = i < p.kernel_h && image_h >= 0 && image_h < p.image_h;
        const T* from = plane + static_cast<std::int64_t>(image_h) * p.image_w;
#pragma unroll
        for (int j = 0; j < kTapsW; ++j) {
          if (row_inside && (inside >> j & 1U) != 0)
            sums[i][j] = fmaf(to_float(from[j * p.dilation_w]), value, sums[i][j]);
        }
      }
    }
  }

  __shared__ float warp_sums[kWarps][kTapsH * kTapsW];
#pragma unroll
  for (int i = 0; i < kTapsH; ++i) {
#pragma unroll
    for (int j = 0; j < kTapsW; ++j) {
      float sum = sums[i][j];
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, distance);
      if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32][i * kTapsW + j] = sum;
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < kTapsH * kTapsW; k += kThreads) {
    const int i = k / kTapsW, j = k % kTapsW;
    if (i >= p.kernel_h || j >= p.kernel_w) continue;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += warp_sums[warp][k];
    partial[(split * p.pairs + pair) * p.kernel_h * p.kernel_w + i * p.kernel_w + j] = sum;
  }
}

template <class T>
__global__ void add_pair_splits(const float* __restrict__ partial, T* __restrict__ filter, std::int64_t count,
                                int splits) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    double sum = 0;
    for (int split = 0; split < splits; ++split) sum += static_cast<double>(partial[split * count + i]);
    filter[i] = from_float<T>(static_cast<float>(sum));
  }
}

PairSum make_pair_sum(const ConvGeometry& g) {
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  PairSum p{};
  p.image_h = narrow(g.image[0]);
  p.image_w = narrow(g.image[1]);
  p.feature_h = narrow(g.feature[0]);
  p.feature_w = narrow(g.feature[1]);
  p.kernel_h = narrow(g.kernel[0]);
  p.kernel_w = narrow(g.kernel[1]);
  p.stride_h = narrow(g.stride[0]);
  p.stride_w = narrow(g.stride[1]);
  p.padding_h = narrow(g.padding[0]);
  p.padding_w = narrow(g.padding[1]);
  p.dilation_h = narrow(g.dilation[0]);
  p.dilation_w = narrow(g.dilation[1]);
  p.groups = narrow(g.groups);
  p.image_channels = narrow(g.image_channels_per_group());
  p.feature_channels = narrow(g.feature_channels_per_group());
  p.column_threads = 32;
  while (p.column_threads < kThreads && p.column_threads < p.feature_w) p.column_threads *= 2;
  p.rows = g.batch * g.feature[0];
  p.pairs = g.feature_channels * p.image_channels;
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t blocks = std::max<std::int64_t>(kBlocksWanted / std::max<std::int64_t>(p.pairs, 1), 1);
  const std::int64_t vectors =
      std::max<std::int64_t>(ceil_div(p.feature_w, p.column_threads), 1);  // columns of a thread
  const std::int64_t segments = std::clamp<std::int64_t>(vectors / kLeastPerThread, 1, blocks);
  p.segment_columns = narrow(ceil_div(vectors, segments) * p.column_threads);
  p.segments = narrow(std::max<std::int64_t>(ceil_div(p.feature_w, p.segment_columns), 1));
  const std::int64_t lines = kThreads / p.column_threads;
  const std::int64_t most = p.rows * ceil_div(vectors, segments) / (kLeastPerThread * lines);
  const std::int64_t row_splits = std::clamp<std::int64_t>(blocks / p.segments, 1, std::max<std::int64_t>(most, 1));
  p.rows_per_split = std::max<std::int64_t>(ceil_div(p.rows, row_splits), 1);
  p.splits = narrow(std::max<std::int64_t>(ceil_div(p.rows, p.rows_per_split), 1) * p.segments);
  return p;
}

template <class T, int kTapsH, int kTapsW>
void launch_weight(const PairSum& p, const ConvProblem& problem) {
  const std::int64_t count = p.pairs * p.kernel_h * p.kernel_w;
  const Workspace partial(static_cast<std::size_t>(count * p.splits * 4), problem.device);
  launch(channelwise_weight<T, kTapsH, kTapsW>, {dim3(static_cast<unsigned>(p.pairs * p.splits)), dim3(kThreads)},
         problem.device, p, static_cast<const T*>(problem.first), static_cast<const T*>(problem.second),
         static_cast<float*>(partial.data()));
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>((count + 255) / 256, 1, 1024));
  launch(add_pair_splits<T>, {dim3(blocks), dim3(256)}, problem.device, static_cast<const float*>(partial.data()),
         static_cast<T*>(problem.out), count, p.splits);
}

constexpr std::int64_t kMostTapsH[] = {1, 1, 3, 4, 5};
constexpr std::int64_t kMostTapsW[] = {4, 16, 3, 4, 5};

/// The compiled kernel with the fewest taps that holds the filter's; -1 where none does.
int select_taps(const Extent2& kernel) {
  int best = -1;
  for (int i = 0; i < 5; ++i) {
    if (kernel[0] > kMostTapsH[i] || kernel[1] > kMostTapsW[i]) continue;
    if (best < 0 || kMostTapsH[i] * kMostTapsW[i] < kMostTapsH[best] * kMostTapsW[best]) best = i;
  }
  return best;
}

template <class T>
void run_with(const ConvProblem& problem) {
  const PairSum p = make_pair_sum(problem.geometry);
  switch (select_taps(problem.geometry.kernel)) {
    case 0: return launch_weight<T, 1, 4>(p, problem);
    case 1: return launch_weight<T, 1, 16>(p, problem);
    case 2: return launch_weight<T, 3, 3>(p, problem);
    case 3: return launch_weight<T, 4, 4>(p, problem);
    default: return launch_weight<T, 5, 5>(p, problem);
  }
}

bool takes(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  if (problem.dtype == kFloat64 || g.image_channels_per_group() * g.feature_channels_per_group() > kMaxPairs)
    return false;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (g.image[axis] >= kMaxExtent || g.feature[axis] >= kMaxExtent || g.padding[axis] >= kMaxExtent) return false;
    if (g.kernel[axis] * g.dilation[axis] >= kMaxExtent || g.stride[axis] * g.feature[axis] >= kMaxExtent) return false;
  }
  const std::int64_t pairs = g.feature_channels * g.image_channels_per_group();
  return pairs > 0 && pairs < std::int64_t{1} << 30 && select_taps(g.kernel) >= 0;
}

void run(const ConvProblem& problem) {
  switch (problem.dtype) {
    case kBFloat16: return run_with<__nv_bfloat16>(problem);
    case kFloat16: return run_with<__half>(problem);
    default: return run_with<float>(problem);
  }
}

}  // namespace

const ConvKernel channelwise_conv_weight{"channelwise_conv_weight", takes, run};

}  // namespace adjoint::cuda
