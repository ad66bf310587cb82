// grid_sample on the CPU.
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/grid/kernels.h>
#include <adjoint/ops/index/kernels.h>

#include <algorithm>

namespace adjoint::cpu {
namespace {

// point(n, p)
template <class F>
void for_each_point(const GridAttr& attr, std::int64_t work, const F& point) {
  constexpr std::int64_t kGrain = 16384;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, work));
  parallel_ranges(attr.batch * attr.points(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) point(i / attr.points(), i % attr.points());
  });
}

}  // namespace

void grid_sample(std::span<const Tensor> in, Tensor& out, const GridAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    using A = compute_t<T>;
    const T *const image = in[0].data<T>(), *const numbers = in[1].data<T>();
    T* const result = out.mutable_data<T>();
    grid::with_taps(attr, [&]<int kTaps, int kAxes>() {
      for_each_point(attr, attr.channels * kTaps * kTaps, [&](std::int64_t n, std::int64_t p) {
        T* const to = result + n * attr.channels * attr.points() + p;
        grid::sample<A, kTaps, kAxes, 1>(attr, image + n * attr.channels * attr.pixels(), attr.channels,
                                         numbers + kAxes * (n * attr.points() + p),
                                         [&](std::int64_t c, A sum) { to[c * attr.points()] = convert<T>(sum); });
      });
    });
  });
}

void grid_taps(std::span<const Tensor> in, std::span<Tensor> out, const GridAttr& attr) {
  const auto run = [&]<class A>(A) {
    const A* const numbers = in[0].data<A>();
    A *const fraction = out[0].mutable_data<A>(), *const slope = out[1].mutable_data<A>();
    auto* const index = out[2].mutable_data<std::int64_t>();
    for_each_point(attr, attr.taps() * attr.taps(), [&](std::int64_t n, std::int64_t p) {
      grid::write_taps(attr, numbers + attr.axes * (n * attr.points() + p), n, p, kNowhere, fraction, slope, index);
    });
  };
  in[0].dtype() == kFloat64 ? run(double{}) : run(float{});
}

}  // namespace adjoint::cpu
