// conv and conv_transpose on Hopper's tensor cores where tiles are few: sums in slices (correlation/slices.h), each by
// the kernel of correlation.h or of blocked.h, and their addition with bias and activation. Infinity and NaN reach what
// they reach there.
#pragma once

#include <adjoint/ops/conv/choose/cuda/dispatch.h>

namespace adjoint::cuda {

extern const ConvKernel sliced_conv;
extern const ConvKernel sliced_conv_transpose;

/// Writes the problem's result from `slices` partial results a group, [image][group][slice][channel][position], or of a
/// filter [group][slice][feature channel][image channel and tap].
void add_slices(const ConvProblem& problem, const float* partial, int slices);

}  // namespace adjoint::cuda
