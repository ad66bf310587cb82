// Updates of running statistics for one channel, for host and device alike.
#pragma once

#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/norm/kernels.h>

namespace adjoint {

/// T: the type of the running statistics, A: the type in which statistics are computed.
template <class T, class A>
struct Follow {
  const Statistics<A>* batch;  // (samples, channels)
  std::int64_t samples, channels;
  compute_t<T> momentum, variance_momentum, kept;

  Follow(const Tensor& statistics, const FollowAttr& attr)
      : batch(reinterpret_cast<const Statistics<A>*>(statistics.data<A>())),
        samples(statistics.size(0)),
        channels(statistics.size(1)),
        momentum(static_cast<compute_t<T>>(attr.momentum)),
        variance_momentum(static_cast<compute_t<T>>(attr.variance_momentum)),
        kept(static_cast<compute_t<T>>(1.0 - attr.momentum)) {}

  ADJOINT_HD void operator()(std::int64_t c, const T* mean_from, const T* variance_from, T* mean, T* variance) const {
    using C = compute_t<T>;
    C means{0}, variances{0};
    for (std::int64_t n = 0; n < samples; ++n) {
      means += static_cast<C>(batch[n * channels + c].mean);
      variances += static_cast<C>(batch[n * channels + c].variance);
    }
    const C count = static_cast<C>(samples);
    mean[c] = convert<T>(kept * convert<C>(mean_from[c]) + momentum * (means / count));
    variance[c] = convert<T>(kept * convert<C>(variance_from[c]) + variance_momentum * (variances / count));
  }
};

/// f.operator()<T, A>() for the dtypes of running and of other statistics.
template <class F>
void visit_statistics(DType running, DType statistics, F&& f) {
  visit_floating(running, [&]<class T>() {
    statistics == kFloat64 ? f.template operator()<T, double>() : f.template operator()<T, float>();
  });
}

}  // namespace adjoint
