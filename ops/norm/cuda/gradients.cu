// The gradients of normalisation on CUDA.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/ops/norm/cuda/column_gradients.cuh>
#include <adjoint/ops/norm/cuda/held_gradients.cuh>

namespace adjoint::cuda {
namespace {

using namespace norm;

inline constexpr int kSpansAhead = 2;

// The sums of a piece, with each element times its weight if `weighted`.
template <bool kWhole, class T>
__device__ Sums<compute_t<T>> sums_of(const Norm<T>& norm, const T* grad, const Place& place, const Pieces& pieces,
                                      bool weighted) {
  using A = compute_t<T>;
  constexpr int kV = kPack<T>;
  const std::int64_t first = place.row * pieces.length;
  const Line<A> line = norm.line(place.row);
  const Statistics<A> statistics = norm.of(place.row);
  const A rstd = norm.rstd(statistics);
  Sums<A> sums{A{0}, A{0}};
  for_each_span<kV, kWhole, kSpansAhead>(
      first + place.begin, first + place.end, place.lane, pieces.lanes,
      [&](const auto& span) { return load(norm, grad, span); },
      [&](const auto& span, const Loaded<T>& loaded) {
        A weight[kV];
        norm.load_weights(line, span, weight);
        GradientSpan<T> g;
        g.set(norm, loaded, span, line, statistics, rstd, weight);
        if (!weighted) {
#pragma unroll
          for (A& each : weight) each = A{1};
        }
        g.add_to(sums, span, weight);
      });
  return sums;
}

template <class T, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    norm_sums(const __grid_constant__ Norm<T> norm, const __grid_constant__ Pieces pieces, const T* grad, bool weighted,
              Sums<compute_t<T>>* out) {
  const Place place(pieces);
  Sums<compute_t<T>> sums{};
  if (place.active) sums = sums_of<kWhole>(norm, grad, place, pieces, weighted);
  sums = add_lanes(sums, pieces.lanes);
  if (place.active && place.lane == 0) out[place.piece] = sums;
}

// If a row is all of its channel: the outputs that its sums give. Null for outputs that are not needed.
template <class T>
struct OfParameters {
  T* weight = nullptr;
  T* bias = nullptr;
};

// kFinds: pieces are rows, whose sums are computed first, and are the parameters' gradients if these are given.
// Otherwise `sums` are those of the elements that share statistics, with each element times its weight; across samples
// they must still be multiplied by the weight. `sums` is null if statistics were given. count: the number of elements
// that share statistics. dx and dresidual: null if not needed.
template <class T, bool kFinds, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    norm_write_gradients(const __grid_constant__ Norm<T> norm, const __grid_constant__ Pieces pieces, const T* grad,
                         const Sums<compute_t<T>>* sums, compute_t<T> count, OfParameters<T> of_parameters, T* dx,
                         T* dresidual) {
  using A = compute_t<T>;
  using S = Sums<A>;
  constexpr int kV = kPack<T>;
  const Place place(pieces);
  S means{A{0}, A{0}};
  const bool is_channel = of_parameters.weight != nullptr || of_parameters.bias != nullptr;
  if constexpr (kFinds) {
    if (place.active) means = sums_of<kWhole>(norm, grad, place, pieces, !is_channel);
    means = add_lanes(means, pieces.lanes);
  }
  if (!place.active) return;
  const Line<A> line = norm.line(place.row);
  if (is_channel) {
    if (place.lane == 0 && of_parameters.weight != nullptr)
      of_parameters.weight[line.channel] = convert<T>(means.normal);
    if (place.lane == 0 && of_parameters.bias != nullptr) of_parameters.bias[line.channel] = convert<T>(means.plain);
    means = {means.plain * line.weight, means.normal * line.weight};
  }
  if (!kFinds && sums != nullptr) {
    means = sums[norm.across ? remainder(place.row, norm.groups) : quotient(place.row, norm.share)];
    if (norm.across) means = {means.plain * line.weight, means.normal * line.weight};
  }
  means = {norm.centred ? means.plain / count : A{0}, means.normal / count};
  const std::int64_t first = place.row * pieces.length;
  const Statistics<A> statistics = norm.of(place.row);
  const A rstd = norm.rstd(statistics);
  for_each_span<kV, kWhole, kSpansAhead>(
      first + place.begin, first + place.end, place.lane, pieces.lanes,
      [&](const auto& span) { return load(norm, grad, span); },
      [&](const auto& span, const Loaded<T>& loaded) {
        A weight[kV];
        norm.load_weights(line, span, weight);
        GradientSpan<T> g;
        g.set(norm, loaded, span, line, statistics, rstd, weight);
        if (dresidual != nullptr) norm.store(dresidual, span, g.dz);
        if (dx == nullptr) return;
        g.finish(means, rstd, weight);
        norm.store(dx, span, g.dz);
      });
}

// The sums of single elements, for the reductions' kernel. A pack belongs to one row.
template <class T>
struct GradientElements {
  using A = compute_t<T>;
  static constexpr int kPack = kReducePack<T>;
  struct In {
    T x, grad, residual;
  };
  Norm<T> norm;
  const T* grad;

  __device__ In load(std::int64_t i) const {
    return {norm.x[i], grad[i], norm.residual == nullptr ? T{} : norm.residual[i]};
  }
  __device__ Sums<A> value(In in, std::int64_t i) const {
    const Row row(*this, i);
    return of(in, row, i);
  }

  bool has_packs() const { return norm.depth * norm.inner % kPack == 0; }
  bool aligned() const {
    return is_aligned<T, kPack>(norm.x) && is_aligned<T, kPack>(grad) && is_aligned<T, kPack>(norm.residual);
  }
  __device__ void load_pack(std::int64_t pack, bool aligned, In (&to)[kPack]) const {
    const auto x = cuda::load_pack<kPack>(norm.x, pack, aligned), g = cuda::load_pack<kPack>(grad, pack, aligned);
    Pack<T, kPack> residual{};
    if (norm.residual != nullptr) residual = cuda::load_pack<kPack>(norm.residual, pack, aligned);
#pragma unroll
    for (int v = 0; v < kPack; ++v) to[v] = {x.values[v], g.values[v], residual.values[v]};
  }
  __device__ void values(const In (&in)[kPack], std::int64_t pack, bool /*aligned*/, Sums<A> (&to)[kPack]) const {
    const Row row(*this, pack * kPack);
#pragma unroll
    for (int v = 0; v < kPack; ++v) to[v] = of(in[v], row, pack * kPack + v);
  }

 private:
  struct Row {
    std::int64_t first, channel;  // the row's first element and channel
    Statistics<A> statistics;
    A rstd;

    __device__ Row(const GradientElements& self, std::int64_t i) {
      const std::int64_t length = self.norm.depth * self.norm.inner, row = quotient(i, length);
      first = row * length;
      const std::int64_t group = remainder(row, self.norm.groups);
      channel = group * self.norm.depth;
      statistics = self.norm.statistics[self.norm.across ? group : row];
      rstd = self.norm.rstd(statistics);
    }
  };
  __device__ Sums<A> of(const In& in, const Row& row, std::int64_t i) const {
    const A normal = norm.normal(convert<A>(in.x), row.statistics, row.rstd);
    A dz[1] = {convert<A>(in.grad)};
    if (!norm.slope.is_none()) {
      const std::int64_t channel = row.channel + quotient(i - row.first, norm.inner);
      const A weight = norm.weight.data == nullptr ? A{1} : norm.weight[channel];
      const A bias = norm.bias.data == nullptr ? A{0} : norm.bias[channel];
      const A z[1] = {normal * weight + bias + convert<A>(in.residual)};
      norm.slope(dz, z);
    }
    return {dz[0], dz[0] * normal};
  }
};

template <class T>
void run_gradients(std::span<const Tensor> in, std::span<Tensor> out, const NormAttr& attr) {
  using A = compute_t<T>;
  using S = Sums<A>;
  const Tensor& x = in[1];
  const int device = x.device().index;
  const std::int64_t rows = attr.rows(), length = attr.row_length(), channels = attr.channels();
  const T* const grad = in[0].data<T>();
  T *const dx = mutable_or_null<T>(out[0]), *const dresidual = mutable_or_null<T>(out[3]);
  const auto norm = norm_of<T>(in.subspan(1), attr, static_cast<const Statistics<A>*>(in[5].raw_data()),
                               aligned(in[0]) && aligned(out[0]) && aligned(out[3]));
  if (attr.channels_last) return run_column_gradients(norm, attr, device, grad, out);
  const bool shared = dx != nullptr && !attr.given, one_block = !attr.across && length <= kLongestRow;
  HeldRows held;
  constexpr std::int64_t kMostRowsAThread = 64;  // keeps sums short
  const int held_packs = plan_held(norm, attr, kMostRowsAThread, held);
  const bool rows_are_channels =
      shared && one_block && held_packs == 0 && attr.samples == 1 && attr.depth == 1 && !attr.wide;
  const bool of_parameters = !rows_are_channels && (out[1].numel() > 0 || out[2].numel() > 0);
  const bool of_channels = of_parameters || (shared && attr.across);
  const bool of_rows = shared && !attr.across && !one_block, long_runs = attr.inner >= kShortRun;

  // A run is one channel of a sample.
  Tensor run_sums, channel_sums, row_sums;
  const Norm<T> running = by_run(norm, attr);
  const Pieces runs = chunks_of<T>(attr.samples * channels, attr.inner);
  if (long_runs && (of_channels || of_rows)) {
    run_sums = make_array<S>(runs.count, x);
    with_whole(is_whole(running, attr.inner), [&]<bool kWhole>() {
      launch(norm_sums<T, kWhole>, geometry_of(runs), device, running, runs, grad, false, array<S>(run_sums));
    });
  }
  if (of_channels) channel_sums = make_tensor({{channels, 2}, dtype_of<A>}, x.device());
  if (held_packs > 0) {
    if constexpr (!std::is_same_v<T, double>) run_held(norm, held, held_packs, device, grad, dx, channel_sums);
  } else if (of_channels && long_runs) {
    run_reduce_stages(AddSums<A>{}, Elements<S>{array<S>(run_sums)}, channel_sums,
                      reduction({attr.samples, channels, runs.chunks}, 0b101));
  } else if (of_channels) {
    run_reduce_stages(AddSums<A>{}, GradientElements<T>{norm, grad}, channel_sums,
                      reduction({attr.samples, channels, attr.inner}, 0b101));
  }
  for (const int i : {1, 2}) {
    if (of_parameters && out[i].numel() > 0) copy_into(channel_sums.select(1, 2 - i), out[i]);
  }
  if (held_packs > 0 || (dx == nullptr && dresidual == nullptr)) return;
  if (shared && one_block) {
    const Pieces pieces = pieces_of<T>(rows, length, length);
    OfParameters<T> parameters;
    if (rows_are_channels) parameters = {mutable_or_null<T>(out[1]), mutable_or_null<T>(out[2])};
    return with_whole(is_whole(norm, length), [&]<bool kWhole>() {
      launch(norm_write_gradients<T, true, kWhole>, geometry_of(pieces), device, norm, pieces, grad, nullptr,
             static_cast<A>(length), parameters, dx, dresidual);
    });
  }
  const Pieces pieces = chunks_of<T>(rows, length);
  if (of_rows) {
    row_sums = make_array<S>(rows, x);
    if (long_runs) {
      run_reduce_stages(AddSums<A>{}, WeightedSums<T>{array<S>(run_sums), norm.weight, runs.chunks, channels}, row_sums,
                        reduction({rows, attr.depth * runs.chunks}, 0b10));
    } else {
      Tensor parts = make_array<S>(pieces.count, x);
      with_whole(is_whole(norm, length), [&]<bool kWhole>() {
        launch(norm_sums<T, kWhole>, geometry_of(pieces), device, norm, pieces, grad, true, array<S>(parts));
      });
      run_reduce_stages(AddSums<A>{}, Elements<S>{array<S>(parts)}, row_sums, reduction({rows, pieces.chunks}, 0b10));
    }
  }
  const std::int64_t count = attr.across ? attr.samples * attr.inner : length;
  const S* const sums = !shared ? nullptr : array<S>(attr.across ? channel_sums : row_sums);
  const Norm<T>& writing = long_runs ? running : norm;
  const Pieces& written = long_runs ? runs : pieces;
  with_whole(is_whole(writing, written.length), [&]<bool kWhole>() {
    launch(norm_write_gradients<T, false, kWhole>, geometry_of(written), device, writing, written, grad, sums,
           static_cast<A>(count), OfParameters<T>{}, dx, dresidual);
  });
}

}  // namespace

void normalize_gradients(std::span<const Tensor> in, std::span<Tensor> out, const NormAttr& attr) {
  if (in[1].numel() == 0) {
    for (Tensor& each : out) {
      if (each.numel() > 0) fill(each, 0.0);
    }
    return;
  }
  visit_floating(in[1].dtype(), [&]<class T>() { run_gradients<T>(in, out, attr); });
}

}  // namespace adjoint::cuda
