// Losses on the CPU. Sums run over kLanes lanes in blocks, whose totals add up in float64, so that neither the number
// of threads nor a long sum costs accuracy.
#include <adjoint/core/convert.h>
#include <adjoint/core/parallel.h>
#include <adjoint/ops/loss/kernels.h>

#include <algorithm>
#include <vector>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kBlock = 512;
constexpr std::int64_t kGrain = 32768;

template <class Term, class T>
double sum_range(const T* a, const T* b, std::int64_t begin, std::int64_t end) {
  using C = compute_t<T>;
  const auto term = [&](std::int64_t i) { return Term::value(convert<C>(a[i]) - convert<C>(b[i])); };
  double total = 0.0;
  for (std::int64_t first = begin; first < end; first += kBlock) {
    const std::int64_t last = std::min(first + kBlock, end);
    C lanes[kLanes] = {};
    std::int64_t i = first;
    for (; i + kLanes <= last; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
    }
    for (std::int64_t lane = 0; i < last; ++i, ++lane) lanes[lane] += term(i);
    for (const C lane : lanes) total += static_cast<double>(lane);
  }
  return total;
}

}  // namespace

template <class Term>
void loss_value(std::span<const Tensor> in, Tensor& out, const LossAttr& attr) {
  const std::int64_t numel = in[0].numel();
  visit_floating(out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T *a = in[0].data<T>(), *b = in[1].data<T>();
    T* result = out.mutable_data<T>();
    if (!attr.reduced) {
      parallel_ranges(numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          result[i] = convert<T>(Term::value(convert<C>(a[i]) - convert<C>(b[i])));
        }
      });
      return;
    }
    std::vector<double> sums(static_cast<std::size_t>((numel + kGrain - 1) / kGrain));
    parallel_ranges(numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
      sums[static_cast<std::size_t>(begin / kGrain)] = sum_range<Term>(a, b, begin, end);
    });
    double total = 0.0;
    for (const double sum : sums) total += sum;
    *result = convert<T>(total * attr.scale);
  });
}

template <class Term>
void loss_slope(std::span<const Tensor> in, Tensor& out, const LossAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T *a = in[0].data<T>(), *b = in[1].data<T>(), *g = in[2].data<T>();
    T* result = out.mutable_data<T>();
    const C scale = static_cast<C>(attr.scale);
    const auto slope = [&](std::int64_t i, C factor) {
      return convert<T>(Term::slope(convert<C>(a[i]) - convert<C>(b[i]), factor));
    };
    parallel_ranges(out.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      if (attr.reduced) {
        const C factor = scale * convert<C>(g[0]);
        for (std::int64_t i = begin; i < end; ++i) result[i] = slope(i, factor);
      } else {
        for (std::int64_t i = begin; i < end; ++i) result[i] = slope(i, scale * convert<C>(g[i]));
      }
    });
  });
}

ADJOINT_INSTANTIATE_LOSSES

}  // namespace adjoint::cpu
