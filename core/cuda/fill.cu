// Fills, sequences and random numbers on CUDA devices.

#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/philox.h>
#include <adjoint/core/cuda/elementwise.cuh>

namespace adjoint::cuda {
namespace {

template <class T>
struct Constant {
  T value;
  __device__ T operator()() const { return value; }
};

template <class T>
struct Sequence {
  double start, step;
  __device__ T operator()(std::int64_t i) const { return convert<T>(fma(static_cast<double>(i), step, start)); }
};

// A thread draws one block: two neighbouring elements.
template <class Number, class T>
__global__ void __launch_bounds__(detail::kElementwiseThreads)
    draw(Number number, philox::Position at, std::int64_t numel, T* out) {
  const std::uint64_t first = at.base == nullptr ? at.offset : at.offset + *at.base;
  const std::int64_t step = std::int64_t{gridDim.x} * detail::kElementwiseThreads;
  for (std::int64_t b = std::int64_t{blockIdx.x} * detail::kElementwiseThreads + threadIdx.x; 2 * b < numel;
       b += step) {
    const philox::Block block = philox::generate(at.seed, first + static_cast<std::uint64_t>(b));
    out[2 * b] = number(block, 0);
    if (2 * b + 1 < numel) out[2 * b + 1] = number(block, 1);
  }
}

template <class T, class Number>
void fill_random(Tensor& dst, const philox::Position& at, const Number& number) {
  const int device = dst.device().index;
  launch(draw<Number, T>, detail::elementwise_geometry((dst.numel() + 1) / 2, device), device, number, at, dst.numel(),
         static_cast<T*>(dst.raw_mutable_data()));
}

}  // namespace

void fill(Tensor& dst, double value) {
  visit(dst.dtype(), [&]<class T>() { elementwise<T()>(Constant<T>{convert<T>(value)}, dst); });
}

void arange(Tensor& dst, double start, double step) {
  visit(dst.dtype(), [&]<class T>() { generate<T>(Sequence<T>{start, step}, dst); });
}

void fill_uniform(Tensor& dst, double low, double high, const philox::Position& at) {
  visit_floating(dst.dtype(), [&]<class T>() { fill_random<T>(dst, at, philox::Uniform<T>(low, high)); });
}

void fill_integers(Tensor& dst, std::int64_t low, std::int64_t high, const philox::Position& at) {
  visit(dst.dtype(), [&]<class T>() { fill_random<T>(dst, at, philox::Integers<T>(low, high)); });
}

void fill_normal(Tensor& dst, double mean, double standard_deviation, const philox::Position& at) {
  visit_floating(dst.dtype(), [&]<class T>() { fill_random<T>(dst, at, philox::Normal<T>(mean, standard_deviation)); });
}

}  // namespace adjoint::cuda
