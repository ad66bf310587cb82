// conv and conv_transpose with few channels a group. A thread computes kRows values of one column of one plane: for
// conv_transpose all of one phase, so that the taps, held in registers, are the same for all of them.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/cuda/channelwise.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxLineChunks = 4;
constexpr int kMaxStride = 16;
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 28;
constexpr std::int64_t kMaxPairs = 16;  // channels times channels of a group; more is work for tensor cores

/// Taps tap + j * tap_step at source positions source + j * source_step, j in [0, taps), whether inside the source or
/// not.
struct PhaseRun {
  std::int32_t taps, tap, source;
};

struct GatherAxis {
  std::int32_t result, source;
  std::int32_t phases;             // result positions i, i + phases, ... have the same taps
  std::int32_t source_per_period;  // their source positions are so far apart
  std::int32_t tap_step, source_step;
  PhaseRun run[kMaxStride];  // of result positions 0 to phases - 1
};

struct Gather {
  GatherAxis h, w;
  std::int32_t groups, channels, source_channels;  // a group
  std::int32_t kernel_w, taps;
  std::int32_t column_threads;  // of a block's threads, those along columns; the others take other rows
  std::int32_t column_blocks, row_blocks;
  std::int32_t line_chunks;                    // of kRows rows that a thread computes one after the other
  std::int64_t filter_channel, filter_source;  // the filter's strides within a group
};

GatherAxis make_axis(const ConvGeometry& g, std::size_t axis, bool transposed) {
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  GatherAxis a{};
  const std::int64_t stride = g.stride[axis], padding = g.padding[axis];
  if (!transposed) {
    a.result = narrow(g.feature[axis]);
    a.source = narrow(g.image[axis]);
    a.phases = 1;
    a.source_per_period = narrow(stride);
    a.tap_step = 1;
    a.source_step = narrow(g.dilation[axis]);
    a.run[0] = {narrow(g.kernel[axis]), 0, narrow(-padding)};
    return a;
  }
  a.result = narrow(g.image[axis]);
  a.source = narrow(g.feature[axis]);
  a.phases = narrow(stride);
  a.source_per_period = 1;
  for (std::int64_t i = 0; i < stride; ++i) {
    const PhaseTaps taps = phase_taps((i + padding) % stride, g.kernel[axis], stride, g.dilation[axis]);
    a.tap_step = narrow(taps.tap_step);
    a.source_step = narrow(-taps.offset_step);
    a.run[i] = {narrow(taps.taps), narrow(taps.first_tap), narrow((i + padding) / stride - taps.first_offset)};
  }
  return a;
}

int most_taps(const GatherAxis& axis) {
  int most = 1;
  for (int i = 0; i < axis.phases; ++i) most = std::max(most, axis.run[i].taps);
  return most;
}

template <class T, int kTapsH, int kTapsW, int kRows>
__global__ void __launch_bounds__(kThreads)
    channelwise_gather(const __grid_constant__ Gather p, const T* __restrict__ source, const T* __restrict__ filter,
                       const T* __restrict__ bias, const Activate<float> activate, T* __restrict__ result) {
  unsigned block = blockIdx.x;
  const auto column_block = static_cast<int>(block % static_cast<unsigned>(p.column_blocks));
  block /= static_cast<unsigned>(p.column_blocks);
  const unsigned plane_index = block / static_cast<unsigned>(p.row_blocks);  // sample and channel of the result
  const auto row_block = static_cast<int>(block - plane_index * static_cast<unsigned>(p.row_blocks));
  const std::int64_t plane = plane_index;
  const auto n = static_cast<std::int64_t>(plane_index / static_cast<unsigned>(p.groups * p.channels));
  const auto channel_all = static_cast<int>(plane_index % static_cast<unsigned>(p.groups * p.channels));
  const int group = channel_all / p.channels, channel = channel_all - group * p.channels;

  const int column = column_block * p.column_threads + static_cast<int>(threadIdx.x) % p.column_threads;
  const int lines = kThreads / p.column_threads;
  const int line = row_block * lines + static_cast<int>(threadIdx.x) / p.column_threads;
  const int phase_h = line % p.h.phases, line_period = line / p.h.phases * kRows * p.line_chunks;
  if (column >= p.w.result || line_period * p.h.phases + phase_h >= p.h.result) return;

  const PhaseRun run_h = p.h.run[phase_h];
  const int period_w = column / p.w.phases;
  const PhaseRun run_w = p.w.run[column - period_w * p.w.phases];
  const int source_w = run_w.source + period_w * p.w.source_per_period;
  unsigned inside = 0;
#pragma unroll
  for (int j = 0; j < kTapsW; ++j) {
    const int w = source_w + j * p.w.source_step;
    if (j < run_w.taps && w >= 0 && w < p.w.source) inside |= 1U << j;
  }

#pragma unroll 1
  for (int chunk = 0; chunk < p.line_chunks; ++chunk) {
    const int first_period = line_period + chunk * kRows;
    if (first_period * p.h.phases + phase_h >= p.h.result) return;
    float sums[kRows] = {};
    const std::int64_t source_plane = static_cast<std::int64_t>(p.h.source) * p.w.source;
    for (int c = 0; c < p.source_channels; ++c) {
      const T* from = source + ((n * p.groups + group) * p.source_channels + c) * source_plane + source_w;
      const T* taps = filter + static_cast<std::int64_t>(group) * p.channels * p.source_channels * p.taps +
                      channel * p.filter_channel + c * p.filter_source;
      float weights[kTapsH][kTapsW];
#pragma unroll
      for (int i = 0; i < kTapsH; ++i) {
#pragma unroll
        for (int j = 0; j < kTapsW; ++j) {
          const bool there = i < run_h.taps && j < run_w.taps;
          const int tap = (run_h.tap + i * p.h.tap_step) * p.kernel_w + run_w.tap + j * p.w.tap_step;
          weights[i][j] = there ? to_float(taps[tap]) : 0.0F;
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int first_h = run_h.source + (first_period + r) * p.h.source_per_period;
#pragma unroll
        for (int i = 0; i < kTapsH; ++i) {
          const int h = first_h + i * p.h.source_step;
          const bool row_inside = i < run_h.taps && h >= 0 && h < p.h.source;
          const T* row = from + static_cast<std::int64_t>(h) * p.w.source;
#pragma unroll
          for (int j = 0; j < kTapsW; ++j) {
            if (row_inside && (inside >> j & 1U) != 0) {
              sums[r] = fmaf(to_float(row[j * p.w.source_step]), weights[i][j], sums[r]);
            }
          }
        }
      }
    }
    const float offset = bias != nullptr ? to_float(bias[channel_all]) : 0.0F;
    T* to = result + plane * p.h.result * p.w.result + column;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int h = (first_period + r) * p.h.phases + phase_h;
      if (h < p.h.result) to[static_cast<std::int64_t>(h) * p.w.result] = from_float<T>(activate(sums[r] + offset));
    }
  }
}

template <class T, int kTapsH, int kTapsW, int kRows>
void launch_gather(Gather p, const ConvProblem& problem) {
  p.column_threads = 32;
  while (p.column_threads < kThreads && p.column_threads < p.w.result) p.column_threads *= 2;
  const std::int64_t periods = (p.h.result + p.h.phases - 1) / p.h.phases;
  p.line_chunks = static_cast<std::int32_t>(std::clamp<std::int64_t>(periods / kRows, 1, kMaxLineChunks));
  const std::int64_t line_periods = std::int64_t{kRows} * p.line_chunks;
  const std::int64_t lines = p.h.phases * ((periods + line_periods - 1) / line_periods);
  const int block_lines = kThreads / p.column_threads;
  p.column_blocks = (p.w.result + p.column_threads - 1) / p.column_threads;
  p.row_blocks = static_cast<std::int32_t>((lines + block_lines - 1) / block_lines);
  const std::int64_t blocks = problem.geometry.batch * p.groups * p.channels * p.column_blocks * p.row_blocks;
  launch(channelwise_gather<T, kTapsH, kTapsW, kRows>, {dim3(static_cast<unsigned>(blocks)), dim3(kThreads)},
         problem.device, p, static_cast<const T*>(problem.first), static_cast<const T*>(problem.second),
         static_cast<const T*>(problem.bias), Activate<float>(problem.activation), static_cast<T*>(problem.out));
}

constexpr int kMostTapsH[] = {1, 1, 2, 3, 4, 5};
constexpr int kMostTapsW[] = {4, 16, 2, 3, 4, 5};

/// The compiled kernel with the fewest taps that holds the problem's; -1 where none does.
int select_taps(int h, int w) {
  int best = -1;
  for (int i = 0; i < 6; ++i) {
    if (h > kMostTapsH[i] || w > kMostTapsW[i]) continue;
    if (best < 0 || kMostTapsH[i] * kMostTapsW[i] < kMostTapsH[best] * kMostTapsW[best]) best = i;
  }
  return best;
}

Gather make_gather(const ConvGeometry& g, bool transposed) {
  Gather p{};
  p.h = make_axis(g, 0, transposed);
  p.w = make_axis(g, 1, transposed);
  const std::int64_t image = g.image_channels_per_group(), feature = g.feature_channels_per_group();
  p.groups = static_cast<std::int32_t>(g.groups);
  p.channels = static_cast<std::int32_t>(transposed ? image : feature);
  p.source_channels = static_cast<std::int32_t>(transposed ? feature : image);
  p.kernel_w = static_cast<std::int32_t>(g.kernel[1]);
  p.taps = static_cast<std::int32_t>(g.taps());
  p.filter_channel = transposed ? g.taps() : image * g.taps();
  p.filter_source = transposed ? image * g.taps() : g.taps();
  return p;
}

template <class T>
void run_with(const Gather& p, const ConvProblem& problem) {
  switch (select_taps(most_taps(p.h), most_taps(p.w))) {
    case 0: return launch_gather<T, 1, 4, 8>(p, problem);
    case 1: return launch_gather<T, 1, 16, 1>(p, problem);
    case 2: return launch_gather<T, 2, 2, 8>(p, problem);
    case 3: return launch_gather<T, 3, 3, 4>(p, problem);
    case 4: return launch_gather<T, 4, 4, 4>(p, problem);
    default: return launch_gather<T, 5, 5, 2>(p, problem);
  }
}

bool takes(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const bool transposed = problem.role == ConvRole::kImage;
  if (problem.dtype == kFloat64 || g.image_channels_per_group() * g.feature_channels_per_group() > kMaxPairs)
    return false;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (g.image[axis] >= kMaxExtent || g.feature[axis] >= kMaxExtent || g.padding[axis] >= kMaxExtent) return false;
    if (g.stride[axis] > kMaxStride || g.kernel[axis] * g.dilation[axis] >= kMaxExtent) return false;
  }
  const Gather p = make_gather(g, transposed);
  const std::int64_t planes = g.batch * p.groups * p.channels;
  const std::int64_t blocks = planes * (p.h.result + p.h.phases) * (p.w.result / kThreads + 1);  // at most
  return blocks < std::int64_t{1} << 31 && select_taps(most_taps(p.h), most_taps(p.w)) >= 0;
}

void run(const ConvProblem& problem) {
  const Gather p = make_gather(problem.geometry, problem.role == ConvRole::kImage);
  switch (problem.dtype) {
    case kBFloat16: return run_with<__nv_bfloat16>(p, problem);
    case kFloat16: return run_with<__half>(p, problem);
    default: return run_with<float>(p, problem);
  }
}

}  // namespace

const ConvKernel channelwise_conv{"channelwise_conv", takes, run, true};
const ConvKernel channelwise_conv_transpose{"channelwise_conv_transpose", takes, run, true};

}  // namespace adjoint::cuda
