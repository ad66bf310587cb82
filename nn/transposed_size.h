// What to know of a transposed convolution's geometry before making one; one spatial axis at a time.
#pragma once

#include <adjoint/core/export.h>

#include <cstdint>
#include <vector>

namespace adjoint::nn {

/// How many taps add up at each output phase: element p counts the taps k with dilation k mod stride = p. Where they
/// differ, as for a kernel that is not a multiple of its stride, results show a checkerboard (Odena, Dumoulin, Olah:
/// "Deconvolution and checkerboard artifacts", 2016). Throws Error for arguments below 1.
ADJOINT_API std::vector<std::int64_t> overlap_map(std::int64_t kernel_size, std::int64_t stride,
                                                  std::int64_t dilation = 1);

/// While on, a ConvTranspose that is made with a kernel whose taps add up unevenly says so in one line on standard
/// error. Off at first: the library prints nothing that nobody asked for.
ADJOINT_API void set_checkerboard_warning(bool on);
ADJOINT_API bool checkerboard_warning();

struct TransposedPaddings {
  std::int64_t padding = 0, output_padding = 0;
};
/// The paddings, with the least output_padding, by which a transposed convolution makes `out` of `in` elements: (in -
/// 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1 = out. Throws Error for arguments below 1
/// and where there are none: `out` beyond what no padding and the largest output_padding give.
ADJOINT_API TransposedPaddings solve_transposed_size(std::int64_t in, std::int64_t out, std::int64_t kernel_size,
                                                     std::int64_t stride, std::int64_t dilation = 1);

}  // namespace adjoint::nn
