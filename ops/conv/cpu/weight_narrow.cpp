// Dot products of rows, one task per pair of channels. If a filter has few pairs, shares of the positions are summed
// separately and then added up in order, as determined by shapes alone.
#include <adjoint/ops/conv/cpu/weight_narrow.h>

#include <adjoint/core/base/parallel.h>
#include <adjoint/ops/conv/cpu/weight_chunks.h>

#include <vector>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kChunkPositions = 4096;

// Elements of the image rows that a chunk reads, if they are split by column.
std::int64_t rows_read(const ConvGeometry& g, const Chunk& chunk) {
  if (g.stride.w == 1) return 0;
  const std::int64_t rows = (chunk.h.size() - 1) * g.stride.h + (g.kernel.h - 1) * g.dilation.h + 1;
  const std::int64_t columns = (chunk.w.size() + 1) * g.stride.w + (g.kernel.w - 1) * g.dilation.w + g.stride.w;
  return std::min(rows, g.image.h) * std::min(columns, g.image.w + g.stride.w);
}

DotTile dot_tile(const ConvGeometry& g, const Chunk& chunk) {
  const auto place = [](const auto& extent) { return PlanePlace{extent.h, extent.w}; };
  return {.image_extent = place(g.image),
          .begin = {chunk.h.begin, chunk.w.begin},
          .extent = {chunk.h.size(), chunk.w.size()},
          .feature_width = g.feature.w,
          .kernel = place(g.kernel),
          .stride = place(g.stride),
          .padding = place(g.padding),
          .dilation = place(g.dilation)};
}

}  // namespace

template <class T>
void narrow_weight(const Tensor& image, const Tensor& feature, Tensor& filter, const ConvGeometry& g) {
  constexpr std::int64_t kEnough = 16;
  const ConvKernels<T>& kernel = conv_kernels<T>();
  const std::vector<Chunk> chunks = make_chunks(g, kChunkPositions);
  const auto count = static_cast<std::int64_t>(chunks.size());
  const std::int64_t image_channels = g.image_channels_per_group(), taps = g.taps();
  const std::int64_t pairs = g.feature_channels * image_channels;
  const std::int64_t shares =
      std::clamp<std::int64_t>(kEnough / std::max<std::int64_t>(1, pairs), 1, std::max<std::int64_t>(1, count));
  std::int64_t scratch = 0;
  for (const Chunk& chunk : chunks) scratch = std::max(scratch, rows_read(g, chunk));
  const T *images = image.data<T>(), *features = feature.data<T>();
  std::vector<T> sums(static_cast<std::size_t>(shares * pairs * taps), T{});
  parallel_for(shares * pairs, [&](std::int64_t task) {
    const std::int64_t share = task / pairs, pair = task % pairs;
    const std::int64_t f = pair / image_channels, group = f / g.feature_channels_per_group();
    const std::int64_t c = group * image_channels + pair % image_channels;
    for (std::int64_t i = share * count / shares; i < (share + 1) * count / shares; ++i) {
      const Chunk& chunk = chunks[static_cast<std::size_t>(i)];
      const DotTile tile = dot_tile(g, chunk);
      for (std::int64_t n = chunk.n.begin; n < chunk.n.end; ++n) {
        for (std::int64_t d = chunk.d.begin; d < chunk.d.end; ++d) {
          for (std::int64_t k = 0; k < g.kernel.d; ++k) {
            const std::int64_t image_d = image_position(d, k, g.stride.d, g.padding.d, g.dilation.d);
            if (image_d < 0 || image_d >= g.image.d) continue;
            kernel.tap_dots(tile, images + ((n * g.image_channels + c) * g.image.d + image_d) * g.image.h * g.image.w,
                            features + ((n * g.feature_channels + f) * g.feature.d + d) * g.feature.h * g.feature.w,
                            sums.data() + task * taps + k * g.kernel.h * g.kernel.w, thread_scratch<T>(scratch));
          }
        }
      }
    }
  });
  T* to = filter.mutable_data<T>();
  for (std::int64_t i = 0; i < pairs * taps; ++i) {
    T sum = sums[static_cast<std::size_t>(i)];
    for (std::int64_t share = 1; share < shares; ++share)
      sum += sums[static_cast<std::size_t>(share * pairs * taps + i)];
    to[i] = sum;
  }
}

template void narrow_weight<float>(const Tensor&, const Tensor&, Tensor&, const ConvGeometry&);
template void narrow_weight<double>(const Tensor&, const Tensor&, Tensor&, const ConvGeometry&);

}  // namespace adjoint::cpu
