// Means and variances on the CPU. A chunk, which stays in a core's cache, is added up twice: distances from its first
// row give a mean that is right up to rounding, and distances from that mean give the moments.
#include <adjoint/core/tensor/fill.h>
#include <adjoint/ops/elementwise/cpu/map.h>
#include <adjoint/ops/reduce/cpu/rescaled.h>
#include <adjoint/ops/reduce/cpu/stages.h>
#include <adjoint/ops/reduce/kernels.h>

#include <limits>
#include <utility>

namespace adjoint::cpu {
namespace {

// By column: the sum of distances from a pivot, and that of their squares.
template <class A>
struct Distances {
  A pivot[kMaxLanes], sums[2][kMaxLanes];
};

// Sums relative to columns' pivots; lanes and blocks as in sum_lanes.
template <class A, class T>
void sum_distances(const T* data, const Chunk& chunk, Distances<A>& distances) {
  const std::int64_t abreast = chunk.abreast, columns = chunk.columns, lanes = abreast * columns;
  A* const pivots = distances.pivot;
  auto& sums = distances.sums;
  A block[2][kMaxLanes];
  for (std::int64_t l = columns; l < lanes; ++l) pivots[l] = pivots[l - columns];
  for (auto& of : sums) std::fill(of, of + lanes, A{0});
  const auto add = [&](A(&to)[2][kMaxLanes], std::int64_t row, std::int64_t count) {
    const T* from = data + row * chunk.inner;
    for (std::int64_t l = 0; l < count; ++l) {
      const A distance = convert<A>(from[l]) - pivots[l];
      to[0][l] += distance;
      to[1][l] += distance * distance;
    }
  };
  std::int64_t row = 0;
  while (row + abreast <= chunk.rows) {
    for (auto& of : block) std::fill(of, of + lanes, A{0});
    for (std::int64_t s = 0; s < kBlockSteps && row + abreast <= chunk.rows; ++s, row += abreast) {
      add(block, row, lanes);
    }
    for (int k = 0; k < 2; ++k) {
      for (std::int64_t l = 0; l < lanes; ++l) sums[k][l] += block[k][l];
    }
  }
  add(sums, row, (chunk.rows - row) * columns);
  for (std::int64_t half = abreast / 2; half > 0; half /= 2) {
    for (auto& of : sums) {
      for (std::int64_t l = 0; l < half * columns; ++l) of[l] += of[half * columns + l];
    }
  }
}

// The same for one short row, as in sum_short_row.
template <class A, class T>
std::pair<A, A> sum_row_distances(const T* data, std::int64_t extent, A pivot) {
  A sums[kRowLanes] = {}, squares[kRowLanes] = {};
  const auto add = [&](std::int64_t l, T x) {
    const A distance = convert<A>(x) - pivot;
    sums[l] += distance;
    squares[l] += distance * distance;
  };
  std::int64_t i = 0;
  for (; i + kRowLanes <= extent; i += kRowLanes) {
#pragma GCC unroll 1
    for (std::int64_t l = 0; l < kRowLanes; ++l) add(l, data[i + l]);
  }
  for (std::int64_t l = 0; i < extent; ++i, ++l) add(l, data[i]);
  for (std::int64_t half = kRowLanes / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) {
      sums[l] += sums[half + l];
      squares[l] += squares[half + l];
    }
  }
  return {sums[0], squares[0]};
}

template <class A, class T>
void moments_of_chunk(const T* data, const Chunk& chunk, reduce::Moments<A>* moments) {
  const A rows = static_cast<A>(chunk.rows);
  if (chunk.inner == 1 && chunk.rows < kShortRow) {
    const A first = convert<A>(data[0]);
    const A mean = first + sum_row_distances(data, chunk.rows, first).first / rows;
    const auto [sum, squares] = sum_row_distances(data, chunk.rows, mean);
    moments[0] = reduce::moments_about(rows, mean, sum, squares);
    return;
  }
  Distances<A> distances;
  A* const pivot = distances.pivot;
  const auto& sums = distances.sums;
  for (std::int64_t l = 0; l < chunk.columns; ++l) pivot[l] = convert<A>(data[l]);
  sum_distances(data, chunk, distances);
  for (std::int64_t l = 0; l < chunk.columns; ++l) pivot[l] += sums[0][l] / rows;
  sum_distances(data, chunk, distances);
  for (std::int64_t l = 0; l < chunk.columns; ++l) {
    moments[l] = reduce::moments_about(rows, pivot[l], sums[0][l], sums[1][l]);
  }
}

template <class T, class Rule>
void reduce_moments(const Rule& rule, const Tensor& in, Tensor& out, const ReduceAttr& attr) {
  run_stages<T>(rule, in, out, attr, [](const T* data, const Chunk& chunk, typename Rule::Acc* sums) {
    moments_of_chunk<compute_t<T>, T>(data, chunk, sums);
  });
}

}  // namespace

void variance(std::span<const Tensor> in, Tensor& out, const VarianceAttr& attr) {
  const double divisor = attr.reduce.divisor;
  if (in[0].numel() == 0) return fill(out, 0.0 / divisor);
  visit_floating(in[0].dtype(), [&]<class T>() {
    reduce_moments<T>(reduce::Variance<compute_t<T>, T>(divisor, attr.root), in[0], out, attr.reduce);
  });
  if (attr.root) rescale_deviations(in[0], out, attr.reduce);
}

void mean_and_variance(std::span<const Tensor> in, std::span<Tensor> out, const VarianceAttr& attr) {
  if (in[0].numel() == 0) {
    fill(out[0], 0.0 / attr.reduce.divisor);
    return fill(out[1], std::numeric_limits<double>::quiet_NaN());
  }
  const Tensor of = moments(in[0], attr.reduce);
  visit_floating(in[0].dtype(), [&]<class T>() {
    using A = compute_t<T>;
    const reduce::Variance<A, T> rule(attr.reduce.divisor, attr.root);
    const auto* kept = static_cast<const reduce::Moments<A>*>(of.raw_data());
    T *variances = out[0].mutable_data<T>(), *means = out[1].mutable_data<T>();
    for (std::int64_t i = 0; i < out[0].numel(); ++i) {
      variances[i] = rule.finish(kept[i]);
      means[i] = convert<T>(kept[i].mean);
    }
  });
  if (attr.root) rescale_deviations(in[0], out[0], attr.reduce);
}

Tensor moments(const Tensor& in, const ReduceAttr& attr) {
  Tensor out;
  visit_floating(in.dtype(), [&]<class T>() {
    using A = compute_t<T>;
    out = make_tensor({Shape{result_numel(attr), reduce::kMomentsFields}, dtype_of<A>}, kCPU);
    reduce_moments<T>(reduce::KeepMoments<A>{}, in, out, attr);
  });
  return out;
}

namespace {

template <class T>
void centre_span(const void* const* in, void* out, std::int64_t n, const void* functor) {
  using A = compute_t<T>;
  const auto centred = *static_cast<const reduce::Centred<A, T>*>(functor);
  const auto* x = static_cast<const T*>(in[0]);
  const auto *mean = static_cast<const A*>(in[1]), *rest = static_cast<const A*>(in[2]);
  const auto* g = static_cast<const T*>(in[3]);
  auto* result = static_cast<T*>(out);
  ADJOINT_INDEPENDENT_ITERATIONS
  for (std::int64_t i = 0; i < n; ++i) result[i] = centred(x[i], mean[i], rest[i], g[i]);
}

}  // namespace

void centre(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  const Tensor of = moments(in[0], attr);
  const Tensor operands[] = {in[0], spread_field(of, attr, reduce::kMomentsFields, reduce::kMeanField),
                             spread_field(of, attr, reduce::kMomentsFields, reduce::kRestField),
                             spread_field(in[1], attr, 1, 0)};
  visit_floating(out.dtype(), [&]<class T>() {
    using A = compute_t<T>;
    const reduce::Centred<A, T> centred{static_cast<A>(2.0 / attr.divisor)};
    run_spans(operands, out, {centre_span<T>, &centred});
  });
}

}  // namespace adjoint::cpu
