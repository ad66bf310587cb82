// Resampling on CUDA: both axes by tiles (tiles.cuh) or, if the tables or a tile's rows would be too large, one axis
// after the other. One kernel then tabulates the band, and another computes one element of the result per thread, in a
// fixed order. A long axis is resampled in blocks of outputs, so that the table does not grow with the result.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/resample/kernels.h>
#include <adjoint/ops/resample/tiles.cuh>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kTableWeights = 1 << 18;

LaunchGeometry one_thread_each(std::int64_t count) {
  return {.grid = dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)), .block = dim3(kThreads)};
}

/// Outputs [first, first + rows) of every line, whose weights are (rows, taps).
struct Block {
  std::int64_t first, rows, taps;
};

template <class T>
__global__ void tabulate_weights(ResampleAttr attr, Block block, T* weights) {
  const std::int64_t r = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (r < block.rows) band::weights_of(attr, block.first + r, weights + r * block.taps);
}

/// The position of element `index` of (outer, extent, inner): its line among outer x inner lines, and its place along
/// it.
struct Place {
  std::int64_t outer, at, inner;
};
__device__ Place place_of(std::int64_t index, std::int64_t extent, std::int64_t inner) {
  const std::int64_t rest = index % (extent * inner);
  return {index / (extent * inner), rest / inner, rest % inner};
}

template <class T>
__global__ void resample_elements(ResampleAttr attr, Block block, std::int64_t inner, std::int64_t count,
                                  const T* __restrict__ weights, const T* __restrict__ in, T* __restrict__ out) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= count) return;
  const Place place = place_of(index, block.rows, inner);
  const std::int64_t o = block.first + place.at;
  const band::Run run = band::run_of(attr, o);
  const T* const line = in + place.outer * attr.in_extent * inner + place.inner;
  T sum = T(0);
  for (std::int64_t i = run.start; i < run.end; ++i) {
    sum += weights[place.at * block.taps + i - run.start] * line[i * inner];
  }
  out[(place.outer * attr.out_extent + o) * inner + place.inner] = sum;
}

/// Adds the block's part to the inputs of `reached`; the first block's sums start at 0.
template <class T>
__global__ void resample_adjoint_elements(ResampleAttr attr, Block block, band::Run reached, std::int64_t inner,
                                          std::int64_t count, const T* __restrict__ weights, const T* __restrict__ in,
                                          T* __restrict__ out) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= count) return;
  const Place place = place_of(index, reached.end - reached.start, inner);
  const std::int64_t i = reached.start + place.at;
  const band::Run users = band::users_of(attr, i);
  const std::int64_t end = users.end < block.first + block.rows ? users.end : block.first + block.rows;
  const T* const line = in + place.outer * attr.out_extent * inner + place.inner;
  T* const to = out + (place.outer * attr.in_extent + i) * inner + place.inner;
  T sum = block.first == 0 ? T(0) : *to;
  for (std::int64_t o = users.start < block.first ? block.first : users.start; o < end; ++o) {
    sum += weights[(o - block.first) * block.taps + i - band::run_of(attr, o).start] * line[o * inner];
  }
  *to = sum;
}

template <class T>
void run(bool transposed, const Tensor& in, Tensor& out, const ResampleAttr& attr) {
  const int device = in.device().index;
  const std::int64_t taps = band::max_taps(attr);
  const std::int64_t inner = band::elements_behind(in.shape(), attr.axis);
  const std::int64_t outer = in.numel() / (in.size(attr.axis) * inner);
  const std::int64_t most = std::clamp<std::int64_t>(kTableWeights / taps, 1, attr.out_extent);
  const Workspace workspace(static_cast<std::size_t>(most * taps) * sizeof(T), device);
  T* weights = static_cast<T*>(workspace.data());
  const T* from = in.data<T>();
  T* to = out.mutable_data<T>();
  for (std::int64_t first = 0; first < attr.out_extent; first += most) {
    const Block block{first, std::min(most, attr.out_extent - first), taps};
    launch(tabulate_weights<T>, one_thread_each(block.rows), device, attr, block, weights);
    if (transposed) {
      const band::Run reached{first == 0 ? 0 : band::run_of(attr, first).start,
                              first == 0 ? attr.in_extent : band::run_of(attr, first + block.rows - 1).end};
      const std::int64_t count = outer * (reached.end - reached.start) * inner;
      launch(resample_adjoint_elements<T>, one_thread_each(count), device, attr, block, reached, inner, count,
             static_cast<const T*>(weights), from, to);
    } else {
      const std::int64_t count = outer * block.rows * inner;
      launch(resample_elements<T>, one_thread_each(count), device, attr, block, inner, count,
             static_cast<const T*>(weights), from, to);
    }
  }
}

/// Takes a matrix's memory from the start of `weights` and `integers`.
template <class C>
resampling::Band<C> take_band(std::int64_t rows, std::int64_t stride, C*& weights, std::int32_t*& integers) {
  resampling::Band<C> band{static_cast<std::int32_t>(rows), static_cast<std::int32_t>(stride), integers,
                           integers + rows, weights};
  integers += 2 * rows;
  weights += rows * stride;
  return band;
}

template <class T>
void run_tiles(const Tensor& in, Tensor& out, const PlaneAttr& attr, bool transposed, const resampling::Tiling& tiling,
               std::int64_t tiles) {
  using C = compute_t<T>;
  const int device = in.device().index;
  const auto stride = [](const ResampleAttr& axis, bool transpose) {
    constexpr std::int64_t kUnit = resampling::kMostUnrolled;
    return (resampling::most_columns(axis, transpose) + kUnit - 1) / kUnit * kUnit;
  };
  std::int64_t elements = 0, rows = 0;
  for (const ResampleAttr* axis : {&attr.h, &attr.w}) {
    elements += axis->out_extent * stride(*axis, false) + (transposed ? axis->in_extent * stride(*axis, true) : 0);
    rows += axis->out_extent + (transposed ? axis->in_extent : 0);
  }
  const auto weight_bytes = static_cast<std::size_t>(elements) * sizeof(C);
  const Workspace workspace(weight_bytes + static_cast<std::size_t>(2 * rows) * sizeof(std::int32_t), device);
  C* weights = static_cast<C*>(workspace.data());
  auto* integers = reinterpret_cast<std::int32_t*>(static_cast<unsigned char*>(workspace.data()) + weight_bytes);
  const auto axis_of = [&](const ResampleAttr& axis) {
    resampling::Axis<C> result{axis, take_band(axis.out_extent, stride(axis, false), weights, integers), {}};
    if (transposed) result.inputs = take_band(axis.in_extent, stride(axis, true), weights, integers);
    return result;
  };
  const resampling::Axis<C> h = axis_of(attr.h), w = axis_of(attr.w);
  const auto tabulate = [&](auto* kernel, std::int64_t most) {
    LaunchGeometry geometry = one_thread_each(most);
    geometry.grid.y = 2;
    launch(kernel, geometry, device, h, w);
  };
  tabulate(resampling::tabulate_outputs<C>, std::max(attr.h.out_extent, attr.w.out_extent));
  if (transposed) tabulate(resampling::tabulate_inputs<C>, std::max(attr.h.in_extent, attr.w.in_extent));
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(tiles)), dim3(resampling::kThreads), tiling.smem_bytes};
  const double columns =
      std::max(resampling::usual_columns(attr.h, transposed), resampling::usual_columns(attr.w, transposed));
  const auto go = [&](auto* kernel) {
    launch(kernel, geometry, device, tiling, transposed ? h.inputs : h.outputs, transposed ? w.inputs : w.outputs,
           in.data<T>(), out.mutable_data<T>());
  };
  if (columns <= 1) return go(resampling::resample_tiles<T, 1>);
  if (columns <= 2) return go(resampling::resample_tiles<T, 2>);
  if (columns <= 4) return go(resampling::resample_tiles<T, 4>);
  go(resampling::resample_tiles<T, resampling::kMostUnrolled>);
}

}  // namespace

void resample_axis(const Tensor& in, Tensor& out, const ResampleAttr& attr, bool transposed) {
  if (in.dtype() == kFloat64) {
    run<double>(transposed, in, out, attr);
  } else {
    run<float>(transposed, in, out, attr);
  }
}

bool resample_plane(const Tensor& in, Tensor& out, const PlaneAttr& attr, bool transposed) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  for (const ResampleAttr* axis : {&attr.h, &attr.w}) {
    // Bounds the extents before they are multiplied below.
    if (std::max(axis->in_extent, axis->out_extent) > kTableWeights) return false;
    if (axis->out_extent * resampling::most_columns(*axis, false) > kTableWeights) return false;
    if (transposed && axis->in_extent * resampling::most_columns(*axis, true) > kTableWeights) return false;
  }
  const std::int64_t in_plane = attr.h.in_extent * attr.w.in_extent, out_plane = attr.h.out_extent * attr.w.out_extent;
  if (in_plane >= kLimit || out_plane >= kLimit) return false;
  const std::int64_t planes = out.numel() / (transposed ? in_plane : out_plane);
  resampling::Tiling tiling;
  const auto element = static_cast<std::size_t>(element_size(in.dtype()));
  if (!resampling::plan_tiles(attr.h, attr.w, transposed, element, planes, tiling)) return false;
  const std::int64_t a_plane = std::int64_t{tiling.across.divisor()} * tiling.down.divisor();
  if (planes >= kLimit / a_plane) return false;
  const auto pack_bytes = static_cast<std::uintptr_t>(resampling::kPack * element_size(out.dtype()));
  tiling.packs =
      tiling.to_width % resampling::kPack == 0 && reinterpret_cast<std::uintptr_t>(out.raw_data()) % pack_bytes == 0;
  visit_floating(in.dtype(), [&]<class T>() { run_tiles<T>(in, out, attr, transposed, tiling, planes * a_plane); });
  return true;
}

}  // namespace adjoint::cuda
