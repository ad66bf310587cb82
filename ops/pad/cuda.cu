// Padding on CUDA: a thread has neighbours that fill 16 bytes, and divides once for them.
#include <adjoint/core/convert.h>
#include <adjoint/ops/pad/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>
#include <adjoint/core/cuda/rows.cuh>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = detail::kElementwiseThreads;

template <class T>
inline constexpr int kPack = static_cast<int>(16 / sizeof(T));

// Calls use(v, row, x) for V neighbours from element `first` on of rows of `width` elements, `count` in all.
template <int V, class Use>
__device__ void each_neighbour(std::int64_t first, std::int64_t count, std::int64_t width, const RowSplit& by_width,
                               const Use& use) {
  std::int64_t x = first, row = by_width(x);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (first + v < count) use(v, row, x);
    if (++x == width) {
      x = 0;
      ++row;
    }
  }
}

template <class Bits>
__global__ void __launch_bounds__(kThreads)
    pad_elements(const __grid_constant__ PadMap map, RowSplit by_w, RowSplit by_h, RowSplit by_d, std::int64_t count,
                 const Bits* __restrict__ in, Bits* __restrict__ out) {
  const PadAxis &d = map.axes[0], &h = map.axes[1], &w = map.axes[2];
  const std::int64_t first = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack<Bits>;
  if (first >= count) return;
  std::int64_t row_before = -1, begin = -1;  // where the row comes from; negative: from the value
  Pack<Bits, kPack<Bits>> pack;
  each_neighbour<kPack<Bits>>(first, count, w.out, by_w, [&](int v, std::int64_t row, std::int64_t x) {
    if (row != row_before) {
      row_before = row;
      std::int64_t y = row, z = by_h(y);
      const std::int64_t plane = by_d(z);
      const std::int64_t from_y = pad_map::source(h, map.mode, y), from_z = pad_map::source(d, map.mode, z);
      begin = from_y < 0 || from_z < 0 ? -1 : ((plane * d.in + from_z) * h.in + from_y) * w.in;
    }
    const std::int64_t from_x = pad_map::source(w, map.mode, x);
    pack.values[v] = begin >= 0 && from_x >= 0 ? in[begin + from_x] : static_cast<Bits>(map.value);
  });
  detail::store_contiguous(pack, out + first, count - first, is_aligned<Bits, kPack<Bits>>(out));
}

// The places of the padded tensor that come from rows of one y and z.
struct PadLines {
  std::int64_t plane;
  pad_map::Places planes, lines;

  __device__ PadLines(const PadMap& map, const RowSplit& by_h, const RowSplit& by_d, std::int64_t row) {
    std::int64_t y = row, z = by_h(y);
    plane = by_d(z);
    planes = pad_map::places(map.axes[0], map.mode, z);
    lines = pad_map::places(map.axes[1], map.mode, y);
  }
  __device__ std::int64_t begin(const PadMap& map, std::int64_t a, std::int64_t b) const {
    const PadAxis &d = map.axes[0], &h = map.axes[1], &w = map.axes[2];
    return ((plane * d.out + planes[a]) * h.out + lines[b]) * w.out;
  }
  __device__ bool one() const { return planes.count == 1 && lines.count == 1; }
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

// Most elements were copied to one place: those are all loaded before the first is used, the others follow.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_elements(const __grid_constant__ PadMap map, RowSplit by_w, RowSplit by_h, RowSplit by_d, std::int64_t count,
                 const T* __restrict__ in, T* __restrict__ out) {
  using C = compute_t<T>;
  const PadAxis& w = map.axes[2];
  const std::int64_t first = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack<T>;
  if (first >= count) return;
  std::int64_t row_before = -1, begin = 0;
  bool one = true;
  unsigned several = 0;  // bit v: the v-th element has more places than one
  Pack<T, kPack<T>> pack;
  each_neighbour<kPack<T>>(first, count, w.in, by_w, [&](int v, std::int64_t row, std::int64_t x) {
    if (row != row_before) {
      row_before = row;
      const PadLines at(map, by_h, by_d, row);
      begin = at.begin(map, 0, 0);
      one = at.one();
    }
    const pad_map::Places columns = pad_map::places(w, map.mode, x);
    pack.values[v] = in[begin + columns[0]];
    if (!one || columns.count > 1) several |= 1U << v;
  });
#pragma unroll
  for (int v = 0; v < kPack<T>; ++v) pack.values[v] = convert<T>(C(0) + convert<C>(pack.values[v]));
  if (several != 0) {
    each_neighbour<kPack<T>>(first, count, w.in, by_w, [&](int v, std::int64_t row, std::int64_t x) {
      if ((several >> v & 1U) == 0) return;
      const PadLines at(map, by_h, by_d, row);
      pack.values[v] = convert<T>(sum_of_places(map, at, pad_map::places(w, map.mode, x), in));
    });
  }
  detail::store_contiguous(pack, out + first, count - first, is_aligned<T, kPack<T>>(out));
}

// One thread for each 16 bytes of the result, whose rows have map.axes[k].*extent elements.
template <class T>
void run(void (*kernel)(PadMap, RowSplit, RowSplit, RowSplit, std::int64_t, const T*, T*),
         std::int64_t PadAxis::*extent, const PadMap& map, const Tensor& in, Tensor& out) {
  const std::int64_t count = out.numel();
  if (count == 0) return;
  const auto by = [&](int axis) { return RowSplit(map.axes[axis].*extent, count); };
  launch(kernel, detail::covering_geometry((count - 1) / kPack<T> + 1), out.device().index, map, by(2), by(1), by(0),
         count, static_cast<const T*>(in.raw_data()), static_cast<T*>(out.raw_mutable_data()));
}

}  // namespace

void pad(std::span<const Tensor> in, Tensor& out, const PadAttr& attr) {
  visit_bits(out.dtype(), [&]<class Bits>() { run<Bits>(pad_elements<Bits>, &PadAxis::out, attr.map, in[0], out); });
}

void pad_adjoint(std::span<const Tensor> in, Tensor& out, const PadAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() { run<T>(add_elements<T>, &PadAxis::in, attr.map, in[0], out); });
}

}  // namespace adjoint::cuda
