// Padding on CUDA, by rows (core/cuda/rows.cuh).
#include <adjoint/core/convert.h>
#include <adjoint/ops/pad/kernels.h>
#include <adjoint/core/cuda/rows.cuh>

namespace adjoint::cuda {
namespace {

template <class Bits>
__global__ void pad_rows(PadMap map, Rows rows, RowSplit by_h, RowSplit by_d, const Bits* __restrict__ in,
                         Bits* __restrict__ out) {
  const PadAxis &d = map.axes[0], &h = map.axes[1], &w = map.axes[2];
  const std::int64_t x = rows.column();
  if (x >= w.out) return;
  const std::int64_t from_x = pad_map::source(w, map.mode, x);
  rows.each([&](std::int64_t row) {
    std::int64_t y = row;
    std::int64_t z = by_h(y);
    const std::int64_t plane = by_d(z);
    const std::int64_t from_y = pad_map::source(h, map.mode, y), from_z = pad_map::source(d, map.mode, z);
    Bits bits = static_cast<Bits>(map.value);
    if (from_x >= 0 && from_y >= 0 && from_z >= 0) bits = in[((plane * d.in + from_z) * h.in + from_y) * w.in + from_x];
    out[row * w.out + x] = bits;
  });
}

template <class T>
__global__ void add_rows(PadMap map, Rows rows, RowSplit by_h, RowSplit by_d, const T* __restrict__ in,
                         T* __restrict__ out) {
  using C = compute_t<T>;
  const PadAxis &d = map.axes[0], &h = map.axes[1], &w = map.axes[2];
  const std::int64_t x = rows.column();
  if (x >= w.in) return;
  const pad_map::Places columns = pad_map::places(w, map.mode, x);
  rows.each([&](std::int64_t row) {
    std::int64_t y = row;
    std::int64_t z = by_h(y);
    const std::int64_t plane = by_d(z);
    const pad_map::Places planes = pad_map::places(d, map.mode, z), lines = pad_map::places(h, map.mode, y);
    C sum = C(0);
#pragma unroll 1
    for (std::int64_t c = 0; c < columns.count; ++c) {
#pragma unroll 1
      for (std::int64_t a = 0; a < planes.count; ++a) {
#pragma unroll 1
        for (std::int64_t b = 0; b < lines.count; ++b) {
          sum += convert<C>(in[((plane * d.out + planes[a]) * h.out + lines[b]) * w.out + columns[c]]);
        }
      }
    }
    out[row * w.in + x] = convert<T>(sum);
  });
}

template <class Bits>
void run(const Tensor& in, Tensor& out, const PadMap& map) {
  const PadAxis &d = map.axes[0], &h = map.axes[1], &w = map.axes[2];
  const std::int64_t count = out.numel() / w.out;
  const Rows rows(count, w.out);
  launch(pad_rows<Bits>, rows.geometry(), out.device().index, map, rows, RowSplit(h.out, count), RowSplit(d.out, count),
         static_cast<const Bits*>(in.raw_data()), static_cast<Bits*>(out.raw_mutable_data()));
}

}  // namespace

void pad(std::span<const Tensor> in, Tensor& out, const PadAttr& attr) {
  visit_bits(out.dtype(), [&]<class Bits>() { run<Bits>(in[0], out, attr.map); });
}

void pad_adjoint(std::span<const Tensor> in, Tensor& out, const PadAttr& attr) {
  const PadAxis &d = attr.map.axes[0], &h = attr.map.axes[1], &w = attr.map.axes[2];
  const std::int64_t count = out.numel() / w.in;
  const Rows rows(count, w.in);
  visit_floating(out.dtype(), [&]<class T>() {
    launch(add_rows<T>, rows.geometry(), out.device().index, attr.map, rows, RowSplit(h.in, count),
           RowSplit(d.in, count), in[0].data<T>(), out.mutable_data<T>());
  });
}

}  // namespace adjoint::cuda
