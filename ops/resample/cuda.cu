// Resampling on CUDA: one kernel tabulates the band, another forms one element of the result a thread, in a fixed
// order. A long axis is resampled in blocks of outputs, so that the table does not grow with the result.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/resample/kernels.h>

#include <algorithm>

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

/// Element `index` of (outer, extent, inner): its place in outer x inner lines and along its line.
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

/// Adds the block's part to the inputs of `reached`; the first block's sums begin at 0.
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
  const std::int64_t inner = attr.axis == -1 ? 1 : in.size(-1);
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

void run(bool transposed, const Tensor& in, Tensor& out, const ResampleAttr& attr) {
  if (in.dtype() == kFloat64) {
    run<double>(transposed, in, out, attr);
  } else {
    run<float>(transposed, in, out, attr);
  }
}

}  // namespace

void resample(std::span<const Tensor> in, Tensor& out, const ResampleAttr& attr) { run(false, in[0], out, attr); }
void resample_adjoint(std::span<const Tensor> in, Tensor& out, const ResampleAttr& attr) {
  run(true, in[0], out, attr);
}

}  // namespace adjoint::cuda
