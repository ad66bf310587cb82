// grid_sample on CUDA: each thread computes a point of the result's plane, for some of the channels.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/grid/kernels.h>
#include <adjoint/ops/index/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>
#include <adjoint/core/cuda/rows.cuh>

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

/// The number of channels for which a thread computes a point's taps once. All points read the channels of one part
/// before those of the next, so that fewer planes are in use at a time.
constexpr std::int64_t kChannelsAThread = 16;

/// Items are (image, part of its channels, point).
struct Items {
  std::int64_t count, parts;
  RowSplit by_points, by_parts;
};
Items items_of(const GridAttr& attr) {
  const std::int64_t parts = (attr.channels - 1) / kChannelsAThread + 1, count = attr.batch * parts * attr.points();
  return {count, parts, RowSplit(attr.points(), count), RowSplit(parts, count)};
}

template <class T, int kTaps, int kAxes>
__global__ void __launch_bounds__(kThreads) sample_points(GridAttr attr, Items items, const T* __restrict__ image,
                                                          const T* __restrict__ numbers, T* __restrict__ result) {
  using A = compute_t<T>;
  constexpr int kGroup = kTaps == kMostTaps ? 1 : 4;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads, size = attr.pixels();
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < items.count; i += step) {
    std::int64_t p = i, part = items.by_points(p);  // becomes the point, then the part of image n
    const std::int64_t n = items.by_parts(part), first = part * kChannelsAThread;
    const std::int64_t rest = attr.channels - first, channels = rest < kChannelsAThread ? rest : kChannelsAThread;
    T* const to = result + (n * attr.channels + first) * attr.points() + p;
    grid::sample<A, kTaps, kAxes, kGroup>(attr, image + (n * attr.channels + first) * size, channels,
                                          numbers + kAxes * (n * attr.points() + p),
                                          [&](std::int64_t c, A sum) { to[c * attr.points()] = convert<T>(sum); });
  }
}

template <class A>
__global__ void __launch_bounds__(kThreads)
    taps_of_points(GridAttr attr, const A* __restrict__ numbers, A* __restrict__ fraction, A* __restrict__ slope,
                   std::int64_t* __restrict__ index) {
  for_each_point(attr, [&](std::int64_t n, std::int64_t p) {
    grid::write_taps(attr, numbers + attr.axes * (n * attr.points() + p), n, p, kNowhere, fraction, slope, index);
  });
}

}  // namespace

void grid_sample(std::span<const Tensor> in, Tensor& out, const GridAttr& attr) {
  const int device = out.device().index;
  const Items items = items_of(attr);
  visit_floating(out.dtype(), [&]<class T>() {
    grid::with_taps(attr, [&]<int kTaps, int kAxes>() {
      launch(sample_points<T, kTaps, kAxes>, detail::elementwise_geometry(items.count, device), device, attr, items,
             in[0].data<T>(), in[1].data<T>(), out.mutable_data<T>());
    });
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
