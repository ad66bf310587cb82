// Padding on the CPU, one row per step: its middle is one copy, and its ends are looked up.
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/pad/kernels.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kElementsPerTask = 1 << 15;

std::int64_t grain_of(std::int64_t width) { return std::max<std::int64_t>(1, kElementsPerTask / width); }

template <class Bits>
void pad_rows(const Tensor& in, Tensor& out, const PadMap& map) {
  const PadAxis &d = map.axes[0], &h = map.axes[1], &w = map.axes[2];
  const auto value = static_cast<Bits>(map.value);
  const auto* from = static_cast<const Bits*>(in.raw_data());
  auto* to = static_cast<Bits*>(out.raw_mutable_data());
  parallel_ranges(out.numel() / w.out, grain_of(w.out), [&, from, to](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t plane = row / h.out / d.out;
      const std::int64_t from_d = pad_map::source(d, map.mode, row / h.out % d.out);
      const std::int64_t from_h = pad_map::source(h, map.mode, row % h.out);
      Bits* const line = to + row * w.out;
      if (from_d < 0 || from_h < 0) {
        std::fill_n(line, w.out, value);
        continue;
      }
      const Bits* const source = from + ((plane * d.in + from_d) * h.in + from_h) * w.in;
      const auto look_up = [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t x = first; x < last; ++x) {
          const std::int64_t at = pad_map::source(w, map.mode, x);
          line[x] = at < 0 ? value : source[at];
        }
      };
      look_up(0, w.before);
      std::copy_n(source, w.in, line + w.before);
      look_up(w.before + w.in, w.out);
    }
  });
}

template <class T>
void add_rows(const Tensor& in, Tensor& out, const PadMap& map) {
  using C = compute_t<T>;
  const PadAxis &d = map.axes[0], &h = map.axes[1], &w = map.axes[2];
  const T* from = in.data<T>();
  T* to = out.mutable_data<T>();
  parallel_ranges(out.numel() / w.in, grain_of(w.out), [&, from, to](std::int64_t begin, std::int64_t end) {
    std::vector<C> sums(static_cast<std::size_t>(w.out));
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t plane = row / h.in / d.in;
      const pad_map::Places planes = pad_map::places(d, map.mode, row / h.in % d.in);
      const pad_map::Places lines = pad_map::places(h, map.mode, row % h.in);
      std::fill(sums.begin(), sums.end(), C(0));
      for (std::int64_t a = 0; a < planes.count; ++a) {
        for (std::int64_t b = 0; b < lines.count; ++b) {
          const T* const line = from + ((plane * d.out + planes[a]) * h.out + lines[b]) * w.out;
          for (std::int64_t x = 0; x < w.out; ++x) sums[static_cast<std::size_t>(x)] += convert<C>(line[x]);
        }
      }
      for (std::int64_t x = 0; x < w.in; ++x) {
        const pad_map::Places columns = pad_map::places(w, map.mode, x);
        C sum = C(0);
        for (std::int64_t c = 0; c < columns.count; ++c) sum += sums[static_cast<std::size_t>(columns[c])];
        to[row * w.in + x] = convert<T>(sum);
      }
    }
  });
}

}  // namespace

void pad(std::span<const Tensor> in, Tensor& out, const PadAttr& attr) {
  visit_bits(out.dtype(), [&]<class Bits>() { pad_rows<Bits>(in[0], out, attr.map); });
}

void pad_adjoint(std::span<const Tensor> in, Tensor& out, const PadAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() { add_rows<T>(in[0], out, attr.map); });
}

}  // namespace adjoint::cpu
