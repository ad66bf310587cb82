// conv and conv_transpose, plain: each thread gathers one position of a few channels of the result, so nothing is added
// across threads and the result does not depend on the grid. Both are one loop over arithmetic progressions of taps
// (tap_run.h); conv_transpose finds its progression by phase (geometry.h).

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/conv/plain/cuda/plain.h>
#include <adjoint/ops/conv/plain/plan.h>
#include <adjoint/ops/conv/plain/tap_run.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/ops/conv/base/cuda/index.cuh>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = kPlainThreads;
constexpr int kResidentBlocks = 4;  // a multiprocessor; leaves a thread 128 registers
constexpr int kBlocksPerMultiprocessor = 32;
// Strides up to this one have tables of their phases in shared memory.
constexpr int kTabledPhases = 32;
// Sums run over this many channels before they join the total, so that rounding errors of long sums stay small.
constexpr int kChannelsPerSum = 16;

// kAxes: the last ones of depth, height and width. Planes have separate kernels, because a depth costs registers.
template <class Index, int kAxes>
struct Gather {
  ConvAxis<Index> axes[kAxes];
  Splitter<Index> volume, plane, width;  // of the result
  Splitter<Index> strides[kAxes];        // conv_transpose: position to phase
  Index positions;                       // batch * volume of the result
  Index channel_blocks, blocks_per_group;
  Index channels, source_channels;  // a group
  Index result_channels_all, source_channels_all;
  Index result_volume, source_volume, source_plane, source_width;
  Index filter_group, filter_channel, filter_source;  // filter's strides: group, result channel, source channel
};

template <class Index, int kAxes>
Gather<Index, kAxes> make_gather(const ConvGeometry& g, bool transposed, int channels_per_thread) {
  const auto index = [](std::int64_t value) { return static_cast<Index>(value); };
  const Extents& result = transposed ? g.image : g.feature;
  const Extents& source = transposed ? g.feature : g.image;
  const std::int64_t image_channels = g.image_channels_per_group(), feature_channels = g.feature_channels_per_group();
  Gather<Index, kAxes> p;
  for (std::size_t i = 0; i < kAxes; ++i) {
    const std::size_t axis = 3 - kAxes + i;
    p.axes[i] = ConvAxis<Index>(g, axis);
    p.strides[i] = Splitter<Index>(index(g.stride[axis]));
  }
  p.result_volume = index(result.product());
  p.volume = Splitter<Index>(p.result_volume);
  p.plane = Splitter<Index>(index(result.h * result.w));
  p.width = Splitter<Index>(index(result.w));
  p.positions = index(g.batch * result.product());
  p.channels = index(transposed ? image_channels : feature_channels);
  p.source_channels = index(transposed ? feature_channels : image_channels);
  p.blocks_per_group = (p.channels + channels_per_thread - 1) / channels_per_thread;
  p.channel_blocks = index(g.groups) * p.blocks_per_group;
  p.result_channels_all = index(transposed ? g.image_channels : g.feature_channels);
  p.source_channels_all = index(transposed ? g.feature_channels : g.image_channels);
  p.source_volume = index(source.product());
  p.source_plane = index(source.h * source.w);
  p.source_width = index(source.w);
  p.filter_group = index(feature_channels * image_channels * g.taps());
  p.filter_channel = index(transposed ? g.taps() : image_channels * g.taps());
  p.filter_source = index(transposed ? image_channels * g.taps() : g.taps());
  return p;
}

template <class Index>
__device__ PhaseTaps taps_of_phase(const ConvAxis<Index>& axis, Index phase) {
  return phase_taps(phase, axis.kernel, axis.stride, axis.dilation);
}

// The taps that contribute to the result's position i on one axis.
template <bool kTransposed, class Index>
__device__ TapRun<Index> run_of(const ConvAxis<Index>& axis, const Splitter<Index>& stride, const PhaseTaps* tabled,
                                Index i) {
  if constexpr (kTransposed) {
    Index q, phase;
    stride.split(i + axis.padding, q, phase);
    return feature_run(axis, axis.stride <= kTabledPhases ? tabled[phase] : taps_of_phase(axis, phase), q);
  } else {
    return image_run(axis, i);
  }
}

// kChannels: channels of the result a thread computes. T: storage; sums are float, or double for double.
template <bool kTransposed, int kAxes, int kChannels, class T, class Index>
__global__ void __launch_bounds__(kThreads, kResidentBlocks)
    conv_gather(const __grid_constant__ Gather<Index, kAxes> p, const T* __restrict__ source,
                const T* __restrict__ filter, const T* __restrict__ bias, const Activate<compute_t<T>> activate,
                T* __restrict__ linear, T* __restrict__ result) {
  using Sum = compute_t<T>;
  __shared__ PhaseTaps phases[kAxes][kTabledPhases];
  if constexpr (kTransposed) {
    const int axis = threadIdx.x / kTabledPhases;
    const Index phase = threadIdx.x % kTabledPhases;
    if (axis < kAxes && phase < p.axes[axis].stride) phases[axis][phase] = taps_of_phase(p.axes[axis], phase);
    __syncthreads();
  }
  const Index step = static_cast<Index>(gridDim.x) * kThreads;
  for (Index block = blockIdx.y; block < p.channel_blocks; block += gridDim.y) {
    const Index group = block / p.blocks_per_group;
    const Index channel = (block - group * p.blocks_per_group) * kChannels;
    // Channels past the group's last repeat it, and are not stored.
    Index filter_offsets[kChannels];
#pragma unroll
    for (int k = 0; k < kChannels; ++k) {
      filter_offsets[k] =
          group * p.filter_group + detail::smaller<Index>(channel + k, p.channels - 1) * p.filter_channel;
    }
    for (Index position = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; position < p.positions;
         position += step) {
      constexpr int kHeight = kAxes - 2, kWidth = kAxes - 1;
      Index sample, in_volume, in_plane, y, x;
      p.volume.split(position, sample, in_volume);
      in_plane = in_volume;
      TapRun<Index> planes{1, 0, 0, 0, 0};
      if constexpr (kAxes == 3) {
        Index z;
        p.plane.split(in_volume, z, in_plane);
        planes = run_of<kTransposed>(p.axes[0], p.strides[0], phases[0], z);
      }
      p.width.split(in_plane, y, x);
      const TapRun<Index> rows = run_of<kTransposed>(p.axes[kHeight], p.strides[kHeight], phases[kHeight], y);
      const TapRun<Index> columns = run_of<kTransposed>(p.axes[kWidth], p.strides[kWidth], phases[kWidth], x);
      const Index plane_taps = p.axes[kHeight].kernel * p.axes[kWidth].kernel;
      const Index plane_step = planes.source_step * p.source_plane, plane_tap_step = planes.tap_step * plane_taps;
      const Index row_step = rows.source_step * p.source_width, row_tap_step = rows.tap_step * p.axes[kWidth].kernel;
      const Index first_tap = planes.tap * plane_taps + rows.tap * p.axes[kWidth].kernel + columns.tap;
      const Index first_source = (sample * p.source_channels_all + group * p.source_channels) * p.source_volume +
                                 planes.source * p.source_plane + rows.source * p.source_width + columns.source;

      Sum totals[kChannels] = {};
      for (Index begin = 0; begin < p.source_channels; begin += kChannelsPerSum) {
        Sum sums[kChannels] = {};
        const Index end = detail::smaller<Index>(begin + kChannelsPerSum, p.source_channels);
        for (Index c = begin; c < end; ++c) {
          for (Index plane = 0; plane < planes.count; ++plane) {
            for (Index row = 0; row < rows.count; ++row) {
              const T* values = source + first_source + c * p.source_volume + plane * plane_step + row * row_step;
              const T* taps = filter + c * p.filter_source + first_tap + plane * plane_tap_step + row * row_tap_step;
              for (Index column = 0; column < columns.count; ++column) {
                const Sum value = convert<Sum>(values[column * columns.source_step]);
#pragma unroll
                for (int k = 0; k < kChannels; ++k) {
                  sums[k] += value * convert<Sum>(taps[filter_offsets[k] + column * columns.tap_step]);
                }
              }
            }
          }
        }
#pragma unroll
        for (int k = 0; k < kChannels; ++k) totals[k] += sums[k];
      }

      const Index first_channel = group * p.channels + channel;
      const Index to = (sample * p.result_channels_all + first_channel) * p.result_volume + in_volume;
#pragma unroll
      for (int k = 0; k < kChannels; ++k) {
        if (channel + k < p.channels) {
          if (bias != nullptr) totals[k] += convert<Sum>(bias[first_channel + k]);
          if (linear != nullptr) linear[to + k * p.result_volume] = convert<T>(totals[k]);
          result[to + k * p.result_volume] = convert<T>(activate(totals[k]));
        }
      }
    }
  }
}

template <bool kTransposed, int kAxes, int kChannels, class T, class Index>
void launch_gather(const ConvProblem& problem) {
  const Gather<Index, kAxes> p = make_gather<Index, kAxes>(problem.geometry, kTransposed, kChannels);
  constexpr std::int64_t kMostGridY = 65535;
  const std::int64_t y = std::min<std::int64_t>(p.channel_blocks, kMostGridY);
  const std::int64_t most_x =
      std::max<std::int64_t>(kBlocksPerMultiprocessor * multiprocessor_count(problem.device) / y, 1);
  const std::int64_t x = std::min((std::int64_t{p.positions} + kThreads - 1) / kThreads, most_x);
  launch(conv_gather<kTransposed, kAxes, kChannels, T, Index>,
         {dim3(static_cast<unsigned>(x), static_cast<unsigned>(y)), dim3(kThreads)}, problem.device, p,
         static_cast<const T*>(problem.first), static_cast<const T*>(problem.second),
         static_cast<const T*>(problem.bias), Activate<compute_t<T>>(problem.activation),
         static_cast<T*>(problem.linear), static_cast<T*>(problem.out));
}

template <bool kTransposed, int kAxes>
void run_gather(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t channels = kTransposed ? g.image_channels_per_group() : g.feature_channels_per_group();
  const bool narrow = fits_32_bits(g);
  visit_floating(problem.dtype, [&]<class T>() {
    if (!narrow) {
      launch_gather<kTransposed, kAxes, kPlainChannels, T, std::int64_t>(problem);
    } else if (channels == 1) {
      launch_gather<kTransposed, kAxes, 1, T, std::int32_t>(problem);
    } else {
      launch_gather<kTransposed, kAxes, kPlainChannels, T, std::int32_t>(problem);
    }
  });
}

template <bool kTransposed>
void run_gather(const ConvProblem& problem) {
  is_planar(problem.geometry) ? run_gather<kTransposed, 2>(problem) : run_gather<kTransposed, 3>(problem);
}

}  // namespace

const ConvKernel plain_conv{.name = "plain",
                            .supports = takes_everything,
                            .run = run_gather<false>,
                            .takes_depth = true};
const ConvKernel plain_conv_transpose{.name = "plain",
                                      .supports = takes_everything,
                                      .run = run_gather<true>,
                                      .takes_depth = true};

}  // namespace adjoint::cuda
