// Normalisation on CUDA: statistics, and y from them.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/ops/norm/cuda/column_normalize.cuh>
#include <adjoint/ops/norm/cuda/held_normalize.cuh>

#include <cmath>
#include <type_traits>

namespace adjoint::cuda {
namespace {

using namespace norm;

// The moments of elements begin to end in each lane. Pivots change after a few tens of elements (combine.h). If the
// mean counts as 0, the pivot is 0, and m2 is the sum of squares.
template <bool kWhole, class T>
__device__ reduce::Moments<compute_t<T>> moments_of(const Norm<T>& norm, std::int64_t begin, std::int64_t end,
                                                    const Place& place, int lanes) {
  using A = compute_t<T>;
  constexpr int kV = kPack<T>, kSpansOfAPivot = 32 / kV, kAhead = std::min(kSpansOfAPivot, 8);
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
  for_each_span<kV, kWhole, kAhead>(
      begin, end, place.lane, lanes, [&](const auto& span) { return norm.load(norm.x, span); },
      [&](const auto& span, const Pack<T, kV>& loaded) {
        A values[kV];
        norm.widen(loaded, values);
        if (count == A{0} && norm.centred) {
          pivot = values[0];
          if (!span.full()) {
#pragma unroll
            for (int v = kV - 1; v >= 0; --v) pivot = span.has(v) ? values[v] : pivot;
          }
        }
        count += static_cast<A>(span.high - span.low);
#pragma unroll
        for (int v = 0; v < kV; ++v) {
          if (!span.has(v)) continue;
          const A distance = values[v] - pivot;
          sum += distance;
          squares += distance * distance;
        }
        ++spans;
      },
      [&] {
        if (spans >= kSpansOfAPivot) close();
      });
  close();
  return all;
}

template <class A>
__device__ reduce::Moments<A> merge_lanes(const reduce::Moments<A>& moments, int lanes) {
  return combine_lanes<kThreads>(moments, lanes, [](const reduce::Moments<A>& a, const reduce::Moments<A>& b) {
    return reduce::merge(a, b);
  });
}

template <class T, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    norm_moments(const __grid_constant__ Norm<T> norm, const __grid_constant__ Pieces pieces,
                 reduce::Moments<compute_t<T>>* out) {
  const Place place(pieces);
  const std::int64_t first = place.row * pieces.length;
  reduce::Moments<compute_t<T>> moments{};
  if (place.active) moments = moments_of<kWhole>(norm, first + place.begin, first + place.end, place, pieces.lanes);
  moments = merge_lanes(moments, pieces.lanes);
  if (place.active && place.lane == 0) out[place.piece] = moments;
}

// Turns distances of a span into y, in place.
template <class T, bool kWhole>
__device__ void finish(const Norm<T>& norm, const Span<kPack<T>, kWhole>& span, const Line<compute_t<T>>& line,
                       const Affine<compute_t<T>>& affine, compute_t<T> (&z)[kPack<T>]) {
  using A = compute_t<T>;
  constexpr int kV = kPack<T>;
#pragma unroll
  for (int v = 0; v < kV; ++v) z[v] = z[v] * affine.scale + affine.shift;
  if (norm.depth != 1) norm.weigh(line, span, z);
  if (norm.residual != nullptr) {
    A more[kV];
    norm.widen(norm.load(norm.residual, span), more);
#pragma unroll
    for (int v = 0; v < kV; ++v) z[v] += more[v];
  }
  norm.activate(z);
}

// kFinds: pieces are rows, whose statistics are computed first, and stored. Blocks per multiprocessor: 0 sets no
// minimum, while 1 would let a thread use more registers.
template <class T, bool kFinds, bool kWhole>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 2 ? 3 : 0)
    norm_write(const __grid_constant__ Norm<T> norm, const __grid_constant__ Pieces pieces,
               Statistics<compute_t<T>>* found, T* y) {
  using A = compute_t<T>;
  constexpr int kV = kPack<T>;
  const Place place(pieces);
  const std::int64_t first = place.row * pieces.length;
  Statistics<A> statistics;
  if constexpr (kFinds) {
    reduce::Moments<A> moments{};
    if (place.active) moments = moments_of<kWhole>(norm, first, first + pieces.length, place, pieces.lanes);
    moments = merge_lanes(moments, pieces.lanes);
    statistics = MomentsToStatistics<A>::finish(moments);
    if (place.active && place.lane == 0) found[place.row] = statistics;
  }
  if (!place.active) return;
  if constexpr (!kFinds) statistics = norm.of(place.row);
  const Line<A> line = norm.line(place.row);
  const Affine<A> affine = norm.affine(-statistics.rest, statistics, line);
  for_each_span<kV, kWhole, kPacksPerThread>(
      first + place.begin, first + place.end, place.lane, pieces.lanes,
      [&](const auto& span) { return norm.load(norm.x, span); },
      [&](const auto& span, const Pack<T, kV>& loaded) {
        A z[kV];
        norm.widen(loaded, z);
#pragma unroll
        for (int v = 0; v < kV; ++v) z[v] -= statistics.mean;
        finish(norm, span, line, affine, z);
        norm.store(y, span, z);
      });
}

// A piece is a row of whole, aligned packs that its lanes can hold, and so are its channels: it is read once.
template <class T, int kPacks>
__global__ void __launch_bounds__(kThreads, 3)
    norm_held(const __grid_constant__ Norm<T> norm, const __grid_constant__ Pieces pieces,
              Statistics<compute_t<T>>* found, T* y) {
  using A = compute_t<T>;
  constexpr int kV = kPack<T>;
  struct Parts {
    A sum, squares;
  };
  const Place place(pieces);
  const std::int64_t first = place.row * pieces.length;
  const int length = static_cast<int>(pieces.length);
  const auto at = [&](int p) { return (p * pieces.lanes + place.lane) * kV; };
  const auto holds = [&](int p) { return place.active && at(p) < length; };
  const auto span = [&](int p) { return Span<kV, true>{first + at(p)}; };
  Pack<T, kV> loaded[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (holds(p)) loaded[p] = norm.load(norm.x, span(p));
  }
  A x[kPacks][kV];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) norm.widen(loaded[p], x[p]);
  const A count = static_cast<A>(pieces.length);
  const auto each = [&](const auto& f) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (!holds(p)) continue;
#pragma unroll
      for (int v = 0; v < kV; ++v) f(x[p][v]);
    }
  };
  // Numbers become distances from their mean. The mean is computed relative to one of them, and moments relative to the
  // mean, which also recovers the mean's rounding error. For 16-bit numbers float32's rounding is far below their own.
  constexpr bool kIsShort = is_reduced_float<T>;
  A pivot{0};
  if (norm.centred) {
    const A origin = kIsShort || !place.active ? A{0} : convert<A>(norm.x[first]);
    A sum{0};
    each([&](A value) { sum += kIsShort ? value : value - origin; });
    pivot = origin + combine_lanes<kThreads>(sum, pieces.lanes, [](A a, A b) { return a + b; }) / count;
    each([&](A& value) { value -= pivot; });
  }
  Statistics<A> statistics;
  if (kIsShort || !norm.centred) {
    A squares{0};
    each([&](A value) { squares += value * value; });
    squares = combine_lanes<kThreads>(squares, pieces.lanes, [](A a, A b) { return a + b; });
    statistics = {pivot, A{0}, squares / count};
  } else {
    Parts parts{A{0}, A{0}};
    each([&](A value) {
      parts.sum += value;
      parts.squares += value * value;
    });
    parts = combine_lanes<kThreads>(parts, pieces.lanes, [](const Parts& a, const Parts& b) {
      return Parts{a.sum + b.sum, a.squares + b.squares};
    });
    statistics = MomentsToStatistics<A>::finish(reduce::moments_about(count, pivot, parts.sum, parts.squares));
  }
  if (place.active && place.lane == 0) found[place.row] = statistics;
  if (!place.active) return;
  const Line<A> line = norm.line(place.row);
  const Affine<A> affine = norm.affine((pivot - statistics.mean) - statistics.rest, statistics, line);
  // Loads all before the first store, because a store might change values that are loaded after it.
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (holds(p)) finish(norm, span(p), line, affine, x[p]);
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (holds(p)) norm.store(y, span(p), x[p]);
  }
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
  if (attr.channels_last) return run_columns(norm, attr, statistics, device, y);
  HeldRows held;
  constexpr std::int64_t kMostRowsAThread = 8;  // faster than 16 or 64 (bench/lab/LOG.md)
  const int held_packs = norm.residual != nullptr ? 0 : plan_held(norm, attr, kMostRowsAThread, held);
  if (held_packs > 0) {
    if constexpr (!std::is_same_v<T, double>) return run_walk(norm, held, held_packs, device, found, y);
  }
  if (!attr.given && !attr.across && length <= kLongestRow) {
    const Pieces pieces = pieces_of<T>(rows, length, length);
    const bool whole = is_whole(norm, length);
    if (whole && length <= std::int64_t{pieces.lanes} * kPacksPerThread * kPack<T>) {
      return launch(norm_held<T, kPacksPerThread>, geometry_of(pieces), device, norm, pieces, found, y);
    }
    return with_whole(whole, [&]<bool kWhole>() {
      launch(norm_write<T, true, kWhole>, geometry_of(pieces), device, norm, pieces, found, y);
    });
  }
  const Pieces pieces = chunks_of<T>(rows, length);
  if (attr.across && !attr.given && length < kShortRun) {
    run_reduce_stages(MomentsToStatistics<A>{}, Elements<T>{norm.x}, statistics,
                      reduction({attr.samples, attr.groups, length}, 0b101));
  } else if (!attr.given) {
    Tensor parts = make_array<reduce::Moments<A>>(pieces.count, x);
    auto* const moments = array<reduce::Moments<A>>(parts);
    with_whole(is_whole(norm, length), [&]<bool kWhole>() {
      launch(norm_moments<T, kWhole>, geometry_of(pieces), device, norm, pieces, moments);
    });
    run_reduce_stages(MomentsToStatistics<A>{}, Elements<reduce::Moments<A>>{moments}, statistics,
                      attr.across ? reduction({attr.samples, attr.groups, pieces.chunks}, 0b101)
                                  : reduction({rows, pieces.chunks}, 0b10));
  }
  const bool long_runs = attr.inner >= kShortRun;
  const auto writing = long_runs ? by_run(norm, attr) : norm;
  const Pieces written = long_runs ? chunks_of<T>(attr.samples * attr.channels(), attr.inner) : pieces;
  with_whole(is_whole(writing, written.length), [&]<bool kWhole>() {
    launch(norm_write<T, false, kWhole>, geometry_of(written), device, writing, written, found, y);
  });
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
