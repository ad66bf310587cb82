// Shared by the kernels of normalisation: how rows become pieces of work, and how a thread reads a piece. For .cu
// files.
//
// A group of threads processes a short row: it reads the row for its statistics, or for the sums that x's gradient
// needs, and again, from a cache, for its output. Long rows, and rows that share statistics, are split into chunks: a
// kernel leaves sums of each, small reductions add them up, and a second kernel writes. The reductions' own kernel sums
// channels of few neighbouring elements. Rows whose channels are their elements are read once if threads can hold them
// (held_rows.cuh). Shapes, types and alignment alone determine all of this.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/norm/kernels.h>
#include <adjoint/core/cuda/lanes.cuh>
#include <adjoint/ops/reduce/cuda/reduce.cuh>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace adjoint::cuda::norm {

inline constexpr int kThreads = 256;
inline constexpr std::int64_t kLongestRow = 32768;  // for one block
// The chunk of a longer row for one block: larger if there are blocks enough, because each ends with a tree over its
// threads.
inline constexpr std::int64_t kChunk = 8192, kLongestChunk = 32768, kManyPieces = 2048;
inline constexpr std::int64_t kShortRun = 32;  // below, the reductions' kernel sums neighbouring channels side by side
inline constexpr int kPacksPerThread = 4;      // target

template <class T>
inline constexpr int kPack = static_cast<int>(16 / sizeof(T));

// A part of a row: `chunk` elements, starting at the chunk's number times `chunk`.
struct Pieces {
  int lanes = 1;  // threads on one piece: a power of two
  std::int64_t length = 1, chunk = 1, chunks = 1, count = 1;

  std::int64_t blocks() const { return (count + kThreads / lanes - 1) / (kThreads / lanes); }
};

template <class T>
Pieces pieces_of(std::int64_t rows, std::int64_t length, std::int64_t chunk) {
  Pieces pieces;
  pieces.length = length;
  pieces.chunk = std::min(length, chunk);
  pieces.chunks = (length + pieces.chunk - 1) / pieces.chunk;
  pieces.count = rows * pieces.chunks;
  constexpr std::int64_t kPerThread = kPacksPerThread * kPack<T>;
  const auto wanted = static_cast<std::uint64_t>((pieces.chunk + kPerThread - 1) / kPerThread);
  pieces.lanes = static_cast<int>(std::min<std::uint64_t>(std::bit_ceil(wanted), kThreads));
  return pieces;
}

template <class T>
Pieces chunks_of(std::int64_t rows, std::int64_t length) {
  Pieces pieces = pieces_of<T>(rows, length, kChunk);
  for (std::int64_t chunk = 2 * kChunk; chunk <= kLongestChunk && pieces.count > kManyPieces; chunk *= 2) {
    pieces = pieces_of<T>(rows, length, chunk);
  }
  return pieces;
}

// A 64-bit division takes four times as long as one of 32 bits.
__device__ inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return a <= kMost && b <= kMost ? static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b) : a / b;
}
__device__ inline std::int64_t remainder(std::int64_t a, std::int64_t b) { return b == 1 ? 0 : a - quotient(a, b) * b; }

// A thread's part of a piece.
struct Place {
  std::int64_t piece, row, begin, end;  // begin and end are in the row
  int lane;
  bool active;

  __device__ explicit Place(const Pieces& pieces) {
    const int thread = static_cast<int>(threadIdx.x);
    const int shift = 31 - __clz(pieces.lanes);
    lane = thread & (pieces.lanes - 1);
    piece = std::int64_t{blockIdx.x} * (kThreads >> shift) + (thread >> shift);
    active = piece < pieces.count;
    row = pieces.chunks == 1 ? piece : quotient(piece, pieces.chunks);
    begin = (piece - row * pieces.chunks) * pieces.chunk;
    end = min(pieces.length, begin + pieces.chunk);
  }
};

// Neighbours that move together: a piece's elements among kV elements of the tensor from `at` on. If pieces are whole
// and aligned packs (kWhole), all kV belong to the piece, so loads need no branch and overlap; a branch around each
// load would wait for it.
template <int kV, bool kWhole>
struct Span {
  std::int64_t at;
  int low = 0, high = kV;

  __device__ bool full() const { return kWhole || (low == 0 && high == kV); }
  __device__ bool has(int v) const { return kWhole || (v >= low && v < high); }
};

// Values shared by the elements of a row. weight and bias are the channel's, or those of no parameter, if the row is
// one channel.
template <class A>
struct Line {
  std::int64_t first, channel;  // of the row
  A weight, bias;
};

template <class A>
struct Affine {
  A scale, shift;
};

// One number per channel: weights or biases. wide: they have the type of the computation for T, as under mixed
// precision.
template <class T>
struct ChannelNumbers {
  using A = compute_t<T>;
  const void* data = nullptr;
  bool wide = false;

  __device__ A operator[](std::int64_t channel) const {
    if constexpr (!std::is_same_v<T, A>) {
      if (!wide) return convert<A>(of_rows()[channel]);
    }
    return static_cast<const A*>(data)[channel];
  }
  // For parameters that are not wide.
  ADJOINT_HD const T* of_rows() const { return static_cast<const T*>(data); }
};

template <class T>
struct Norm {
  using A = compute_t<T>;
  static constexpr int kV = kPack<T>;
  using Loaded = Pack<T, kV>;

  const T *x, *residual;
  ChannelNumbers<T> weight, bias;
  const Statistics<A>* statistics;
  std::int64_t groups, depth, inner;
  std::int64_t share;  // neighbouring rows with the same statistics
  bool across, centred, aligned;
  A eps;
  Activate<A> activate;
  ActivationSlope<A> slope;

  template <bool kWhole>
  __device__ Loaded load(const T* from, const Span<kV, kWhole>& span) const {
    return load_pack(from + span.at, span, kWhole || aligned);
  }
  __device__ static void widen(const Loaded& from, A (&to)[kV]) {
    if constexpr (std::is_same_v<T, bfloat16>) {  // one instruction each; extracting a half first needs two
      const auto words = std::bit_cast<std::array<std::uint32_t, kV / 2>>(from);
#pragma unroll
      for (int v = 0; v < kV; v += 2) {
        to[v] = std::bit_cast<float>(words[v / 2] << 16);
        to[v + 1] = std::bit_cast<float>(words[v / 2] & 0xffff0000U);
      }
    } else {
#pragma unroll
      for (int v = 0; v < kV; ++v) to[v] = convert<A>(from.values[v]);
    }
  }
  template <bool kWhole>
  __device__ void store(T* to, const Span<kV, kWhole>& span, const A (&from)[kV]) const {
    Loaded pack;
#pragma unroll
    for (int v = 0; v < kV; ++v) pack.values[v] = convert<T>(from[v]);
    if (kWhole || (aligned && span.full())) {
      *reinterpret_cast<Loaded*>(to + span.at) = pack;
    } else {
#pragma unroll
      for (int v = 0; v < kV; ++v) {
        if (span.has(v)) to[span.at + v] = pack.values[v];
      }
    }
  }
  __device__ Line<A> line(std::int64_t row) const {
    Line<A> line{row * depth * inner, remainder(row, groups) * depth, A{1}, A{0}};
    if (depth == 1 && weight.data != nullptr) line.weight = weight[line.channel];
    if (depth == 1 && bias.data != nullptr) line.bias = bias[line.channel];
    return line;
  }
  template <bool kWhole>
  __device__ void load_weights(const Line<A>& line, const Span<kV, kWhole>& span, A (&to)[kV]) const {
    load_channels(weight.of_rows(), line.weight, line, span, to);
  }
  template <bool kWhole>
  __device__ void load_biases(const Line<A>& line, const Span<kV, kWhole>& span, A (&to)[kV]) const {
    load_channels(bias.of_rows(), line.bias, line, span, to);
  }
  // z times its channel's weight, plus its bias.
  template <bool kWhole>
  __device__ void weigh(const Line<A>& line, const Span<kV, kWhole>& span, A (&z)[kV]) const {
    if (inner == 1) {
      A weights[kV], biases[kV];
      load_weights(line, span, weights);
      load_biases(line, span, biases);
#pragma unroll
      for (int v = 0; v < kV; ++v) z[v] = z[v] * weights[v] + biases[v];
    } else {
      const auto of = [&](std::int64_t channel) -> Affine<A> {
        return {weight.data == nullptr ? A{1} : weight[channel], bias.data == nullptr ? A{0} : bias[channel]};
      };
      walk(line, span, of, [&](int v, const Affine<A>& own) { z[v] = z[v] * own.scale + own.shift; });
    }
  }
  __device__ const Statistics<A>& of(std::int64_t row) const {
    return statistics[across ? remainder(row, groups) : quotient(row, share)];
  }
  __device__ A rstd(const Statistics<A>& s) const { return A{1} / sqrt(s.variance + eps); }
  __device__ static A normal(A value, const Statistics<A>& s, A rstd) { return ((value - s.mean) - s.rest) * rstd; }
  // The coefficients with which normal() maps distances that are `offset` from value - mean - rest. If the row has one
  // weight and bias, they are included.
  __device__ Affine<A> affine(A offset, const Statistics<A>& s, const Line<A>& line) const {
    // An infinite scale or weight already makes a distance infinite, and would turn the remaining term into NaN.
    const auto times = [](A shift, A by) { return shift == A{0} || std::isinf(by) ? A{0} : shift * by; };
    const A scale = rstd(s), shift = times(offset, scale);
    if (depth != 1) return {scale, shift};
    return {scale * line.weight, times(shift, line.weight) + line.bias};
  }

 private:
  template <bool kWhole>
  __device__ static Loaded load_pack(const T* begin, const Span<kV, kWhole>& span, bool is_pack) {
    if (is_pack && span.full()) return *reinterpret_cast<const Loaded*>(begin);
    Loaded loaded;
#pragma unroll
    for (int v = 0; v < kV; ++v) loaded.values[v] = span.has(v) ? begin[v] : T{};
    return loaded;
  }
  template <bool kWhole>
  __device__ void load_channels(const T* from, A common, const Line<A>& line, const Span<kV, kWhole>& span,
                                A (&to)[kV]) const {
    if (from == nullptr || depth == 1) {
#pragma unroll
      for (int v = 0; v < kV; ++v) to[v] = common;
    } else if (inner == 1) {
      const T* const begin = from + line.channel + (span.at - line.first);
      widen(load_pack(begin, span, kWhole || is_aligned<T, kV>(begin)), to);
    } else {
      walk(
          line, span, [&](std::int64_t channel) { return convert<A>(from[channel]); },
          [&](int v, A value) { to[v] = value; });
    }
  }
  // use(v, of(channel)) for a span's elements, if a channel has several. `of` is called once per channel.
  template <bool kWhole, class Of, class Use>
  __device__ void walk(const Line<A>& line, const Span<kV, kWhole>& span, const Of& of, const Use& use) const {
    const std::int64_t at = span.at + span.low - line.first, d = quotient(at, inner);  // position in the row
    std::int64_t channel = line.channel + d;
    const int of_one = static_cast<int>(min(inner, std::int64_t{kV}));
    int left = static_cast<int>(min((d + 1) * inner - at, std::int64_t{kV}));
    auto value = of(channel);
    if (left == kV) {
#pragma unroll
      for (int v = 0; v < kV; ++v) use(v, value);
      return;
    }
#pragma unroll
    for (int v = 0; v < kV; ++v) {
      if (!span.has(v)) continue;
      if (left == 0) {
        left = of_one;
        value = of(++channel);
      }
      use(v, value);
      --left;
    }
  }
};

// use(span, load(span)) for this lane's part of elements begin to end of the tensor. kAhead loads of whole packs
// overlap, and then() follows their uses. Spans begin at multiples of kV elements.
template <int kV, bool kWhole, int kAhead, class Load, class Use, class Then>
__device__ void for_each_span(std::int64_t begin, std::int64_t end, int lane, int lanes, const Load& load,
                              const Use& use, const Then& then) {
  constexpr int kBatch = kWhole ? kAhead : 1;
  const std::int64_t last = (end + kV - 1) / kV;
  const auto span_of = [&](std::int64_t p) {
    Span<kV, kWhole> span{p * kV};
    if constexpr (!kWhole) {
      span.low = static_cast<int>(max(begin - span.at, std::int64_t{0}));
      span.high = static_cast<int>(min(end - span.at, std::int64_t{kV}));
    }
    return span;
  };
  for (std::int64_t p = begin / kV + lane; p < last; p += std::int64_t{kBatch} * lanes) {
    decltype(load(span_of(p))) loaded[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const std::int64_t at = p + std::int64_t{k} * lanes;
      if (k == 0 || at < last) loaded[k] = load(span_of(at));
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const std::int64_t at = p + std::int64_t{k} * lanes;
      if (k == 0 || at < last) use(span_of(at), loaded[k]);
    }
    then();
  }
}
template <int kV, bool kWhole, int kAhead, class Load, class Use>
__device__ void for_each_span(std::int64_t begin, std::int64_t end, int lane, int lanes, const Load& load,
                              const Use& use) {
  for_each_span<kV, kWhole, kAhead>(begin, end, lane, lanes, load, use, [] {});
}

// ---- On the host.

template <class T>
const T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}
template <class T>
T* mutable_or_null(Tensor& tensor) {
  return tensor.numel() > 0 ? tensor.mutable_data<T>() : nullptr;
}

inline bool aligned(const Tensor& tensor) {
  return !tensor.defined() || reinterpret_cast<std::uintptr_t>(tensor.raw_data()) % 16 == 0;
}

// Returns true if rows of `length` elements, and pieces of them, are whole and aligned packs, and so are their
// channels.
template <class T>
bool is_whole(const Norm<T>& norm, std::int64_t length) {
  constexpr int kV = kPack<T>;
  const bool channels = norm.inner > 1 || (is_aligned<T, kV>(norm.weight.data) && is_aligned<T, kV>(norm.bias.data));
  return norm.aligned && length % kV == 0 && (channels || norm.depth == 1);
}
// use.operator()<whole>()
template <class Use>
void with_whole(bool whole, const Use& use) {
  whole ? use.template operator()<true>() : use.template operator()<false>();
}

// The same for rows of one channel: runs.
template <class T>
Norm<T> by_run(Norm<T> norm, const NormAttr& attr) {
  norm.groups = attr.channels();
  norm.depth = 1;
  norm.share = attr.depth;
  return norm;
}

// in: x, weight, bias, residual.
template <class T>
Norm<T> norm_of(std::span<const Tensor> in, const NormAttr& attr, const Statistics<compute_t<T>>* statistics,
                bool others_aligned) {
  using A = compute_t<T>;
  return {in[0].data<T>(),
          data_or_null<T>(in[3]),
          {in[1].defined() ? in[1].raw_data() : nullptr, attr.wide},
          {in[2].defined() ? in[2].raw_data() : nullptr, attr.wide},
          statistics,
          attr.groups,
          attr.depth,
          attr.inner,
          1,
          attr.across,
          attr.centred,
          aligned(in[0]) && aligned(in[3]) && others_aligned,
          static_cast<A>(attr.eps),
          Activate<A>(attr.activation),
          ActivationSlope<A>(attr.activation)};
}

inline LaunchGeometry geometry_of(const Pieces& pieces) {
  return {dim3(static_cast<unsigned>(pieces.blocks())), dim3(kThreads)};
}

// A buffer of `count` V, on x's device.
template <class V>
Tensor make_array(std::int64_t count, const Tensor& x) {
  return make_tensor({Shape{count * static_cast<std::int64_t>(sizeof(V))}, kUInt8}, x.device());
}
template <class V>
V* array(Tensor& tensor) {
  return static_cast<V*>(tensor.raw_mutable_data());
}

inline ReduceAttr reduction(const Shape& from, std::uint32_t axes) { return {from, axes, false, 1.0}; }

}  // namespace adjoint::cuda::norm
