// Padding on CUDA: a block has neighbours of the result, and computes the source of each of their rows once. A thread
// has 16 bytes of them, and copies them together if they are neighbours in x, too. The rest is shared out among the
// warp's threads, one element each: few threads of a row have such elements, and the rest of their warp would wait.
//
// Gradients: a thread's neighbours belong to one row, so elements that were copied once are read without computing each
// one's destination. The few that were copied several times follow one by one.
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/pad/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>
#include <adjoint/core/cuda/rows.cuh>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = detail::kElementwiseThreads;

template <class T>
inline constexpr int kPack = static_cast<int>(16 / sizeof(T));

struct PadSplits {
  RowSplit by_w, by_h, by_d;
};

// The source of the result's row `row`; negative: the value.
__device__ std::int64_t source_row(const PadMap& map, const PadSplits& splits, std::int64_t row) {
  const PadAxis &d = map.axes[0], &h = map.axes[1], &w = map.axes[2];
  std::int64_t y = row, z = splits.by_h(y);
  const std::int64_t plane = splits.by_d(z);
  const std::int64_t from_y = pad_map::source(h, map.mode, y), from_z = pad_map::source(d, map.mode, z);
  return from_y < 0 || from_z < 0 ? -1 : ((plane * d.in + from_z) * h.in + from_y) * w.in;
}

// Packs per thread if rows are long enough and there are blocks enough for a GPU.
constexpr int kManyPacks = 4;
constexpr std::int64_t kLeastBlocks = 512;

template <class Bits, int kPacks>
inline constexpr int kBlockElements = kThreads* kPack<Bits>* kPacks;

template <class Bits, int kPacks>
__global__ void __launch_bounds__(kThreads)
    pad_elements(const __grid_constant__ PadMap map, const __grid_constant__ PadSplits splits, std::int64_t count,
                 const Bits* __restrict__ in, Bits* __restrict__ out) {
  constexpr int V = kPack<Bits>, kWarp = 32, kElements = kBlockElements<Bits, kPacks>;
  __shared__ std::int64_t begins[kElements / kPacks + 1];  // source_row() of the block's rows of kPacks elements each
  __shared__ int others[kThreads];                         // per warp: the packs that are shared out
  const PadAxis& w = map.axes[2];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const std::int64_t first = std::int64_t{blockIdx.x} * kElements;
  const int here = static_cast<int>(min(count - first, std::int64_t{kElements}));
  std::int64_t first_x = first;
  const std::int64_t first_row = splits.by_w(first_x);
  std::int64_t last_x = first_x + here - 1;
  const std::int64_t last = splits.by_w(last_x);
  for (std::int64_t row = thread; row <= last; row += kThreads) begins[row] = source_row(map, splits, first_row + row);
  __syncthreads();
  const auto begin_of = [&](int element, std::int64_t& x) {
    x = first_x + element;
    return begins[splits.by_w(x)];
  };

  const bool packed = is_aligned<Bits, V>(out);
  Pack<Bits, V> packs[kPacks];
  unsigned whole = 0;  // bit p: packs[p] is whole
  const auto element_of = [&](int p) { return (p * kThreads + thread) * V; };
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int element = element_of(p);
    if (!packed || element >= here) continue;
    std::int64_t x;
    const std::int64_t begin = begin_of(element, x), from_x = x - w.before;
    const bool neighbours = begin >= 0 && from_x >= 0 && from_x + V <= w.in;
    if (!neighbours && (begin >= 0 || x + V > w.out)) continue;
    whole |= 1U << p;
#pragma unroll
    for (int v = 0; v < V; ++v) packs[p].values[v] = neighbours ? in[begin + from_x + v] : static_cast<Bits>(map.value);
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if ((whole >> p & 1U) != 0) *reinterpret_cast<Pack<Bits, V>*>(out + first + element_of(p)) = packs[p];
  }
  int* const of_warp = others + (thread - lane);
#pragma unroll 1
  for (int p = 0; p < kPacks; ++p) {
    const int element = element_of(p);
    const bool other = element < here && (whole >> p & 1U) == 0;
    const unsigned which = __ballot_sync(~0U, other);
    __syncwarp();  // of_warp is still being read
    if (other) of_warp[__popc(which & ((1U << lane) - 1))] = element;
    __syncwarp();
    for (int i = lane; i < __popc(which) * V; i += kWarp) {
      const int one = of_warp[i / V] + i % V;
      if (one >= here) continue;
      std::int64_t x;
      const std::int64_t begin = begin_of(one, x), from_x = pad_map::source(w, map.mode, x);
      out[first + one] = begin < 0 || from_x < 0 ? static_cast<Bits>(map.value) : in[begin + from_x];
    }
  }
}

// The places of the padded tensor that come from rows of one y and z.
struct PadLines {
  std::int64_t plane;
  pad_map::Places planes, lines;

  __device__ PadLines(const PadMap& map, std::int64_t of_plane, std::int64_t z, std::int64_t y)
      : plane(of_plane),
        planes(pad_map::places(map.axes[0], map.mode, z)),
        lines(pad_map::places(map.axes[1], map.mode, y)) {}
  __device__ std::int64_t begin(const PadMap& map, std::int64_t a, std::int64_t b) const {
    const PadAxis &d = map.axes[0], &h = map.axes[1], &w = map.axes[2];
    return ((plane * d.out + planes[a]) * h.out + lines[b]) * w.out;
  }
};

template <class T>
__device__ compute_t<T> sum_of_places(const PadMap& map, const PadLines& at, const pad_map::Places& columns,
                                      const T* __restrict__ in) {
  using C = compute_t<T>;
  C sum = C(0);
#pragma unroll 1
  for (std::int64_t c = 0; c < columns.count; ++c) {
#pragma unroll 1
    for (std::int64_t a = 0; a < at.planes.count; ++a) {
#pragma unroll 1
      for (std::int64_t b = 0; b < at.lines.count; ++b) sum += convert<C>(in[at.begin(map, a, b) + columns[c]]);
    }
  }
  return sum;
}

// The bits, of V with one per element, in [begin, end).
template <int V>
__device__ unsigned bits_between(std::int64_t begin, std::int64_t end) {
  const auto below = [](std::int64_t n) { return (1U << static_cast<int>(n < 0 ? 0 : n > V ? V : n)) - 1; };
  return below(end) & ~below(begin);
}

// Packs of a result's rows, which begin at multiples of 16 bytes: a row's first and last pack may reach into its
// neighbours.
struct Packs {
  std::int64_t rows, width;
  std::int64_t phase;  // elements of the first row's first pack that precede the row
  std::int64_t a_row;  // the most packs of a row
  RowSplit by_packs;

  template <class T>
  Packs(const T* out, std::int64_t row_count, std::int64_t row_width)
      : rows(row_count),
        width(row_width),
        phase(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out) / sizeof(T) % kPack<T>)),
        a_row(phase == 0 && width % kPack<T> == 0 ? width / kPack<T> : (width + 2 * kPack<T> - 2) / kPack<T>),
        by_packs(a_row, rows * a_row + kThreads) {}
};

// A thread's pack: columns from x on, which is negative before the row.
template <class T>
struct PackOfRow {
  static constexpr int V = kPack<T>;
  std::int64_t row, x;
  unsigned elements;  // bit v: column x + v belongs to the row
  T* to;

  __device__ PackOfRow(const Packs& packs, T* out) {
    std::int64_t pack = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    row = packs.by_packs(pack);
    const auto phase = static_cast<std::int64_t>(static_cast<std::uint64_t>(packs.phase + row * packs.width) % V);
    x = pack * V - phase;
    elements = row < packs.rows ? bits_between<V>(-x, packs.width - x) : 0;
    to = out + row * packs.width + x;
  }
  __device__ void store(const Pack<T, V>& values) const {
    if (elements == (1U << V) - 1) {
      *reinterpret_cast<Pack<T, V>*>(to) = values;
    } else {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if ((elements >> v & 1U) != 0) to[v] = values.values[v];
      }
    }
  }
};

// An element that was copied to several places: all of these z, y and x.
struct Several {
  pad_map::Repeated axes[3];
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    add_elements(const __grid_constant__ PadMap map, const __grid_constant__ Several several, Packs packs,
                 RowSplit by_h, RowSplit by_d, const T* __restrict__ in, T* __restrict__ out) {
  using C = compute_t<T>;
  const PadAxis &d = map.axes[0], &h = map.axes[1], &w = map.axes[2];
  const PackOfRow<T> at(packs, out);
  if (at.elements == 0) return;
  std::int64_t y = at.row, z = by_h(y);
  const std::int64_t plane = by_d(z);
  unsigned once = 0;  // like `elements`, for those that were copied once
  if (!several.axes[0].contains(z) && !several.axes[1].contains(y)) {
    const pad_map::Repeated& columns = several.axes[2];
    once = at.elements & ~bits_between<at.V>(columns.begin[0] - at.x, columns.end[0] - at.x) &
           ~bits_between<at.V>(columns.begin[1] - at.x, columns.end[1] - at.x);
  }
  const T* const line = in + ((plane * d.out + d.before + z) * h.out + h.before + y) * w.out + w.before + at.x;
  Pack<T, at.V> pack{};
#pragma unroll
  for (int v = 0; v < at.V; ++v) {
    if ((once >> v & 1U) != 0) pack.values[v] = line[v];
  }
#pragma unroll
  for (int v = 0; v < at.V; ++v) pack.values[v] = convert<T>(C(0) + convert<C>(pack.values[v]));
  at.store(pack);
  if (once == at.elements) return;
  const PadLines lines(map, plane, z, y);
#pragma unroll 1
  for (unsigned rest = at.elements & ~once; rest != 0;) {
    const int v = 31 - __clz(static_cast<int>(rest));
    rest ^= 1U << v;
    at.to[v] = convert<T>(sum_of_places(map, lines, pad_map::places(w, map.mode, at.x + v), in));
  }
}

}  // namespace

void pad(std::span<const Tensor> in, Tensor& out, const PadAttr& attr) {
  const std::int64_t count = out.numel();
  if (count == 0) return;
  const std::int64_t width = attr.map.axes[2].out;
  visit_bits(out.dtype(), [&]<class Bits>() {
    const auto run = [&]<int kPacks>() {
      constexpr std::int64_t kElements = kBlockElements<Bits, kPacks>;
      // A kernel counts a block's elements from the start of their first row.
      const auto by = [&](int axis) { return RowSplit(attr.map.axes[axis].out, count + kElements); };
      const LaunchGeometry geometry{dim3(static_cast<unsigned>((count - 1) / kElements + 1)), dim3(kThreads)};
      launch(pad_elements<Bits, kPacks>, geometry, out.device().index, attr.map, PadSplits{by(2), by(1), by(0)}, count,
             static_cast<const Bits*>(in[0].raw_data()), static_cast<Bits*>(out.raw_mutable_data()));
    };
    const bool many = width >= kManyPacks && count / kBlockElements<Bits, kManyPacks> >= kLeastBlocks;
    many ? run.template operator()<kManyPacks>() : run.template operator()<1>();
  });
}

void pad_adjoint(std::span<const Tensor> in, Tensor& out, const PadAttr& attr) {
  if (out.numel() == 0) return;
  const auto& axes = attr.map.axes;
  const std::int64_t rows = out.numel() / axes[2].in;
  Several several{};
  for (int k = 0; k < 3; ++k) several.axes[k] = pad_map::repeated(axes[k], attr.map.mode);
  visit_floating(out.dtype(), [&]<class T>() {
    T* const to = out.mutable_data<T>();
    const Packs packs(to, rows, axes[2].in);
    launch(add_elements<T>, detail::covering_geometry(rows * packs.a_row), out.device().index, attr.map, several, packs,
           RowSplit(axes[1].in, rows), RowSplit(axes[0].in, rows), in[0].data<T>(), to);
  });
}

}  // namespace adjoint::cuda
