// Normalisation on CUDA: statistics, and y from them.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/ops/norm/cuda/rows.cuh>

#include <cmath>

namespace adjoint::cuda {
namespace {

using namespace norm;

template <class A>
struct MomentsToStatistics : reduce::KeepMoments<A> {
  using Out = Statistics<A>;
  ADJOINT_HD static Out finish(const reduce::Moments<A>& m) { return {m.mean, m.rest, m.m2 / m.count}; }
};

// The moments of elements begin to end in each lane. Pivots change after a few tens of elements (combine.h). Where the
// mean counts as 0, it is the pivot, and m2 the sum of squares.
template <class T>
__device__ reduce::Moments<compute_t<T>> moments_of(const Norm<T>& norm, std::int64_t begin, std::int64_t end,
                                                    const Place& place, int lanes) {
  using A = compute_t<T>;
  constexpr int kSpansOfAPivot = 32 / kPack<T>;
  reduce::Moments<A> all{};
  A count{0}, pivot{0}, sum{0}, squares{0};
  int spans = 0;
  const auto close = [&] {
    if (count == A{0}) return;
    all = reduce::merge(all, norm.centred ? reduce::moments_about(count, pivot, sum, squares)
                                          : reduce::Moments<A>{count, A{0}, A{0}, squares});
    count = sum = squares = A{0};
    spans = 0;
  };
  for_each_span<kPack<T>>(begin, end, place.lane, lanes, [&](const Span& span) {
    A values[kPack<T>];
    norm.load(norm.x, span, values);
#pragma unroll
    for (int v = 0; v < kPack<T>; ++v) {
      if (v < span.low || v >= span.high) continue;
      if (count == A{0} && norm.centred) pivot = values[v];
      const A distance = values[v] - pivot;
      sum += distance;
      squares += distance * distance;
      count += A{1};
    }
    if (++spans == kSpansOfAPivot) close();
  });
  close();
  return all;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    norm_moments(const __grid_constant__ Norm<T> norm, const __grid_constant__ Pieces pieces,
                 reduce::Moments<compute_t<T>>* out) {
  using Moments = reduce::Moments<compute_t<T>>;
  __shared__ Moments shared[kThreads];
  const Place place(pieces);
  const std::int64_t first = place.row * pieces.length;
  Moments moments{};
  if (place.active) moments = moments_of(norm, first + place.begin, first + place.end, place, pieces.lanes);
  moments = combine_lanes(moments, shared, pieces.lanes,
                          [](const Moments& a, const Moments& b) { return reduce::merge(a, b); });
  if (place.active && place.lane == 0) out[place.piece] = moments;
}

// kFinds: pieces are rows, whose statistics are found first, and stored.
template <class T, bool kFinds>
__global__ void __launch_bounds__(kThreads)
    norm_write(const __grid_constant__ Norm<T> norm, const __grid_constant__ Pieces pieces,
               Statistics<compute_t<T>>* found, T* y) {
  using A = compute_t<T>;
  using Moments = reduce::Moments<A>;
  constexpr int kV = kPack<T>;
  const Place place(pieces);
  const std::int64_t first = place.row * pieces.length;
  Statistics<A> statistics;
  if constexpr (kFinds) {
    __shared__ Moments shared[kThreads];
    Moments moments{};
    if (place.active) moments = moments_of(norm, first, first + pieces.length, place, pieces.lanes);
    moments = combine_lanes(moments, shared, pieces.lanes,
                            [](const Moments& a, const Moments& b) { return reduce::merge(a, b); });
    statistics = MomentsToStatistics<A>::finish(moments);
    if (place.active && place.lane == 0) found[place.row] = statistics;
  }
  if (!place.active) return;
  if constexpr (!kFinds) statistics = norm.of(place.row);
  const A rstd = norm.rstd(statistics);
  for_each_span<kV>(first + place.begin, first + place.end, place.lane, pieces.lanes, [&](const Span& span) {
    A z[kV], weight[kV], bias[kV];
    norm.load(norm.x, span, z);
    norm.load_channels(norm.weight, A{1}, span, place.row, first, weight);
    norm.load_channels(norm.bias, A{0}, span, place.row, first, bias);
#pragma unroll
    for (int v = 0; v < kV; ++v) z[v] = norm.normal(z[v], statistics, rstd) * weight[v] + bias[v];
    if (norm.residual != nullptr) {
      norm.load(norm.residual, span, bias);
#pragma unroll
      for (int v = 0; v < kV; ++v) z[v] += bias[v];
    }
    norm.activate(z);
    norm.store(y, span, z);
  });
}

template <class T>
void run_normalize(std::span<const Tensor> in, std::span<Tensor> out, const NormAttr& attr) {
  using A = compute_t<T>;
  const Tensor& x = in[0];
  const int device = x.device().index;
  const std::int64_t rows = attr.rows(), length = attr.row_length();
  T* const y = out[0].mutable_data<T>();
  Tensor statistics = attr.given ? in[4] : out[1];
  auto* const found = attr.given ? nullptr : array<Statistics<A>>(statistics);
  const auto norm = norm_of<T>(in, attr, static_cast<const Statistics<A>*>(statistics.raw_data()), aligned(out[0]));
  if (!attr.given && !attr.across && length <= kLongestRow) {
    const Pieces pieces = pieces_of<T>(rows, length, length);
    return launch(norm_write<T, true>, geometry_of(pieces), device, norm, pieces, found, y);
  }
  const Pieces pieces = pieces_of<T>(rows, length, kChunk);
  if (attr.across && !attr.given && length < kShortRun) {
    run_reduce_stages(MomentsToStatistics<A>{}, Elements<T>{norm.x}, statistics,
                      reduction({attr.samples, attr.groups, length}, 0b101));
  } else if (!attr.given) {
    Tensor parts = make_array<reduce::Moments<A>>(pieces.count, x);
    auto* const moments = array<reduce::Moments<A>>(parts);
    launch(norm_moments<T>, geometry_of(pieces), device, norm, pieces, moments);
    run_reduce_stages(MomentsToStatistics<A>{}, Elements<reduce::Moments<A>>{moments}, statistics,
                      attr.across ? reduction({attr.samples, attr.groups, pieces.chunks}, 0b101)
                                  : reduction({rows, pieces.chunks}, 0b10));
  }
  launch(norm_write<T, false>, geometry_of(pieces), device, norm, pieces, found, y);
}

}  // namespace

void normalize(std::span<const Tensor> in, std::span<Tensor> out, const NormAttr& attr) {
  if (in[0].numel() == 0) {
    if (attr.given) return;
    out[1].raw_mutable_data();
    return fill(out[1], std::nan(""));
  }
  visit_floating(in[0].dtype(), [&]<class T>() { run_normalize<T>(in, out, attr); });
}

}  // namespace adjoint::cuda
