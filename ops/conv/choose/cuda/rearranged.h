// Whether a problem is done in another order of its operands, and what computes what is left then: the only kernel that
// chooses another.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>

namespace adjoint::cuda {

extern const ConvKernel rearranged_conv;
extern const ConvKernel rearranged_conv_transpose;
extern const ConvKernel rearranged_conv_weight;

}  // namespace adjoint::cuda
