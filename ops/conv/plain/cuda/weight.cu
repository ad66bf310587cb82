// conv_weight, plain: a block computes one tap of a small tile of (feature, image) channels, over one part of the sum
// over batch and positions; a second kernel adds the parts in order. The cut of the sum depends on the shape alone.

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/conv/plain/cuda/plain.h>
#include <adjoint/ops/conv/plain/plan.h>
#include <adjoint/ops/conv/plain/tap_run.h>
#include <adjoint/ops/conv/base/cuda/index.cuh>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr int kWarps = kPlainWeightThreads / 32;

// kAxes: the last ones of depth, height and width.
template <class Index, int kAxes>
struct WeightSum {
  ConvAxis<Index> axes[kAxes];
  Index batch, taps;
  Index tiles, feature_tiles, image_tiles;  // all tiles; a group's, on each axis
  Index image_channels, feature_channels;   // a group
  Index image_channels_all, feature_channels_all;
  Index image_volume, feature_volume;
  Index filter_numel;
};

template <class Index, int kAxes>
WeightSum<Index, kAxes> make_weight_sum(const ConvGeometry& g, int tile) {
  const auto index = [](std::int64_t value) { return static_cast<Index>(value); };
  WeightSum<Index, kAxes> p;
  for (std::size_t axis = 0; axis < kAxes; ++axis) p.axes[axis] = ConvAxis<Index>(g, 3 - kAxes + axis);
  p.batch = index(g.batch);
  p.taps = index(g.taps());
  p.image_channels = index(g.image_channels_per_group());
  p.feature_channels = index(g.feature_channels_per_group());
  p.image_channels_all = index(g.image_channels);
  p.feature_channels_all = index(g.feature_channels);
  p.image_tiles = (p.image_channels + tile - 1) / tile;
  p.feature_tiles = (p.feature_channels + tile - 1) / tile;
  p.tiles = p.taps * p.image_tiles * p.feature_tiles * index(g.groups);
  p.image_volume = index(g.image_plane());
  p.feature_volume = index(g.feature_plane());
  p.filter_numel = index(g.filter_numel());
  return p;
}

template <class Sum>
__device__ Sum sum_of_warp(Sum value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffU, value, distance);
  return value;
}

// partial (gridDim.y, filter): part blockIdx.y of every sum. kTile: channels of a tile, of both kinds.
template <int kAxes, int kTile, class T, class Index>
__global__ void __launch_bounds__(kPlainWeightThreads)
    conv_weight_parts(const __grid_constant__ WeightSum<Index, kAxes> p, const T* __restrict__ image,
                      const T* __restrict__ feature, compute_t<T>* __restrict__ partial) {
  using Sum = compute_t<T>;
  __shared__ Sum of_warps[kWarps][kTile * kTile];
  for (Index tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
    // Taps run fastest: neighbouring blocks read the same memory.
    Index rest = tile / p.taps;
    const Index tap = tile - rest * p.taps;
    const Index first_image = rest % p.image_tiles * kTile;
    rest /= p.image_tiles;
    const Index first_feature = rest % p.feature_tiles * kTile;
    const Index group = rest / p.feature_tiles;
    const ConvAxis<Index>&height = p.axes[kAxes - 2], &width = p.axes[kAxes - 1];
    Index kz = 0, ky = tap / width.kernel;
    const Index kx = tap - ky * width.kernel;
    PositionRange<Index> planes{0, 1};
    if constexpr (kAxes == 3) {
      kz = ky / height.kernel;
      ky -= kz * height.kernel;
      planes = features_of_tap(p.axes[0], kz);
    }
    const PositionRange<Index> rows = features_of_tap(height, ky), columns = features_of_tap(width, kx);
    const Index plane_terms = rows.size() * columns.size(), volume_terms = planes.size() * plane_terms;
    const Index terms = p.batch * volume_terms;
    const Index part = (terms + static_cast<Index>(gridDim.y) - 1) / static_cast<Index>(gridDim.y);
    const Index begin = static_cast<Index>(blockIdx.y) * part;
    const Index end = detail::smaller<Index>(begin + part, terms);
    const auto splitter = [](Index count) { return Splitter<Index>(detail::larger<Index>(count, 1)); };
    const Splitter<Index> volume = splitter(volume_terms), plane = splitter(plane_terms),
                          row = splitter(columns.size());

    // Channels past the group's last repeat it, and are not stored.
    Index image_offsets[kTile], feature_offsets[kTile];
#pragma unroll
    for (int k = 0; k < kTile; ++k) {
      image_offsets[k] =
          (group * p.image_channels + detail::smaller<Index>(first_image + k, p.image_channels - 1)) * p.image_volume;
      feature_offsets[k] =
          (group * p.feature_channels + detail::smaller<Index>(first_feature + k, p.feature_channels - 1)) *
          p.feature_volume;
    }

    Sum totals[kTile][kTile] = {};
    for (Index term = begin + threadIdx.x; term < end;) {
      Sum sums[kTile][kTile] = {};
      for (int i = 0; i < kPlainTermsPerSum && term < end; ++i, term += kPlainWeightThreads) {
        Index sample, in_volume, in_plane, oy, ox;
        volume.split(term, sample, in_volume);
        in_plane = in_volume;
        const T* x = image + sample * p.image_channels_all * p.image_volume;
        const T* y = feature + sample * p.feature_channels_all * p.feature_volume;
        if constexpr (kAxes == 3) {
          const ConvAxis<Index>& depth = p.axes[0];
          Index oz;
          plane.split(in_volume, oz, in_plane);
          oz += planes.begin;
          const Index iz = oz * depth.stride - depth.padding + kz * depth.dilation;
          x += iz * height.image * width.image;
          y += oz * height.feature * width.feature;
        }
        row.split(in_plane, oy, ox);
        oy += rows.begin;
        ox += columns.begin;
        const Index iy = oy * height.stride - height.padding + ky * height.dilation;
        const Index ix = ox * width.stride - width.padding + kx * width.dilation;
        x += iy * width.image + ix;
        y += oy * width.feature + ox;
        Sum xs[kTile], ys[kTile];
#pragma unroll
        for (int k = 0; k < kTile; ++k) {
          xs[k] = convert<Sum>(x[image_offsets[k]]);
          ys[k] = convert<Sum>(y[feature_offsets[k]]);
        }
#pragma unroll
        for (int f = 0; f < kTile; ++f) {
#pragma unroll
          for (int c = 0; c < kTile; ++c) sums[f][c] += ys[f] * xs[c];
        }
      }
#pragma unroll
      for (int f = 0; f < kTile; ++f) {
#pragma unroll
        for (int c = 0; c < kTile; ++c) totals[f][c] += sums[f][c];
      }
    }

#pragma unroll
    for (int f = 0; f < kTile; ++f) {
#pragma unroll
      for (int c = 0; c < kTile; ++c) {
        const Sum sum = sum_of_warp(totals[f][c]);
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32][f * kTile + c] = sum;
      }
    }
    __syncthreads();
    if (threadIdx.x < kTile * kTile) {
      Sum sum = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) sum += of_warps[warp][threadIdx.x];
      const Index f = first_feature + static_cast<Index>(threadIdx.x) / kTile;
      const Index c = first_image + static_cast<Index>(threadIdx.x) % kTile;
      if (f < p.feature_channels && c < p.image_channels) {
        const Index row = (group * p.feature_channels + f) * p.image_channels + c;
        partial[std::int64_t{blockIdx.y} * p.filter_numel + row * p.taps + tap] = sum;
      }
    }
    __syncthreads();  // of_warps is free for the next tile
  }
}

// Adds the parts in order, in float64, so that their number does not reduce accuracy.
template <class T>
__global__ void __launch_bounds__(kPlainWeightThreads)
    add_parts(const compute_t<T>* __restrict__ partial, int parts, std::int64_t filter_numel, T* __restrict__ filter) {
  const std::int64_t step = std::int64_t{gridDim.x} * kPlainWeightThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kPlainWeightThreads + threadIdx.x; i < filter_numel; i += step) {
    double sum = 0;
    for (int part = 0; part < parts; ++part) sum += static_cast<double>(partial[part * filter_numel + i]);
    filter[i] = convert<T>(static_cast<compute_t<T>>(sum));
  }
}

// Channels of a tile, of both kinds.
int tile_of(const ConvGeometry& g) {
  const bool thin = g.image_channels_per_group() == 1 && g.feature_channels_per_group() == 1;
  return thin && fits_32_bits(g) ? 1 : 4;
}

std::int64_t parts_of(const ConvGeometry& g) { return plain_weight_parts(g, plain_weight_tiles(g, tile_of(g))); }

std::size_t workspace_bytes(const ConvProblem& problem) {
  const std::int64_t sum_bytes = problem.dtype == kFloat64 ? 8 : 4;
  return static_cast<std::size_t>(parts_of(problem.geometry) * problem.geometry.filter_numel() * sum_bytes);
}

template <int kAxes, int kTile, class T, class Index>
void launch_weight(const ConvProblem& problem) {
  constexpr std::int64_t kMostGridX = 0x7fffffff;
  const WeightSum<Index, kAxes> p = make_weight_sum<Index, kAxes>(problem.geometry, kTile);
  const std::int64_t parts = parts_of(problem.geometry);
  const Workspace partial(workspace_bytes(problem), problem.device);
  auto* sums = static_cast<compute_t<T>*>(partial.data());
  const auto x = static_cast<unsigned>(std::min<std::int64_t>(p.tiles, kMostGridX));
  launch(conv_weight_parts<kAxes, kTile, T, Index>, {dim3(x, static_cast<unsigned>(parts)), dim3(kPlainWeightThreads)},
         problem.device, p, static_cast<const T*>(problem.first), static_cast<const T*>(problem.second), sums);
  const std::int64_t blocks =
      std::min<std::int64_t>((p.filter_numel + kPlainWeightThreads - 1) / kPlainWeightThreads, kMostGridX);
  launch(add_parts<T>, {dim3(static_cast<unsigned>(blocks)), dim3(kPlainWeightThreads)}, problem.device, sums,
         static_cast<int>(parts), std::int64_t{p.filter_numel}, static_cast<T*>(problem.out));
}

template <int kAxes>
void run_weight(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  visit_floating(problem.dtype, [&]<class T>() {
    if (!fits_32_bits(g)) {
      launch_weight<kAxes, 4, T, std::int64_t>(problem);
    } else if (tile_of(g) == 1) {
      launch_weight<kAxes, 1, T, std::int32_t>(problem);
    } else {
      launch_weight<kAxes, 4, T, std::int32_t>(problem);
    }
  });
}

void run_any_weight(const ConvProblem& problem) {
  is_planar(problem.geometry) ? run_weight<2>(problem) : run_weight<3>(problem);
}

}  // namespace

const ConvKernel plain_conv_weight{.name = "plain",
                                   .supports = takes_everything,
                                   .run = run_any_weight,
                                   .workspace_bytes = workspace_bytes,
                                   .takes_depth = true};

}  // namespace adjoint::cuda
