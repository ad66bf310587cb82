#include <adjoint/ops/conv/correlation/paired_columns.h>

namespace adjoint::cuda {

bool pair_columns(const ConvGeometry& g, PairedColumns& pairs) {
  constexpr std::int64_t kVector = 8;  // halves in 16 bytes
  if (g.image.w % kVector != 0 || g.image.w == 0 || g.stride.w % 2 != 0) return false;
  const std::int64_t dilation = g.dilation.w;
  const auto odd = static_cast<std::int32_t>(g.padding.w % 2), taps = static_cast<std::int32_t>(g.kernel.w);
  pairs = {.geometry = g, .kernel_w = taps, .taps = {}};
  ConvGeometry& units = pairs.geometry;
  units.image.w = g.image.w / 2;
  units.stride.w = g.stride.w / 2;
  units.padding.w = (g.padding.w + odd) / 2;
  if (dilation % 2 == 0) {  // every tap has the same column in its unit
    units.dilation.w = dilation / 2;
    pairs.taps = odd ? PairTaps{.first = -taps, .step = taps} : PairTaps{.step = -taps};
    return true;
  }
  units.kernel.w = (odd + (taps - 1) * dilation) / 2 + 1;
  units.dilation.w = 1;
  pairs.taps = {.scale = 2, .first = -odd, .step = 1, .dilation = static_cast<std::int32_t>(dilation)};
  return dilation / 2 < g.stride.w;
}

}  // namespace adjoint::cuda
