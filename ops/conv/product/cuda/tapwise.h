// conv_weight tap by tap, as products of matrices over positions and samples (product/taps.h), in half precision and
// TF32 on sm_90. Infinity and NaN reach what they reach in the plain kernels, and through zeros that pad the image the
// taps that meet them there.
#pragma once

#include <adjoint/core/dtype.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/product/taps.h>

namespace adjoint::cuda {

extern const ConvKernel tapwise_conv_weight;

/// Puts taps last, on the device's current stream. `from`: results, or where there are slices their sums in float32.
void gather_taps(const TapGather& gather, DType dtype, const void* from, void* to, int device);

}  // namespace adjoint::cuda
