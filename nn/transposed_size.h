// Helpers for choosing a transposed convolution's geometry; one spatial axis at a time.
#pragma once

#include <adjoint/core/base/export.h>

#include <cstdint>
#include <vector>

namespace adjoint::nn {

/// The number of taps that add up at each output phase: element p counts the taps k with dilation k mod stride = p. If
/// they differ, as for a kernel that is not a multiple of its stride, results show a checkerboard (Odena, Dumoulin,
/// Olah: "Deconvolution and checkerboard artifacts", 2016). Throws Error for arguments below 1.
ADJOINT_API std::vector<std::int64_t> overlap_map(std::int64_t kernel_size, std::int64_t stride,
                                                  std::int64_t dilation = 1);

/// While on, constructing a ConvTranspose with a kernel whose taps add up unevenly gives a warning
/// (core/base/warning.h). Off by default, because published networks have such kernels.
ADJOINT_API void set_checkerboard_warning(bool on);
ADJOINT_API bool checkerboard_warning();

struct TransposedPaddings {
  std::int64_t padding = 0, output_padding = 0;
};
/// The paddings, with the least output_padding, for which a transposed convolution maps `in` to `out` elements: (in -
/// 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1 = out. Throws Error for arguments below 1
/// and if no size fits: `out` exceeds the result with no padding and the largest output_padding.
ADJOINT_API TransposedPaddings solve_transposed_size(std::int64_t in, std::int64_t out, std::int64_t kernel_size,
                                                     std::int64_t stride, std::int64_t dilation = 1);

}  // namespace adjoint::nn
