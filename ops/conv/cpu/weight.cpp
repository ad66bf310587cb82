// conv_weight on the CPU: outer products, summed over positions (ops/matmul/cpu/outer_sums.h).
//
//   filter[f, c, k] = sum over n and o of image[n, c, o * stride - padding + k * dilation] * feature[n, f, o]
//
// Each tap sums over just the positions whose image position exists.

#include <adjoint/core/base/quotients.h>
#include <adjoint/ops/conv/cpu/backend.h>
#include <adjoint/ops/conv/cpu/weight_chunks.h>
#include <adjoint/ops/conv/cpu/weight_narrow.h>
#include <adjoint/ops/matmul/cpu/outer_sums.h>

#include <algorithm>

namespace adjoint::cpu {
namespace {

// Feature positions o, along one axis, whose image position for tap k exists, clamped to `within`.
Range reached(const ConvGeometry& g, std::size_t axis, std::int64_t k, Range within) {
  const std::int64_t base = image_position(0, k, g.stride[axis], g.padding[axis], g.dilation[axis]);
  const std::int64_t first = base >= 0 ? 0 : ceil_div(-base, g.stride[axis]);
  const std::int64_t last = base >= g.image[axis] ? 0 : (g.image[axis] - 1 - base) / g.stride[axis] + 1;
  const std::int64_t begin = std::clamp(first, within.begin, within.end);
  return {begin, std::clamp(last, begin, std::max(begin, within.end))};
}

// The part of the image that a chunk reads.
Chunk image_part(const ConvGeometry& g, const Chunk& chunk) {
  const auto image_range = [&](std::size_t axis, Range o) {
    const std::int64_t first = image_position(o.begin, 0, g.stride[axis], g.padding[axis], g.dilation[axis]);
    const std::int64_t last =
        image_position(o.end - 1, g.kernel[axis] - 1, g.stride[axis], g.padding[axis], g.dilation[axis]);
    const std::int64_t begin = std::clamp<std::int64_t>(first, 0, g.image[axis]);
    return Range{begin, std::clamp<std::int64_t>(last + 1, begin, g.image[axis])};
  };
  return {chunk.n, image_range(0, chunk.d), image_range(1, chunk.h), image_range(2, chunk.w)};
}

template <class T>
void outer_products(const Tensor& image, const Tensor& feature, Tensor& out, const ConvGeometry& g) {
  OuterSums<T> sums(g.groups, g.taps(),
                    {image.data<T>(), g.image_channels_per_group(), g.image.d, g.image.h, g.image.w},
                    {feature.data<T>(), g.feature_channels_per_group(), g.feature.d, g.feature.h, g.feature.w});
  sums.add(
      make_chunks(g, sums.chunk_positions()), [&](const Chunk& chunk) { return image_part(g, chunk); },
      [&](const Chunk& chunk, std::int64_t tap) {
        const std::int64_t k[] = {tap / (g.kernel.h * g.kernel.w), tap / g.kernel.w % g.kernel.h, tap % g.kernel.w};
        const Range d = reached(g, 0, k[0], chunk.d), h = reached(g, 1, k[1], chunk.h),
                    w = reached(g, 2, k[2], chunk.w);
        const auto image_of = [&](std::size_t axis, const Range& o) {
          return image_position(o.begin, k[axis], g.stride[axis], g.padding[axis], g.dilation[axis]);
        };
        return PairedPositions{chunk.n,
                               d.size(),
                               h.size(),
                               w.size(),
                               {{image_of(0, d), image_of(1, h), image_of(2, w)}, {g.stride.d, g.stride.h, g.stride.w}},
                               {{d.begin, h.begin, w.begin}, {1, 1, 1}}};
      });
  sums.write(out.mutable_data<T>());
}

}  // namespace

template <class T>
void vector_conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& g) {
  if (is_narrow<T>(g)) {
    narrow_weight<T>(in[0], in[1], out, g);
  } else {
    outer_products<T>(in[0], in[1], out, g);
  }
}

template void vector_conv_weight<float>(std::span<const Tensor>, Tensor&, const ConvGeometry&);
template void vector_conv_weight<double>(std::span<const Tensor>, Tensor&, const ConvGeometry&);

}  // namespace adjoint::cpu
