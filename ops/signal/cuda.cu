// The kernels around cuFFT's transforms, overlapping sums and magnitudes, with one element of the result per thread.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/elementwise/scalar_math.h>
#include <adjoint/ops/signal/kernels.h>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 256;

LaunchGeometry one_thread_each(std::int64_t count) {
  return {.grid = dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)), .block = dim3(kThreads)};
}

template <class T>
struct alignas(2 * sizeof(T)) Bin {
  T real, imaginary;
};

// Bins [1, paired) have a conjugate in the other half; the others are real.
template <class T>
__global__ void weigh_each(std::int64_t count, std::int64_t bins, std::int64_t paired, T own, T shared,
                           const Bin<T>* from, Bin<T>* to) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= count) return;
  const std::int64_t k = index % bins;
  const Bin<T> bin = from[index];
  to[index] = k > 0 && k < paired ? Bin<T>{bin.real * shared, bin.imaginary * shared} : Bin<T>{bin.real * own, T(0)};
}

template <class T>
void weigh(const void* from, void* to, std::int64_t rows, std::int64_t n, double own, double shared, int device) {
  const std::int64_t bins = n / 2 + 1, count = rows * bins;
  launch(weigh_each<T>, one_thread_each(count), device, count, bins, (n + 1) / 2, static_cast<T>(own),
         static_cast<T>(shared), static_cast<const Bin<T>*>(from), static_cast<Bin<T>*>(to));
}

template <class T>
__global__ void add_frames(FrameAttr attr, std::int64_t frames, std::int64_t count, const T* __restrict__ in,
                           T* __restrict__ out) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= count) return;
  const std::int64_t row = index / attr.length, i = index % attr.length;
  const std::int64_t first = i < attr.size ? 0 : (i - attr.size) / attr.hop + 1;
  const std::int64_t last = i / attr.hop < frames ? i / attr.hop : frames - 1;
  T sum = T(0);
  for (std::int64_t t = first; t <= last; ++t) sum += in[(row * frames + t) * attr.size + i - t * attr.hop];
  out[index] = sum;
}

template <class T>
void add(const Tensor& in, Tensor& out, const FrameAttr& attr) {
  launch(add_frames<T>, one_thread_each(out.numel()), out.device().index, attr, attr.count(), out.numel(), in.data<T>(),
         out.mutable_data<T>());
}

template <class T>
__global__ void measure_each(std::int64_t count, bool squared, const T* __restrict__ in, T* __restrict__ out) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= count) return;
  const T real = in[2 * index], imaginary = in[2 * index + 1];
  out[index] = squared ? real * real + imaginary * imaginary : scalar::hypot(real, imaginary);
}

template <class T>
void measure(const Tensor& in, Tensor& out, bool squared) {
  launch(measure_each<T>, one_thread_each(out.numel()), out.device().index, out.numel(), squared, in.data<T>(),
         out.mutable_data<T>());
}

}  // namespace

void weigh_bins(DType dtype, const void* from, void* to, std::int64_t rows, std::int64_t n, double own, double shared,
                int device) {
  const auto run = dtype == kFloat64 ? weigh<double> : weigh<float>;
  run(from, to, rows, n, own, shared, device);
}

void overlap_add(std::span<const Tensor> in, Tensor& out, const FrameAttr& attr) {
  out.dtype() == kFloat64 ? add<double>(in[0], out, attr) : add<float>(in[0], out, attr);
}

void magnitudes(std::span<const Tensor> in, Tensor& out, const MagnitudeAttr& attr) {
  const auto run = out.dtype() == kFloat64 ? measure<double> : measure<float>;
  run(in[0], out, attr.squared);
}

}  // namespace adjoint::cuda
