#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/sums/taps.h>

namespace adjoint::cuda {

/// Puts taps last, on the device's current stream. `from`: results, or, if there are slices, their sums in float32.
void gather_taps(const TapGather& gather, DType dtype, const void* from, void* to, int device);

}  // namespace adjoint::cuda
