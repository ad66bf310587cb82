// Picking by index on CUDA. Sums for one element are deterministic: indices are sorted, with their places, and each run
// of equal indices is added up in order.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/runtime.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/index/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>
#include <adjoint/core/cuda/rows.cuh>

#include <cub/device/device_radix_sort.cuh>

#include <bit>
#include <cstring>
#include <type_traits>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = detail::kElementwiseThreads;

LaunchGeometry geometry(std::int64_t threads, const Tensor& on) {
  return detail::elementwise_geometry(threads, on.device().index);
}

// The threads of a grid share [0, count).
template <class F>
__device__ void for_each(std::int64_t count, const F& f) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) f(i);
}

// Maps elements of (outer, count, inner) to elements of x.
struct Places {
  IndexLayout at;
  RowSplit by_inner, by_count, by_repeat;

  Places(const IndexLayout& layout, std::int64_t elements)
      : at(layout),
        by_inner(layout.inner, elements),
        by_count(layout.count, elements),
        by_repeat(layout.repeat, elements) {}
  /// The place of element `e`, or -1 if its index is out of range.
  __device__ std::int64_t of(const std::int64_t* index, std::int64_t e, std::int64_t* name) const {
    std::int64_t i = e, j = by_inner(i);
    const std::int64_t o = by_count(j);
    std::int64_t rest = o;
    const std::int64_t k = index[at.each ? e : by_repeat(rest) * at.count + j];
    *name = k;
    return k >= 0 && k < at.extent ? (o * at.extent + k) * at.inner + i : -1;
  }
};

constexpr int kItems = detail::kItemsAThread;  // per thread, loaded before the first is stored

template <class Bits>
__global__ void __launch_bounds__(kThreads)
    take_elements(const __grid_constant__ Places places, std::int64_t count, Bits outside, const Bits* __restrict__ x,
                  const std::int64_t* __restrict__ index, Bits* __restrict__ picked) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kThreads * kItems) + threadIdx.x;
  Bits taken[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    std::int64_t name;
    const std::int64_t place = places.of(index, min(first + item * kThreads, count - 1), &name);
    taken[item] = place >= 0 ? x[place] : name == kNowhere ? Bits{} : outside;
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (first + item * kThreads < count) picked[first + item * kThreads] = taken[item];
  }
}

template <class Bits>
__global__ void __launch_bounds__(kThreads)
    put_elements(const __grid_constant__ Places places, std::int64_t count, const Bits* __restrict__ picked,
                 const std::int64_t* __restrict__ index, Bits* __restrict__ x) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kThreads * kItems) + threadIdx.x;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const std::int64_t e = first + item * kThreads;
    if (e >= count) return;
    std::int64_t name;
    const std::int64_t place = places.of(index, e, &name);
    if (place >= 0) x[place] = picked[e];
  }
}

// NaN, or 0 for integers.
std::uint64_t bits_outside(DType dtype) {
  switch (dtype) {
    case kFloat16: return 0x7e00U;
    case kBFloat16: return 0x7fc0U;
    case kFloat32: return 0x7fc00000U;
    case kFloat64: return 0x7ff8000000000000U;
    default: return 0;
  }
}

// Rows that share an index move in the largest pieces that divide them and their addresses: f.operator()<Piece>(places,
// pieces), for `elements` of x and of the picked tensor.
template <class F>
void visit_pieces(const IndexLayout& at, std::int64_t elements, const Tensor& x, const Tensor& picked, const F& f) {
  const auto size = static_cast<std::int64_t>(element_size(x.dtype()));
  std::int64_t bytes = size;
  if (!at.each) {
    const auto fits = [&](std::int64_t piece) {
      const auto unit = static_cast<std::uintptr_t>(piece);
      return at.inner * size % piece == 0 && reinterpret_cast<std::uintptr_t>(x.raw_data()) % unit == 0 &&
             reinterpret_cast<std::uintptr_t>(picked.raw_data()) % unit == 0;
    };
    while (bytes < 16 && fits(2 * bytes)) bytes *= 2;
  }
  IndexLayout pieces = at;
  pieces.inner = at.inner * size / bytes;
  const std::int64_t count = elements * size / bytes;
  const Places places(pieces, count);
  switch (bytes) {
    case 1: return f.template operator()<std::uint8_t>(places, count);
    case 2: return f.template operator()<std::uint16_t>(places, count);
    case 4: return f.template operator()<std::uint32_t>(places, count);
    case 8: return f.template operator()<std::uint64_t>(places, count);
    default: return f.template operator()<Pack<std::uint64_t, 2>>(places, count);
  }
}

// An element's bits, repeated to fill a piece.
template <class Piece>
Piece repeated(std::uint64_t bits, std::size_t size) {
  Piece piece;
  for (std::size_t at = 0; at < sizeof(Piece); at += size)
    std::memcpy(reinterpret_cast<unsigned char*>(&piece) + at, &bits, size);
  return piece;
}

// ---- Sums.

// A separate index for each element of `inner` becomes an index into a longer axis: (outer, extent * inner).
IndexLayout merged(const IndexLayout& at) {
  if (!at.each) return at;
  return {at.outer, at.extent * at.inner, 1, at.count * at.inner, 1, false};
}

// Maps element p of the index to its element's key in (outer / repeat, extent), or to `beyond` if it has no element.
__global__ void make_keys(IndexLayout at, std::int64_t inner, std::int64_t count, std::uint64_t beyond,
                          const std::int64_t* __restrict__ index, std::uint64_t* __restrict__ keys,
                          std::int64_t* __restrict__ places) {
  for_each(count, [&](std::int64_t p) {
    const std::int64_t k = index[p], group = p / at.count;
    const bool inside = k >= 0 && k < at.extent / inner;
    keys[p] = inside ? static_cast<std::uint64_t>(group * at.extent + k * inner + p % inner) : beyond;
    places[p] = p;
  });
}

struct Sorted {
  std::int64_t count, chunk, lanes;  // lanes: elements that share an index
  std::uint64_t beyond;
  const std::uint64_t* keys;
  const std::int64_t* places;

  __device__ std::int64_t end_of(std::int64_t c) const { return min(count, (c + 1) * chunk); }
  __device__ bool joins(std::int64_t p) const { return p > 0 && p < count && keys[p - 1] == keys[p]; }
};

// Element `lane` of those that share an index, in (outer, extent, inner) or (outer, count, inner).
__device__ std::int64_t lane_of(const IndexLayout& at, std::int64_t extent, std::int64_t place, std::int64_t lane) {
  const std::int64_t group = place / extent, k = place % extent, r = lane / at.inner, i = lane % at.inner;
  return ((group * at.repeat + r) * extent + k) * at.inner + i;
}

// Adds up the runs of equal keys in each chunk: whole runs into `out`, partial ones into partial (chunk, 2, lane): the
// end of a run from before, and the start of a run that continues.
template <class T, class A>
__global__ void sum_chunks(IndexLayout at, Sorted sorted, std::int64_t count, const T* __restrict__ picked,
                           A* __restrict__ partial, T* __restrict__ out) {
  for_each(count, [&](std::int64_t t) {
    const std::int64_t c = t / sorted.lanes, lane = t % sorted.lanes, begin = c * sorted.chunk, end = sorted.end_of(c);
    for (std::int64_t p = begin; p < end;) {
      const std::uint64_t key = sorted.keys[p];
      if (key == sorted.beyond) return;
      const bool from_before = p == begin && sorted.joins(p);
      A sum{};
      do {
        sum = static_cast<A>(sum + static_cast<A>(picked[lane_of(at, at.count, sorted.places[p], lane)]));
        ++p;
      } while (p < end && sorted.keys[p] == key);
      if (from_before) {
        partial[2 * c * sorted.lanes + lane] = sum;
      } else if (p == end && sorted.joins(p)) {
        partial[(2 * c + 1) * sorted.lanes + lane] = sum;
      } else {
        T& result = out[lane_of(at, at.extent, static_cast<std::int64_t>(key), lane)];
        result = convert<T>(static_cast<A>(static_cast<A>(result) + sum));
      }
    }
  });
}

// The runs that begin in a chunk and continue behind it.
template <class T, class A>
__global__ void sum_long_runs(IndexLayout at, Sorted sorted, std::int64_t count, const A* __restrict__ partial,
                              T* __restrict__ out) {
  for_each(count, [&](std::int64_t t) {
    const std::int64_t first = t / sorted.lanes, lane = t % sorted.lanes, end = sorted.end_of(first);
    const std::uint64_t key = sorted.keys[end - 1];
    if (!sorted.joins(end) || key == sorted.beyond) return;
    const std::int64_t begin = first * sorted.chunk;
    if (sorted.joins(begin) && sorted.keys[begin] == key) return;  // the run began before
    A sum = partial[(2 * first + 1) * sorted.lanes + lane];
    for (std::int64_t c = first + 1;; ++c) {
      sum = static_cast<A>(sum + partial[2 * c * sorted.lanes + lane]);
      const std::int64_t last = sorted.end_of(c);
      if (sorted.keys[last - 1] != key || !sorted.joins(last)) break;
    }
    T& result = out[lane_of(at, at.extent, static_cast<std::int64_t>(key), lane)];
    result = convert<T>(static_cast<A>(static_cast<A>(result) + sum));
  });
}

Tensor workspace(std::int64_t count, DType dtype, const Tensor& like) {
  return make_tensor({Shape{count}, dtype}, like.device());
}

// Sorts keys with their places by the lowest `bits` bits; the sort is stable.
void sort_pairs(Tensor& keys, Tensor& places, int bits) {
  Tensor sorted_keys = workspace(keys.numel(), kInt64, keys), sorted_places = workspace(keys.numel(), kInt64, keys);
  const int device = keys.device().index;
  const DeviceGuard guard(device);
  const auto sort = [&](void* memory, std::size_t& bytes) {
    const cudaError_t status =
        cub::DeviceRadixSort::SortPairs(memory, bytes, static_cast<const std::uint64_t*>(keys.raw_data()),
                                        static_cast<std::uint64_t*>(sorted_keys.raw_mutable_data()),
                                        static_cast<const std::int64_t*>(places.raw_data()),
                                        sorted_places.mutable_data<std::int64_t>(), keys.numel(), 0, bits,
                                        current_stream(device));
    check(status, "cub::DeviceRadixSort::SortPairs");
  };
  std::size_t bytes = 0;
  sort(nullptr, bytes);
  Tensor memory = workspace(static_cast<std::int64_t>(bytes), kUInt8, keys);
  sort(memory.raw_mutable_data(), bytes);
  keys = sorted_keys;
  places = sorted_places;
}

// ---- The last of equal indices: the largest j that names an element, by atomic maxima of integers, whose order does
// not matter. Only the places that are named are set up.

enum class Pass { kClear, kVote, kDecide };

template <Pass kPass>
__global__ void vote(IndexLayout at, std::int64_t width, std::int64_t count, const std::int64_t* __restrict__ index,
                     long long* __restrict__ winners, std::int64_t* __restrict__ out) {
  for_each(count, [&](std::int64_t e) {
    const std::int64_t k = index[e], column = e % width, row = e / width, j = row % at.count, group = row / at.count;
    const bool inside = k >= 0 && k < at.extent;
    long long* const winner = winners + (inside ? (group * at.extent + k) * width + column : 0);
    if constexpr (kPass == Pass::kClear) {
      if (inside) *winner = -1;
    } else if constexpr (kPass == Pass::kVote) {
      if (inside) atomicMax(winner, static_cast<long long>(j));
    } else {
      out[e] = inside && *winner == j ? k : kNowhere;
    }
  });
}

// ---- Combining the indices of several axes.

constexpr std::int64_t kOutside = -1;  // matches no element, and is not kNowhere

struct Combine {
  std::int64_t extent;
  __device__ std::int64_t operator()(std::int64_t k, std::int64_t running) const {
    const std::int64_t place = k < 0 ? k + extent : k;
    return running < 0 || place < 0 || place >= extent ? kOutside : running * extent + place;
  }
  __device__ std::int64_t operator()(std::int64_t k) const { return (*this)(k, 0); }
};

// ---- Places of flags: a warp a chunk.

constexpr int kWarp = 32;

struct Extents {
  int rank;
  std::int64_t extents[kMaxRank];
};

template <class Use>
__device__ void for_each_flag(const bool* flags, std::int64_t numel, std::int64_t chunk, const Use& use) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t e = chunk * kNonzeroChunk + lane; e - lane < min(numel, (chunk + 1) * kNonzeroChunk); e += kWarp) {
    const bool set = e < numel && flags[e];
    use(e, set, __ballot_sync(0xffffffffU, set), lane);
  }
}

__global__ void count_in_chunks(const bool* __restrict__ flags, std::int64_t numel, std::int64_t chunks,
                                std::int64_t* __restrict__ counts) {
  const std::int64_t chunk = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
  if (chunk >= chunks) return;
  std::int64_t total = 0;
  for_each_flag(flags, numel, chunk, [&](std::int64_t, bool, unsigned ballot, int) { total += __popc(ballot); });
  if (threadIdx.x % kWarp == 0) counts[chunk] = total;
}

__global__ void write_coordinates(const bool* __restrict__ flags, std::int64_t numel, std::int64_t chunks,
                                  const std::int64_t* __restrict__ offsets, Extents shape,
                                  std::int64_t* __restrict__ places) {
  const std::int64_t chunk = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
  if (chunk >= chunks) return;
  std::int64_t before = offsets[chunk];
  for_each_flag(flags, numel, chunk, [&](std::int64_t e, bool set, unsigned ballot, int lane) {
    if (set) {
      std::int64_t* const to = places + (before + __popc(ballot & ((1U << lane) - 1U))) * shape.rank;
      std::int64_t rest = e;
      for (int axis = shape.rank - 1; axis >= 0; --axis) {
        to[axis] = rest % shape.extents[axis];
        rest /= shape.extents[axis];
      }
    }
    before += __popc(ballot);
  });
}

LaunchGeometry warp_each(std::int64_t chunks) {
  return {dim3(static_cast<unsigned>((chunks * kWarp + kThreads - 1) / kThreads)), dim3(kThreads)};
}

}  // namespace

void take(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr) {
  if (out.numel() == 0) return;
  void* const picked = out.raw_mutable_data();
  visit_pieces(attr.layout, out.numel(), in[0], out, [&]<class Piece>(const Places& places, std::int64_t count) {
    const auto outside =
        repeated<Piece>(bits_outside(out.dtype()), static_cast<std::size_t>(element_size(out.dtype())));
    launch(take_elements<Piece>, detail::covering_geometry((count + kItems - 1) / kItems), out.device().index, places,
           count, outside, static_cast<const Piece*>(in[0].raw_data()), in[1].data<std::int64_t>(),
           static_cast<Piece*>(picked));
  });
}

void put(Tensor& x, const Tensor& picked, const Tensor& index, const IndexAttr& attr) {
  if (picked.numel() == 0) return;
  void* const to = x.raw_mutable_data();
  visit_pieces(attr.layout, picked.numel(), x, picked, [&]<class Piece>(const Places& places, std::int64_t count) {
    launch(put_elements<Piece>, detail::covering_geometry((count + kItems - 1) / kItems), x.device().index, places,
           count, static_cast<const Piece*>(picked.raw_data()), index.data<std::int64_t>(), static_cast<Piece*>(to));
  });
}

void accumulate(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr) {
  if (in[2].defined()) {
    copy_into(in[2], out);
  } else {
    out.zero_();
  }
  const std::int64_t indices = in[1].numel();
  if (indices == 0 || in[0].numel() == 0) return;
  const IndexLayout at = merged(attr.layout);
  const int device = out.device().index;
  const auto beyond = static_cast<std::uint64_t>(at.outer / at.repeat * at.extent);
  Tensor keys = workspace(indices, kInt64, out), places = workspace(indices, kInt64, out);
  launch(make_keys, geometry(indices, out), device, at, attr.layout.each ? attr.layout.inner : std::int64_t{1}, indices,
         beyond, in[1].data<std::int64_t>(), static_cast<std::uint64_t*>(keys.raw_mutable_data()),
         places.mutable_data<std::int64_t>());
  sort_pairs(keys, places, std::bit_width(beyond));
  const std::int64_t lanes = at.repeat * at.inner, chunk = lanes < kWarp ? 8 : 32;
  const Sorted sorted{
      indices, chunk, lanes, beyond, static_cast<const std::uint64_t*>(keys.raw_data()), places.data<std::int64_t>()};
  const std::int64_t threads = (indices + chunk - 1) / chunk * lanes;
  visit(out.dtype(), [&]<class T>() {
    using A = compute_t<T>;
    Tensor partial = workspace(2 * threads, dtype_of<A>, out);
    launch(sum_chunks<T, A>, geometry(threads, out), device, at, sorted, threads, in[0].data<T>(),
           partial.mutable_data<A>(), out.mutable_data<T>());
    launch(sum_long_runs<T, A>, geometry(threads, out), device, at, sorted, threads, partial.data<A>(),
           out.mutable_data<T>());
  });
}

void last_of_equals(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr) {
  const IndexLayout& at = attr.layout;
  const std::int64_t width = at.each ? at.inner : 1, count = out.numel();
  Tensor winners = workspace(at.outer / at.repeat * at.extent * width, kInt64, out);
  const auto run = [&](const auto& kernel) {
    launch(kernel, geometry(count, out), out.device().index, at, width, count, in[0].data<std::int64_t>(),
           static_cast<long long*>(winners.raw_mutable_data()), out.mutable_data<std::int64_t>());
  };
  run(vote<Pass::kClear>);
  run(vote<Pass::kVote>);
  run(vote<Pass::kDecide>);
}

void combine(std::span<const Tensor> in, Tensor& out, const CombineAttr& attr) {
  using I = std::int64_t;
  const Combine f{attr.extent};
  in[1].defined() ? elementwise<I(I, I)>(f, out, in[0], in[1]) : elementwise<I(I)>(f, out, in[0]);
}

void count_flags(const Tensor& flags, Tensor& counts) {
  launch(count_in_chunks, warp_each(counts.numel()), flags.device().index, flags.data<bool>(), flags.numel(),
         counts.numel(), counts.mutable_data<std::int64_t>());
}

void write_places(const Tensor& flags, const Tensor& offsets, const Shape& shape, Tensor& places) {
  Extents extents{static_cast<int>(shape.size()), {}};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) extents.extents[axis] = shape[axis];
  launch(write_coordinates, warp_each(offsets.numel()), flags.device().index, flags.data<bool>(), flags.numel(),
         offsets.numel(), offsets.data<std::int64_t>(), extents, places.mutable_data<std::int64_t>());
}

}  // namespace adjoint::cuda
