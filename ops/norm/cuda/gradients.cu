// The gradients of normalisation on CUDA.
#include <adjoint/core/copy.h>
#include <adjoint/core/cuda/backend.h>
#include <adjoint/ops/norm/cuda/rows.cuh>

namespace adjoint::cuda {
namespace {

using namespace norm;

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

// What gradients read of a span.
template <class T>
struct Loaded {
  Pack<T, kPack<T>> x, grad;
};
template <class T, bool kWhole>
__device__ Loaded<T> load(const Norm<T>& norm, const T* grad, const Span<kPack<T>, kWhole>& span) {
  return {norm.load(norm.x, span), norm.load(grad, span)};
}

// What a thread makes of it.
template <class T>
struct GradientSpan {
  using A = compute_t<T>;
  static constexpr int kV = kPack<T>;
  A normal[kV], dz[kV];

  // Without an activation.
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
  // Each times its weight.
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
  // x's gradient, in dz's place.
  __device__ void finish(const Sums<A>& means, A rstd, const A (&weight)[kV]) {
#pragma unroll
    for (int v = 0; v < kV; ++v) dz[v] = rstd * (dz[v] * weight[v] - means.plain - normal[v] * means.normal);
  }
};

inline constexpr int kSpansAhead = 2;

// Of a piece, each element times its weight where `weighted`.
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

// kFinds: pieces are rows, whose sums are found first. Else `sums` are those of the elements that share statistics,
// each times its weight, or where they are across samples, to be multiplied by it; null where statistics were given.
// count: of the elements that share statistics. dx and dresidual: null where nobody needs it.
template <class T, bool kFinds, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    norm_write_gradients(const __grid_constant__ Norm<T> norm, const __grid_constant__ Pieces pieces, const T* grad,
                         const Sums<compute_t<T>>* sums, compute_t<T> count, T* dx, T* dresidual) {
  using A = compute_t<T>;
  using S = Sums<A>;
  constexpr int kV = kPack<T>;
  const Place place(pieces);
  S means{A{0}, A{0}};
  if constexpr (kFinds) {
    if (place.active) means = sums_of<kWhole>(norm, grad, place, pieces, true);
    means = add_lanes(means, pieces.lanes);
  }
  if (!place.active) return;
  const Line<A> line = norm.line(place.row);
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

// How blocks share rows whose channels are their elements, each of `lanes` threads.
struct HeldRows {
  std::int64_t rows = 1, length = 1, a_block = 1;
  int lanes = 1;

  std::int64_t blocks() const { return (rows + a_block - 1) / a_block; }
};

// All gradients in one reading, without an activation. Rows are whole packs that their lanes can hold, and a thread has
// the same channels in each row, so that it adds up theirs as it goes; `of_blocks` (blocks, channels), or null, takes
// what a block has. kRows rows are under way at once, and while lanes add up theirs, the next are loaded.
template <class T, int kPacks, int kRows>
__global__ void __launch_bounds__(kThreads, kPacks* kPack<T> > 16 ? 1 : 2)
    norm_held_gradients(const __grid_constant__ Norm<T> norm, const __grid_constant__ HeldRows held, const T* grad,
                        T* dx, Sums<compute_t<T>>* of_blocks) {
  using A = compute_t<T>;
  using S = Sums<A>;
  constexpr int kV = kPack<T>;
  struct Rows {
    S of[kRows];
  };
  const int lanes = held.lanes, shift = 31 - __clz(lanes), groups = kThreads >> shift;
  const int thread = static_cast<int>(threadIdx.x), lane = thread & (lanes - 1), group = thread >> shift;
  const std::int64_t begin = blockIdx.x * held.a_block, end = min(held.rows, begin + held.a_block);
  const auto column = [&](int p) { return std::int64_t{p * lanes + lane} * kV; };
  const auto span = [&](std::int64_t row, int p) { return Span<kV, true>{row * held.length + column(p)}; };

  A weight[kPacks][kV];
  S channels[kPacks][kV];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (column(p) < held.length) norm.load_weights(norm.line(0), span(0, p), weight[p]);
#pragma unroll
    for (int v = 0; v < kV; ++v) channels[p][v] = S{A{0}, A{0}};
  }

  Loaded<T> loaded[kRows][kPacks];
  Statistics<A> statistics[kRows];
  // Of rows from `from` on, this thread's share: each(r, p, row).
  const auto for_each = [&](std::int64_t from, const auto& each) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = from + r * groups + group;
      if (row >= end) continue;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        if (column(p) < held.length) each(r, p, row);
      }
    }
  };
  const auto fetch = [&](std::int64_t from) {
    for_each(from, [&](int r, int p, std::int64_t row) {
      loaded[r][p] = load(norm, grad, span(row, p));
      if (p == 0) statistics[r] = norm.statistics[row];
    });
  };
  fetch(begin);
  for (std::int64_t from = begin; from < end; from += kRows * groups) {
    GradientSpan<T> g[kRows][kPacks];
    A rstd[kRows];
    Rows sums{};
    for_each(from, [&](int r, int p, std::int64_t row) {
      if (p == 0) rstd[r] = norm.rstd(statistics[r]);
      g[r][p].set(norm, loaded[r][p], statistics[r], rstd[r]);
      g[r][p].add_to(sums.of[r], span(row, p), weight[p]);
#pragma unroll
      for (int v = 0; v < kV; ++v) {
        channels[p][v].plain += g[r][p].dz[v];
        channels[p][v].normal += g[r][p].dz[v] * g[r][p].normal[v];
      }
    });
    fetch(from + kRows * groups);
    sums = combine_lanes<kThreads>(sums, lanes, [](const Rows& a, const Rows& b) {
      Rows both;
#pragma unroll
      for (int r = 0; r < kRows; ++r) both.of[r] = AddSums<A>{}.combine(a.of[r], b.of[r]);
      return both;
    });
    for_each(from, [&](int r, int p, std::int64_t row) {
      if (dx == nullptr) return;
      const A count = static_cast<A>(held.length);
      const S means{norm.centred ? sums.of[r].plain / count : A{0}, sums.of[r].normal / count};
      g[r][p].finish(means, rstd[r], weight[p]);
      norm.store(dx, span(row, p), g[r][p].dz);
    });
  }

  if (of_blocks == nullptr) return;
  if constexpr (kPacks == 1) {  // else lanes are the block's threads
    __shared__ __align__(16) unsigned char storage[kThreads / 2 * kV * sizeof(S)];
    S(*const shared)[kV] = reinterpret_cast<S(*)[kV]>(storage);
    for (int half = groups / 2; half > 0; half /= 2) {
      __syncthreads();
      if (group >= half && group < 2 * half) {
#pragma unroll
        for (int v = 0; v < kV; ++v) shared[(group - half) * lanes + lane][v] = channels[0][v];
      }
      __syncthreads();
      if (group >= half) continue;
#pragma unroll
      for (int v = 0; v < kV; ++v) {
        channels[0][v] = AddSums<A>{}.combine(channels[0][v], shared[group * lanes + lane][v]);
      }
    }
  }
  if (group > 0) return;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (column(p) >= held.length) continue;
#pragma unroll
    for (int v = 0; v < kV; ++v) of_blocks[blockIdx.x * held.length + column(p) + v] = channels[p][v];
  }
}

// Of one element each, for the reductions' kernel. Packs are of one row.
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
      const A weight = norm.weight == nullptr ? A{1} : convert<A>(norm.weight[channel]);
      const A bias = norm.bias == nullptr ? A{0} : convert<A>(norm.bias[channel]);
      const A z[1] = {normal * weight + bias + convert<A>(in.residual)};
      norm.slope(dz, z);
    }
    return {dz[0], dz[0] * normal};
  }
};

// Sums of (channels, chunks) of a row, times the channel's weight.
template <class T>
struct WeightedSums {
  using A = compute_t<T>;
  using In = Sums<A>;
  const Sums<A>* data;
  const T* weight;
  std::int64_t chunks, channels;

  __device__ In load(std::int64_t i) const { return data[i]; }
  __device__ Sums<A> value(In in, std::int64_t i) const {
    if (weight == nullptr) return in;
    const A by = convert<A>(weight[i / chunks % channels]);
    return {in.plain * by, in.normal * by};
  }
};

// The plan, and how many packs of a row a thread has: 0 where lanes cannot hold a row, and in float64, which is for
// checks.
template <class T>
int plan_held(const Norm<T>& norm, const NormAttr& attr, HeldRows& held) {
  constexpr std::int64_t kBlocks = 512, kMostRowsAThread = 64;  // enough for a GPU; so that sums are short
  constexpr int kMostPacks = 4;
  const std::int64_t rows = attr.rows(), length = attr.row_length(), packs = length / kPack<T>;
  if (std::is_same_v<T, double> || attr.given || attr.across || !attr.activation.is_none()) return 0;
  if (attr.groups != 1 || attr.inner != 1 || !is_whole(norm, length) || packs > kMostPacks * kThreads) return 0;
  const std::int64_t packs_a_thread = packs <= kThreads ? 1 : packs <= 2 * kThreads ? 2 : kMostPacks;
  held.rows = rows;
  held.length = length;
  held.lanes =
      static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>((packs + packs_a_thread - 1) / packs_a_thread)));
  const std::int64_t groups = kThreads / held.lanes, wanted = (rows + kBlocks * groups - 1) / (kBlocks * groups);
  held.a_block = groups * std::min(wanted, kMostRowsAThread);
  return static_cast<int>(packs_a_thread);
}

// Channels' sums go to channel_sums, which is undefined where nobody needs them.
template <class T>
void run_held(const Norm<T>& norm, const HeldRows& held, int packs, int device, const T* grad, T* dx,
              Tensor& channel_sums) {
  using S = Sums<compute_t<T>>;
  Tensor of_blocks;
  if (channel_sums.defined()) {
    of_blocks = make_array<S>(held.blocks() * held.length, channel_sums);
  }
  S* const blocks = channel_sums.defined() ? array<S>(of_blocks) : nullptr;
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(held.blocks())), dim3(kThreads)};
  const auto with = [&]<int kPacks>() {
    constexpr int kRows = std::clamp(16 / (kPack<T> * kPacks), 1, 4);
    launch(norm_held_gradients<T, kPacks, kRows>, geometry, device, norm, held, grad, dx, blocks);
  };
  if (packs == 1) with.template operator()<1>();
  if (packs == 2) with.template operator()<2>();
  if (packs == 4) with.template operator()<4>();
  if (blocks == nullptr) return;
  run_reduce_stages(AddSums<compute_t<T>>{}, Elements<S>{blocks}, channel_sums,
                    reduction({held.blocks(), held.length}, 0b01));
}

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
  const bool shared = dx != nullptr && !attr.given, one_block = !attr.across && length <= kLongestRow;
  const bool of_parameters = out[1].numel() > 0 || out[2].numel() > 0;
  const bool of_channels = of_parameters || (shared && attr.across);
  const bool of_rows = shared && !attr.across && !one_block, long_runs = attr.inner >= kShortRun;
  HeldRows held;
  const int held_packs = plan_held(norm, attr, held);

  // A run is one channel of a sample.
  Tensor run_sums, channel_sums, row_sums;
  const Norm<T> running = by_run(norm, attr);
  const Pieces runs = pieces_of<T>(attr.samples * channels, attr.inner, kChunk);
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
    if (out[i].numel() > 0) copy_into(channel_sums.select(1, 2 - i), out[i]);
  }
  if (held_packs > 0 || (dx == nullptr && dresidual == nullptr)) return;
  if (shared && one_block) {
    const Pieces pieces = pieces_of<T>(rows, length, length);
    return with_whole(is_whole(norm, length), [&]<bool kWhole>() {
      launch(norm_write_gradients<T, true, kWhole>, geometry_of(pieces), device, norm, pieces, grad, nullptr,
             static_cast<A>(length), dx, dresidual);
    });
  }
  const Pieces pieces = pieces_of<T>(rows, length, kChunk);
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
           static_cast<A>(count), dx, dresidual);
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
