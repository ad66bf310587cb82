// cumsum on CUDA: a thread sums one of many neighbouring columns; otherwise a block sums a row, one piece at a time.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/scan/kernels.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 256, kPerThread = 4;
constexpr std::int64_t kManyColumns = 32;  // neighbours of which a warp reads one row

template <class T>
struct Types {
  using Result = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
  using Sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;  // integers wrap around
  __device__ static Sum widen(T x) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<Sum>(x);
    } else {
      return convert<Sum>(x);
    }
  }
  __device__ static Result round(Sum sum) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<Result>(sum);
    } else {
      return convert<Result>(sum);
    }
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    cumsum_columns(CumsumAttr attr, const T* in, typename Types<T>::Result* out) {
  const std::int64_t column = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= attr.outer * attr.inner) return;
  const std::int64_t first = column / attr.inner * attr.extent * attr.inner + column % attr.inner;
  typename Types<T>::Sum sum{};
  for (std::int64_t k = 0; k < attr.extent; ++k) {
    const std::int64_t i = first + (attr.reversed ? attr.extent - 1 - k : k) * attr.inner;
    sum += Types<T>::widen(in[i]);
    out[i] = Types<T>::round(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) cumsum_rows(CumsumAttr attr, const T* in, typename Types<T>::Result* out) {
  using Sum = typename Types<T>::Sum;
  __shared__ Sum shared[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t rows = attr.outer * attr.inner;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t first = row / attr.inner * attr.extent * attr.inner + row % attr.inner;
    const auto place = [&](std::int64_t k) { return first + (attr.reversed ? attr.extent - 1 - k : k) * attr.inner; };
    Sum before{};
    for (std::int64_t piece = 0; piece < attr.extent; piece += kThreads * kPerThread) {
      const std::int64_t from = piece + thread * kPerThread;
      Sum sums[kPerThread], sum{};
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        sum += from + i < attr.extent ? Types<T>::widen(in[place(from + i)]) : Sum{};
        sums[i] = sum;
      }
      shared[thread] = sum;
      __syncthreads();
      for (int distance = 1; distance < kThreads; distance *= 2) {  // Hillis, Steele
        const Sum left = thread >= distance ? shared[thread - distance] : Sum{};
        __syncthreads();
        shared[thread] += left;
        __syncthreads();
      }
      const Sum left = before + (thread > 0 ? shared[thread - 1] : Sum{});
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        if (from + i < attr.extent) out[place(from + i)] = Types<T>::round(left + sums[i]);
      }
      before += shared[kThreads - 1];
      __syncthreads();
    }
  }
}

}  // namespace

void cumsum(std::span<const Tensor> in, Tensor& out, const CumsumAttr& attr) {
  constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;
  const std::int64_t rows = attr.outer * attr.inner;
  visit(in[0].dtype(), [&]<class T>() {
    const T* data = in[0].data<T>();
    auto* const result = out.mutable_data<typename Types<T>::Result>();
    const bool columns = attr.inner >= kManyColumns;
    const std::int64_t blocks = columns ? (rows + kThreads - 1) / kThreads : std::min(rows, kMostBlocks);
    const LaunchGeometry geometry{dim3(static_cast<unsigned>(blocks)), dim3(kThreads)};
    launch(columns ? cumsum_columns<T> : cumsum_rows<T>, geometry, out.device().index, attr, data, result);
  });
}

}  // namespace adjoint::cuda
