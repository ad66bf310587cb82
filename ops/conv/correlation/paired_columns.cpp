#include <adjoint/ops/conv/correlation/paired_columns.h>

namespace adjoint::cuda {

bool pair_columns(const ConvGeometry& g, PairedColumns& pairs) {
  constexpr std::int64_t kVector = 8;  // halves in 16 bytes
  if (g.image[1] % kVector != 0 || g.image[1] == 0 || g.stride[1] % 2 != 0) return false;
  const std::int64_t dilation = g.dilation[1];
  const auto odd = static_cast<std::int32_t>(g.padding[1] % 2), taps = static_cast<std::int32_t>(g.kernel[1]);
  pairs = {.geometry = g, .kernel_w = taps, .taps = {}};
  ConvGeometry& units = pairs.geometry;
  units.image[1] = g.image[1] / 2;
  units.stride[1] = g.stride[1] / 2;
  units.padding[1] = (g.padding[1] + odd) / 2;
  if (dilation % 2 == 0) {  // every tap has the same column in its unit
    units.dilation[1] = dilation / 2;
    pairs.taps = odd ? PairTaps{.first = -taps, .step = taps} : PairTaps{.step = -taps};
    return true;
  }
  units.kernel[1] = (odd + (taps - 1) * dilation) / 2 + 1;
  units.dilation[1] = 1;
  pairs.taps = {.scale = 2, .first = -odd, .step = 1, .dilation = static_cast<std::int32_t>(dilation)};
  return dilation / 2 < g.stride[1];
}

}  // namespace adjoint::cuda
