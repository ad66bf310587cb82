// grid_sample on CUDA: a point of the result's plane a thread, through all channels.
#include <adjoint/core/convert.h>
#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/grid/kernels.h>
#include <adjoint/ops/index/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = detail::kElementwiseThreads;

// point(n, p)
template <class F>
__device__ void for_each_point(const GridAttr& attr, const F& point) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < attr.batch * attr.points(); i += step) {
    point(i / attr.points(), i % attr.points());
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    sample_points(GridAttr attr, const T* __restrict__ image, const T* __restrict__ numbers, T* __restrict__ result) {
  using A = compute_t<T>;
  for_each_point(attr, [&](std::int64_t n, std::int64_t p) {
    T* const to = result + n * attr.channels * attr.points() + p;
    grid::sample<A>(attr, image + n * attr.channels * attr.height * attr.width, numbers + 2 * (n * attr.points() + p),
                    [&](std::int64_t c, A sum) { to[c * attr.points()] = convert<T>(sum); });
  });
}

template <class A>
__global__ void __launch_bounds__(kThreads)
    taps_of_points(GridAttr attr, const A* __restrict__ numbers, A* __restrict__ fraction, A* __restrict__ slope,
                   std::int64_t* __restrict__ index) {
  for_each_point(attr, [&](std::int64_t n, std::int64_t p) {
    grid::write_taps(attr, numbers + 2 * (n * attr.points() + p), n, p, kNowhere, fraction, slope, index);
  });
}

}  // namespace

void grid_sample(std::span<const Tensor> in, Tensor& out, const GridAttr& attr) {
  const int device = out.device().index;
  visit_floating(out.dtype(), [&]<class T>() {
    launch(sample_points<T>, detail::elementwise_geometry(attr.batch * attr.points(), device), device, attr,
           in[0].data<T>(), in[1].data<T>(), out.mutable_data<T>());
  });
}

void grid_taps(std::span<const Tensor> in, std::span<Tensor> out, const GridAttr& attr) {
  const int device = in[0].device().index;
  const auto run = [&]<class A>(A) {
    launch(taps_of_points<A>, detail::elementwise_geometry(attr.batch * attr.points(), device), device, attr,
           in[0].data<A>(), out[0].mutable_data<A>(), out[1].mutable_data<A>(), out[2].mutable_data<std::int64_t>());
  };
  in[0].dtype() == kFloat64 ? run(double{}) : run(float{});
}

}  // namespace adjoint::cuda
