// The gradients of normalisation of tensors whose channels are neighbours in memory. For .cu files.
#pragma once

#include <adjoint/ops/norm/cuda/columns.cuh>
#include <adjoint/ops/norm/cuda/gradient_span.cuh>

namespace adjoint::cuda::norm {

// The distances from the mean of a span, and dz.
template <class T, bool kWhole, int kFields>
__device__ void find_dz(const Norm<T>& norm, const compute_t<T> (&of)[kFields][kPack<T>],
                        const Span<kPack<T>, kWhole>& span, const Loaded<T>& loaded, compute_t<T> (&centred)[kPack<T>],
                        compute_t<T> (&dz)[kPack<T>]) {
  compute_t<T> z[kPack<T>];
  find_z(norm, of, loaded.x, centred, z);
  norm.widen(loaded.grad, dz);
  if (norm.slope.is_none()) return;
  add_residual(norm, span, z);
  norm.slope(dz, z);
}

// out: a block's sums of (chunks of samples, channels).
template <class T, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    norm_column_sums(const __grid_constant__ Norm<T> norm, const __grid_constant__ Columns columns, const T* grad,
                     Sums<compute_t<T>>* out) {
  using A = compute_t<T>;
  using S = Sums<A>;
  constexpr int kV = kPack<T>, kRest = kColumnFields;
  const ColumnPlace<T, kWhole> place(columns);
  A of[kRest + 1][kV];
  find_columns(columns, place, of, [&](std::int64_t channel, A(&own)[kRest + 1]) {
    own[kRest] = find_affine(norm, columns, place.sample, channel, own).rest;
  });
  S sums[kV] = {};
  for_each_position<4>(
      columns, place, [&](const auto& span) { return load(norm, grad, span); },
      [&](const auto& span, const Loaded<T>& loaded) {
        A centred[kV], dz[kV];
        find_dz(norm, of, span, loaded, centred, dz);
#pragma unroll
        for (int v = 0; v < kV; ++v) {
          sums[v].plain += dz[v];
          sums[v].normal += dz[v] * (centred[v] - of[kRest][v]);
        }
      });
  combine_rows(columns, place, sums, [](const S& a, const S& b) { return AddSums<A>{}.combine(a, b); });
  if (!place.active || place.row > 0) return;
#pragma unroll
  for (int v = 0; v < kV; ++v) {
    if (!place.has(v)) continue;
    const std::int64_t channel = place.channel + v;
    const A rstd = norm.rstd(statistics_of(norm, columns, place.sample, channel));
    out[place.block * columns.channels + channel] = {sums[v].plain, sums[v].normal * rstd};
  }
}

// sums: those of the elements that share statistics: across samples one a channel, which must still be multiplied by
// the weight, else with each element times its weight. Null if statistics were given. count: the number of these
// elements. dx and dresidual: null if not needed.
template <class T, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    norm_column_gradients(const __grid_constant__ Norm<T> norm, const __grid_constant__ Columns columns, const T* grad,
                          const Sums<compute_t<T>>* sums, compute_t<T> count, T* dx, T* dresidual) {
  using A = compute_t<T>;
  // The means' part of dx is offset + along (x - mean).
  constexpr int kV = kPack<T>, kAlong = kColumnFields, kOffset = kAlong + 1;
  const ColumnPlace<T, kWhole> place(columns);
  A of[kOffset + 1][kV];
  find_columns(columns, place, of, [&](std::int64_t channel, A(&own)[kOffset + 1]) {
    const Statistics<A> s = find_affine(norm, columns, place.sample, channel, own);
    if (sums == nullptr) return;
    Sums<A> of_means = sums[norm.across ? channel : place.sample * columns.groups + quotient(channel, columns.depth)];
    if (norm.across) {
      const A weight = norm.line(channel).weight;
      of_means = {of_means.plain * weight, of_means.normal * weight};
    }
    const A rstd = norm.rstd(s);
    own[kAlong] = rstd * rstd * (of_means.normal / count);
    own[kOffset] = rstd * (of_means.plain / count) - own[kAlong] * s.rest;
  });
  for_each_position<4>(
      columns, place, [&](const auto& span) { return load(norm, grad, span); },
      [&](const auto& span, const Loaded<T>& loaded) {
        A centred[kV], dz[kV];
        find_dz(norm, of, span, loaded, centred, dz);
        if (dresidual != nullptr) norm.store(dresidual, span, dz);
        if (dx == nullptr) return;
#pragma unroll
        for (int v = 0; v < kV; ++v) {
          dz[v] = dz[v] * of[kScale][v] - of[kOffset][v] - centred[v] * of[kAlong][v];
        }
        norm.store(dx, span, dz);
      });
}

// ---- On the host.

// out: the gradients of x, weight, bias and residual.
template <class T>
void run_column_gradients(const Norm<T>& of_rows, const NormAttr& attr, int device, const T* grad,
                          std::span<Tensor> out) {
  using A = compute_t<T>;
  using S = Sums<A>;
  T *const dx = mutable_or_null<T>(out[0]), *const dresidual = mutable_or_null<T>(out[3]);
  const Norm<T> norm = by_column(of_rows, attr);
  const Columns columns = columns_of<T>(attr);
  const bool shared = dx != nullptr && !attr.given, of_parameters = out[1].numel() > 0 || out[2].numel() > 0;
  Tensor channel_sums, row_sums;
  if (shared || of_parameters) {
    const std::int64_t blocks = columns.samples * columns.chunks;
    Tensor parts = make_array<S>(blocks * columns.channels, out[0]);
    with_whole(is_whole(norm, columns), [&]<bool kWhole>() {
      launch(norm_column_sums<T, kWhole>, columns.geometry(), device, norm, columns, grad, array<S>(parts));
    });
    if (of_parameters || attr.across) {
      channel_sums = make_tensor({{columns.channels, 2}, dtype_of<A>}, out[0].device());
      run_reduce_stages(AddSums<A>{}, Elements<S>{array<S>(parts)}, channel_sums,
                        reduction({blocks, columns.channels}, 0b01));
    }
    if (shared && !attr.across) {
      row_sums = make_array<S>(attr.rows(), out[0]);
      run_reduce_stages(AddSums<A>{}, WeightedSums<T>{array<S>(parts), norm.weight, 1, columns.channels}, row_sums,
                        reduction({columns.samples, columns.chunks, columns.groups, columns.depth}, 0b1010));
    }
  }
  for (const int i : {1, 2}) {
    if (out[i].numel() > 0) copy_into(channel_sums.select(1, 2 - i), out[i]);
  }
  if (dx == nullptr && dresidual == nullptr) return;
  const std::int64_t count = columns.positions * columns.depth;
  const S* const sums = !shared ? nullptr : array<S>(attr.across ? channel_sums : row_sums);
  with_whole(is_whole(norm, columns), [&]<bool kWhole>() {
    launch(norm_column_gradients<T, kWhole>, columns.geometry(), device, norm, columns, grad, sums,
           static_cast<A>(count), dx, dresidual);
  });
}

}  // namespace adjoint::cuda::norm
