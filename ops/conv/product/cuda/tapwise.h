// conv_weight tap by tap, as products of matrices over positions and samples (product/taps.h), in half precision and
// TF32 on sm_90. Infinity and NaN reach what they reach in the plain kernels, and through zeros that pad the image the
// taps that meet them there.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>

namespace adjoint::cuda {

extern const ConvKernel tapwise_conv_weight;

}  // namespace adjoint::cuda
