// Normalisation of tensors whose channels are neighbours in memory. For .cu files.
#pragma once

#include <adjoint/ops/norm/cuda/columns.cuh>
#include <adjoint/ops/norm/cuda/held_normalize.cuh>

namespace adjoint::cuda::norm {

// out: a block's moments of (chunks of samples, channels).
template <class T, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    norm_column_moments(const __grid_constant__ Norm<T> norm, const __grid_constant__ Columns columns,
                        reduce::Moments<compute_t<T>>* out) {
  using A = compute_t<T>;
  using M = reduce::Moments<A>;
  constexpr int kV = kPack<T>;
  const ColumnPlace<T, kWhole> place(columns);
  A count{0}, pivot[kV] = {}, sum[kV] = {}, squares[kV] = {};
  for_each_position<4>(
      columns, place, [&](const auto& span) { return norm.load(norm.x, span); },
      [&](const auto&, const Pack<T, kV>& loaded) {
        A x[kV];
        norm.widen(loaded, x);
#pragma unroll
        for (int v = 0; v < kV; ++v) {
          if (count == A{0}) pivot[v] = x[v];
          const A distance = x[v] - pivot[v];
          sum[v] += distance;
          squares[v] += distance * distance;
        }
        count += A{1};
      });
  M moments[kV] = {};
  if (count > A{0}) {
#pragma unroll
    for (int v = 0; v < kV; ++v) moments[v] = reduce::moments_about(count, pivot[v], sum[v], squares[v]);
  }
  combine_rows(columns, place, moments, [](const M& a, const M& b) { return reduce::merge(a, b); });
  if (!place.active || place.row > 0) return;
#pragma unroll
  for (int v = 0; v < kV; ++v) {
    if (place.has(v)) out[place.block * columns.channels + place.channel + v] = moments[v];
  }
}

template <class T, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    norm_columns(const __grid_constant__ Norm<T> norm, const __grid_constant__ Columns columns, T* y) {
  using A = compute_t<T>;
  constexpr int kV = kPack<T>;
  const ColumnPlace<T, kWhole> place(columns);
  A of[kColumnFields][kV];
  find_columns(columns, place, of, [&](std::int64_t channel, A(&own)[kColumnFields]) {
    find_affine(norm, columns, place.sample, channel, own);
  });
  for_each_position<4>(
      columns, place, [&](const auto& span) { return norm.load(norm.x, span); },
      [&](const auto& span, const Pack<T, kV>& loaded) {
        A centred[kV], z[kV];
        find_z(norm, of, loaded, centred, z);
        add_residual(norm, span, z);
        norm.activate(z);
        norm.store(y, span, z);
      });
}

// ---- On the host.

template <class T>
void run_columns(const Norm<T>& of_rows, const NormAttr& attr, Tensor& statistics, int device, T* y) {
  using M = reduce::Moments<compute_t<T>>;
  const Norm<T> norm = by_column(of_rows, attr);
  const Columns columns = columns_of<T>(attr);
  with_whole(is_whole(norm, columns), [&]<bool kWhole>() {
    if (!attr.given) {
      const Columns of_pivots = columns_of<T>(attr, kMostOfPivot);
      Tensor parts = make_array<M>(of_pivots.samples * of_pivots.chunks * of_pivots.channels, statistics);
      launch(norm_column_moments<T, kWhole>, of_pivots.geometry(), device, norm, of_pivots, array<M>(parts));
      run_reduce_stages(MomentsToStatistics<compute_t<T>>{}, Elements<M>{array<M>(parts)}, statistics,
                        reduction({of_pivots.samples, of_pivots.chunks, of_pivots.groups, of_pivots.depth}, 0b1010));
    }
    launch(norm_columns<T, kWhole>, columns.geometry(), device, norm, columns, y);
  });
}

}  // namespace adjoint::cuda::norm
