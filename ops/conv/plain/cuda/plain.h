// The kernels that support every problem: every geometry, size and floating-point dtype.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>

namespace adjoint::cuda {

extern const ConvKernel plain_conv;
extern const ConvKernel plain_conv_transpose;
extern const ConvKernel plain_conv_weight;

inline bool takes_everything(const ConvProblem&) { return true; }

}  // namespace adjoint::cuda
