// conv_weight tap by tap, as products of matrices over positions and samples (product/taps.h), in half precision and
// TF32 on sm_90. Infinity and NaN reach the same results as in the plain kernels, and also the taps that meet them at
// zeros that pad the image.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/product/taps.h>

namespace adjoint::cuda {

extern const ConvKernel tapwise_conv_weight;

/// The problem's plan, or null if no plan fits.
const TapwisePlan* find_tapwise_plan(const ConvProblem& problem);

}  // namespace adjoint::cuda
