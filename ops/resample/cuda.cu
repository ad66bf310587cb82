// Resampling on CUDA: one kernel tabulates the band, another forms one element of the result a thread, in a fixed
// order.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/resample/kernels.h>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 256;

LaunchGeometry one_thread_each(std::int64_t count) {
  return {.grid = dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)), .block = dim3(kThreads)};
}

/// weights (out_extent, taps)
template <class T>
__global__ void tabulate_weights(ResampleAttr attr, std::int64_t taps, T* weights) {
  const std::int64_t o = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (o < attr.out_extent) band::weights_of(attr, o, weights + o * taps);
}

/// Element `index` of (outer, extent, inner) as a line's first element in (outer, other_extent, inner), and its place.
struct Place {
  std::int64_t line, at;
};
__device__ Place place_of(std::int64_t index, std::int64_t extent, std::int64_t other_extent, std::int64_t inner) {
  const std::int64_t outer = index / (extent * inner), rest = index % (extent * inner);
  return {outer * other_extent * inner + rest % inner, rest / inner};
}

template <class T>
__global__ void resample_elements(ResampleAttr attr, std::int64_t taps, std::int64_t inner, std::int64_t count,
                                  const T* __restrict__ weights, const T* __restrict__ in, T* __restrict__ out) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= count) return;
  const Place place = place_of(index, attr.out_extent, attr.in_extent, inner);
  const band::Run run = band::run_of(attr, place.at);
  T sum = T(0);
  for (std::int64_t i = run.start; i < run.end; ++i) {
    sum += weights[place.at * taps + i - run.start] * in[place.line + i * inner];
  }
  out[index] = sum;
}

template <class T>
__global__ void resample_adjoint_elements(ResampleAttr attr, std::int64_t taps, std::int64_t inner, std::int64_t count,
                                          const T* __restrict__ weights, const T* __restrict__ in,
                                          T* __restrict__ out) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= count) return;
  const Place place = place_of(index, attr.in_extent, attr.out_extent, inner);
  const band::Run users = band::users_of(attr, place.at);
  T sum = T(0);
  for (std::int64_t o = users.start; o < users.end; ++o) {
    sum += weights[o * taps + place.at - band::run_of(attr, o).start] * in[place.line + o * inner];
  }
  out[index] = sum;
}

template <class T>
void run(bool transposed, const Tensor& in, Tensor& out, const ResampleAttr& attr) {
  const int device = in.device().index;
  const std::int64_t taps = band::max_taps(attr);
  const std::int64_t inner = attr.axis == -1 ? 1 : in.size(-1);
  const Workspace workspace(static_cast<std::size_t>(attr.out_extent * taps) * sizeof(T), device);
  T* weights = static_cast<T*>(workspace.data());
  launch(tabulate_weights<T>, one_thread_each(attr.out_extent), device, attr, taps, weights);
  launch(transposed ? resample_adjoint_elements<T> : resample_elements<T>, one_thread_each(out.numel()), device, attr,
         taps, inner, out.numel(), static_cast<const T*>(weights), in.data<T>(), out.mutable_data<T>());
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
