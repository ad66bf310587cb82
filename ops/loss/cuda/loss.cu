// Losses on CUDA. A sum is two launches: one block a chunk of elements, then one block for all chunks; the order of the
// sums depends on the number of elements alone.
#include <adjoint/core/convert.h>
#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/loss/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 8192;  // elements of a block

// The threads' values, summed by halves; the result is thread 0's.
__device__ double sum_of_block(double value) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

template <class Term, class T>
__global__ void __launch_bounds__(kThreads) sum_chunks(const T* a, const T* b, std::int64_t numel, double* partial) {
  using C = compute_t<T>;
  const std::int64_t begin = std::int64_t{blockIdx.x} * kChunk;
  const std::int64_t end = min(numel, begin + kChunk);
  C sum = C(0);
#pragma unroll 8
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    sum += Term::value(convert<C>(a[i]) - convert<C>(b[i]));
  }
  const double total = sum_of_block(static_cast<double>(sum));
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_partial(const double* partial, std::int64_t count, double scale, T* out) {
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += partial[i];
  const double total = sum_of_block(sum);
  if (threadIdx.x == 0) *out = convert<T>(total * scale);
}

template <class Term, class T>
struct Value {
  __device__ T operator()(T a, T b) const {
    return convert<T>(Term::value(convert<compute_t<T>>(a) - convert<compute_t<T>>(b)));
  }
};

// g is one number, on the device.
template <class Term, class T>
struct SlopeOfSum {
  const T* g;
  compute_t<T> scale;
  __device__ T operator()(T a, T b) const {
    using C = compute_t<T>;
    return convert<T>(Term::slope(convert<C>(a) - convert<C>(b), scale * convert<C>(*g)));
  }
};

template <class Term, class T>
struct Slope {
  compute_t<T> scale;
  __device__ T operator()(T a, T b, T g) const {
    using C = compute_t<T>;
    return convert<T>(Term::slope(convert<C>(a) - convert<C>(b), scale * convert<C>(g)));
  }
};

}  // namespace

template <class Term>
void loss_value(std::span<const Tensor> in, Tensor& out, const LossAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    if (!attr.reduced) return elementwise<T(T, T)>(Value<Term, T>{}, out, in[0], in[1]);
    const int device = out.device().index;
    const std::int64_t numel = in[0].numel();
    const std::int64_t chunks = (numel + kChunk - 1) / kChunk;
    const Workspace partial(static_cast<std::size_t>(std::max<std::int64_t>(chunks, 1)) * sizeof(double), device);
    auto* const sums = static_cast<double*>(partial.data());
    launch(sum_chunks<Term, T>, {dim3(static_cast<unsigned>(chunks)), dim3(kThreads)}, device, in[0].data<T>(),
           in[1].data<T>(), numel, sums);
    launch(sum_partial<T>, {dim3(1), dim3(kThreads)}, device, sums, chunks, attr.scale, out.mutable_data<T>());
  });
}

template <class Term>
void loss_slope(std::span<const Tensor> in, Tensor& out, const LossAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    const auto scale = static_cast<compute_t<T>>(attr.scale);
    if (attr.reduced) {
      elementwise<T(T, T)>(SlopeOfSum<Term, T>{in[2].data<T>(), scale}, out, in[0], in[1]);
    } else {
      elementwise<T(T, T, T)>(Slope<Term, T>{scale}, out, in[0], in[1], in[2]);
    }
  });
}

ADJOINT_INSTANTIATE_LOSSES

}  // namespace adjoint::cuda
