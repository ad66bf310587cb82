#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>

namespace adjoint::cuda {

/// Writes the problem's result from `slices` partial results a group, [image][group][slice][channel][position], or of a
/// filter [group][slice][feature channel][image channel and tap].
void add_slices(const ConvProblem& problem, const float* partial, int slices);

}  // namespace adjoint::cuda
