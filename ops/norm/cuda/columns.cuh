// Normalisation of tensors whose channels are neighbours in memory, as in channels_last: the division of a tensor of
// (samples, positions, channels) into blocks, and a thread's reads. For .cu files.
//
// A thread keeps a pack of neighbouring channels, with their statistics, weights and biases in registers, and walks
// over positions. Shapes and types alone determine which. Norm sees every channel as a separate row (depth 1).
#pragma once

#include <adjoint/ops/norm/cuda/rows.cuh>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda::norm {

struct Columns {
  std::int64_t samples = 1, positions = 1, channels = 1;
  std::int64_t groups = 1, depth = 1;  // statistics cover `depth` neighbouring channels
  int lanes = 1, rows = 1;             // a block's threads: packs side by side, positions one after the other
  std::int64_t packs = 1, lane_blocks = 1;
  std::int64_t chunk = 1, chunks = 1;  // positions of a block

  LaunchGeometry geometry() const {
    return {dim3(static_cast<unsigned>(samples * chunks), static_cast<unsigned>(lane_blocks)), dim3(kThreads)};
  }
};

// A block begins with its channels' numbers and ends with a tree over its threads, so threads walk over many positions
// if enough blocks are left. A pivot serves for a few tens of elements (combine.h).
inline constexpr std::int64_t kLeastPositions = 4, kMostPositions = 128, kMostOfPivot = 32, kWantedBlocks = 264,
                              kMostLanes = 64;

template <class T>
Columns columns_of(const NormAttr& attr, std::int64_t most_positions = kMostPositions) {
  const auto ceil = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  Columns c;
  c.samples = attr.across ? 1 : attr.samples;
  c.positions = attr.across ? attr.samples * attr.inner : attr.inner;
  c.channels = attr.channels();
  c.groups = attr.groups;
  c.depth = attr.depth;
  c.packs = ceil(c.channels, kPack<T>);
  c.lane_blocks = ceil(c.packs, kMostLanes);
  c.lanes = static_cast<int>(ceil(c.packs, c.lane_blocks));
  c.rows = kThreads / c.lanes;
  const std::int64_t shared_out = c.samples * c.positions * c.lane_blocks / (c.rows * kWantedBlocks);
  c.chunk = c.rows * std::clamp(shared_out, kLeastPositions, most_positions);
  c.chunks = ceil(c.positions, c.chunk);
  return c;
}

// Returns true if every pack of channels is whole and aligned.
template <class T>
bool is_whole(const Norm<T>& norm, const Columns& columns) {
  return norm.aligned && columns.channels % kPack<T> == 0;
}

// The same tensor with every channel as a row of one channel.
template <class T>
Norm<T> by_column(Norm<T> norm, const NormAttr& attr) {
  norm = by_run(norm, attr);
  norm.aligned = norm.aligned && attr.channels() % kPack<T> == 0;
  return norm;
}

// A thread's channels and positions.
template <class T, bool kWhole>
struct ColumnPlace {
  static constexpr int kV = kPack<T>;
  std::int64_t sample, block, channel, begin, end, first;
  int width, row, lane;
  bool active;

  __device__ explicit ColumnPlace(const Columns& c) {
    const int thread = static_cast<int>(threadIdx.x);
    row = thread / c.lanes;
    lane = thread - row * c.lanes;
    const std::int64_t pack = std::int64_t{blockIdx.y} * c.lanes + lane;
    active = row < c.rows && pack < c.packs;
    block = blockIdx.x;
    sample = c.chunks == 1 ? block : quotient(block, c.chunks);
    channel = pack * kV;
    width = kWhole ? kV : static_cast<int>(min(c.channels - channel, std::int64_t{kV}));
    begin = (block - sample * c.chunks) * c.chunk + row;
    end = active ? min(c.positions, begin - row + c.chunk) : 0;
    first = sample * c.positions * c.channels + channel;
  }
  __device__ bool has(int v) const { return kWhole || v < width; }
  __device__ Span<kV, kWhole> span(const Columns& c, std::int64_t position) const {
    Span<kV, kWhole> span{first + position * c.channels};
    if constexpr (!kWhole) span.high = width;
    return span;
  }
};

// use(span, load(span)) for a thread's positions. kAhead loads overlap.
template <int kAhead, class T, bool kWhole, class Load, class Use>
__device__ void for_each_position(const Columns& columns, const ColumnPlace<T, kWhole>& place, const Load& load,
                                  const Use& use) {
  for (std::int64_t p = place.begin; p < place.end; p += std::int64_t{kAhead} * columns.rows) {
    decltype(load(place.span(columns, p))) loaded[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const std::int64_t at = p + std::int64_t{k} * columns.rows;
      if (k == 0 || at < place.end) loaded[k] = load(place.span(columns, at));
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const std::int64_t at = p + std::int64_t{k} * columns.rows;
      if (k == 0 || at < place.end) use(place.span(columns, at), loaded[k]);
    }
  }
}

// kFields numbers of each of a thread's channels, by each(channel, numbers), which a block computes once. All of its
// threads call this.
template <int kFields, class T, bool kWhole, class Each>
__device__ void find_columns(const Columns& columns, const ColumnPlace<T, kWhole>& place,
                             compute_t<T> (&to)[kFields][kPack<T>], const Each& each) {
  using A = compute_t<T>;
  constexpr int kV = kPack<T>;
  alignas(16) __shared__ A table[kFields][kMostLanes * kV];
  const int width = columns.lanes * kV;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
    const std::int64_t channel = std::int64_t{blockIdx.y} * width + i;
    A own[kFields] = {};
    if (channel < columns.channels) each(channel, own);
#pragma unroll
    for (int f = 0; f < kFields; ++f) table[f][i] = own[f];
  }
  __syncthreads();
#pragma unroll
  for (int f = 0; f < kFields; ++f) {
#pragma unroll
    for (int v = 0; v < kV; ++v) to[f][v] = table[f][place.lane * kV + v];
  }
}

// The fields of every kernel: z = (x - mean) scale + shift, without the residual.
enum ColumnField { kMean, kScale, kShift, kColumnFields };

template <class T>
__device__ const Statistics<compute_t<T>>& statistics_of(const Norm<T>& norm, const Columns& columns,
                                                         std::int64_t sample, std::int64_t channel) {
  const std::int64_t group = columns.depth == 1 ? channel : quotient(channel, columns.depth);
  return norm.statistics[sample * columns.groups + group];
}

// The statistics of a channel, and its first fields.
template <class T, int kFields>
__device__ Statistics<compute_t<T>> find_affine(const Norm<T>& norm, const Columns& columns, std::int64_t sample,
                                                std::int64_t channel, compute_t<T> (&own)[kFields]) {
  const Statistics<compute_t<T>> s = statistics_of(norm, columns, sample, channel);
  const Affine<compute_t<T>> affine = norm.affine(-s.rest, s, norm.line(channel));
  own[kMean] = s.mean;
  own[kScale] = affine.scale;
  own[kShift] = affine.shift;
  return s;
}

// Widens x into distances from the mean, and those into z.
template <class T, int kFields>
__device__ void find_z(const Norm<T>& norm, const compute_t<T> (&of)[kFields][kPack<T>], const Pack<T, kPack<T>>& x,
                       compute_t<T> (&centred)[kPack<T>], compute_t<T> (&z)[kPack<T>]) {
  norm.widen(x, centred);
#pragma unroll
  for (int v = 0; v < kPack<T>; ++v) {
    centred[v] -= of[kMean][v];
    z[v] = centred[v] * of[kScale][v] + of[kShift][v];
  }
}

// Combines the values of a block's rows of threads for each channel, in the row 0's threads. All threads call this.
template <class T, bool kWhole, class V, class Combine>
__device__ void combine_rows(const Columns& columns, const ColumnPlace<T, kWhole>& place, V (&values)[kPack<T>],
                             const Combine& combine) {
  constexpr int kV = kPack<T>;
  __shared__ V shared[kV][kThreads];
#pragma unroll
  for (int v = 0; v < kV; ++v) shared[v][threadIdx.x] = values[v];
  for (int rows = columns.rows; rows > 1;) {
    const int half = (rows + 1) / 2;
    __syncthreads();
    if (place.active && place.row + half < rows) {
#pragma unroll
      for (int v = 0; v < kV; ++v) {
        values[v] = combine(values[v], shared[v][threadIdx.x + half * columns.lanes]);
        shared[v][threadIdx.x] = values[v];
      }
    }
    rows = half;
  }
}

template <class T, bool kWhole>
__device__ void add_residual(const Norm<T>& norm, const Span<kPack<T>, kWhole>& span, compute_t<T> (&z)[kPack<T>]) {
  if (norm.residual == nullptr) return;
  compute_t<T> more[kPack<T>];
  norm.widen(norm.load(norm.residual, span), more);
#pragma unroll
  for (int v = 0; v < kPack<T>; ++v) z[v] += more[v];
}

}  // namespace adjoint::cuda::norm
