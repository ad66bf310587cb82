// The part of a span that gradients of normalisation read, the values that a thread computes from it, and the sums that
// the gradients of x and of the channels need. For .cu files.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/cuda/lanes.cuh>
#include <adjoint/ops/norm/cuda/rows.cuh>

namespace adjoint::cuda::norm {

template <class A>
struct Sums {
  A plain, normal;
};

template <class A>
struct AddSums {
  using Acc = Sums<A>;
  using Out = Sums<A>;
  ADJOINT_HD Acc identity() const { return {A{0}, A{0}}; }
  ADJOINT_HD Acc combine(Acc a, Acc b) const { return {a.plain + b.plain, a.normal + b.normal}; }
  ADJOINT_HD Acc add(Acc a, Acc b) const { return combine(a, b); }
  ADJOINT_HD Acc close(Acc acc) const { return acc; }
  ADJOINT_HD Out finish(Acc acc) const { return acc; }
};

template <class A>
__device__ Sums<A> add_lanes(const Sums<A>& sums, int lanes) {
  return combine_lanes<kThreads>(sums, lanes, [](Sums<A> a, Sums<A> b) { return AddSums<A>{}.combine(a, b); });
}

// Sums of (channels, chunks) over a row, times the channel's weight.
template <class T>
struct WeightedSums {
  using A = compute_t<T>;
  using In = Sums<A>;
  const Sums<A>* data;
  ChannelNumbers<T> weight;
  std::int64_t chunks, channels;

  __device__ In load(std::int64_t i) const { return data[i]; }
  __device__ Sums<A> value(In in, std::int64_t i) const {
    if (weight.data == nullptr) return in;
    const A by = weight[i / chunks % channels];
    return {in.plain * by, in.normal * by};
  }
};

// The values of a span that gradients read.
template <class T>
struct Loaded {
  Pack<T, kPack<T>> x, grad;
};
template <class T, bool kWhole>
__device__ Loaded<T> load(const Norm<T>& norm, const T* grad, const Span<kPack<T>, kWhole>& span) {
  return {norm.load(norm.x, span), norm.load(grad, span)};
}

// The values that a thread computes from a span.
template <class T>
struct GradientSpan {
  using A = compute_t<T>;
  static constexpr int kV = kPack<T>;
  A normal[kV], dz[kV];

  // For no activation.
  __device__ void set(const Norm<T>& norm, const Loaded<T>& loaded, const Statistics<A>& statistics, A rstd) {
    norm.widen(loaded.x, normal);
    norm.widen(loaded.grad, dz);
#pragma unroll
    for (int v = 0; v < kV; ++v) normal[v] = norm.normal(normal[v], statistics, rstd);
  }
  template <bool kWhole>
  __device__ void set(const Norm<T>& norm, const Loaded<T>& loaded, const Span<kV, kWhole>& span, const Line<A>& line,
                      const Statistics<A>& statistics, A rstd, const A (&weight)[kV]) {
    set(norm, loaded, statistics, rstd);
    if (norm.slope.is_none()) return;
    A z[kV], more[kV];
    norm.load_biases(line, span, more);
#pragma unroll
    for (int v = 0; v < kV; ++v) z[v] = normal[v] * weight[v] + more[v];
    if (norm.residual != nullptr) {
      norm.widen(norm.load(norm.residual, span), more);
#pragma unroll
      for (int v = 0; v < kV; ++v) z[v] += more[v];
    }
    norm.slope(dz, z);
  }
  // Each value times its weight.
  template <bool kWhole>
  __device__ void add_to(Sums<A>& sums, const Span<kV, kWhole>& span, const A (&weight)[kV]) const {
#pragma unroll
    for (int v = 0; v < kV; ++v) {
      if (!span.has(v)) continue;
      const A h = dz[v] * weight[v];
      sums.plain += h;
      sums.normal += h * normal[v];
    }
  }
  // Overwrites dz with x's gradient.
  __device__ void finish(const Sums<A>& means, A rstd, const A (&weight)[kV]) {
#pragma unroll
    for (int v = 0; v < kV; ++v) dz[v] = rstd * (dz[v] * weight[v] - means.plain - normal[v] * means.normal);
  }
};

}  // namespace adjoint::cuda::norm
