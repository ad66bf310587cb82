#include <adjoint/nn/transposed_size.h>

#include <adjoint/core/base/check.h>

#include <algorithm>
#include <atomic>

namespace adjoint::nn {
namespace {

std::atomic<bool> warns{false};

}  // namespace

void set_checkerboard_warning(bool on) { warns = on; }
bool checkerboard_warning() { return warns; }

std::vector<std::int64_t> overlap_map(std::int64_t kernel_size, std::int64_t stride, std::int64_t dilation) {
  ADJOINT_CHECK(std::min({kernel_size, stride, dilation}) >= 1,
                "overlap_map: arguments must be at least 1; got kernel_size {}, stride {}, dilation {}", kernel_size,
                stride, dilation);
  std::vector<std::int64_t> taps(static_cast<std::size_t>(stride));
  for (std::int64_t k = 0; k < kernel_size; ++k) ++taps[static_cast<std::size_t>(k * dilation % stride)];
  return taps;
}

TransposedPaddings solve_transposed_size(std::int64_t in, std::int64_t out, std::int64_t kernel_size,
                                         std::int64_t stride, std::int64_t dilation) {
  ADJOINT_CHECK(std::min({in, out, kernel_size, stride, dilation}) >= 1,
                "solve_transposed_size: arguments must be at least 1; got in {}, out {}, kernel_size {}, stride {}, "
                "dilation {}",
                in, out, kernel_size, stride, dilation);
  const std::int64_t excess = (in - 1) * stride + dilation * (kernel_size - 1) + 1 - out;
  const std::int64_t padding = excess > 0 ? (excess + 1) / 2 : 0;
  const std::int64_t output_padding = 2 * padding - excess;
  ADJOINT_CHECK(output_padding < std::max(stride, dilation),
                "solve_transposed_size: no padding with an output_padding below stride or dilation gives the size; got "
                "in {}, out {}, kernel_size {}, stride {}, dilation {}",
                in, out, kernel_size, stride, dilation);
  return {padding, output_padding};
}

}  // namespace adjoint::nn
