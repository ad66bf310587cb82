#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/sums/taps.h>

namespace adjoint::cuda {

/// Puts taps last, on the device's current stream. `from`: results, or, if there are slices, their sums in float32.
void gather_taps(const TapGather& gather, DType dtype, const void* from, void* to, int device);

/// Puts channels last, as in a channels_last filter: (filter, tap, channel). `from`: sums in float32. `channels` of a
/// filter, a multiple of 4. For at most 2^31 sums a tap.
void gather_channels(const TapGather& gather, std::int64_t channels, DType dtype, const void* from, void* to,
                     int device);

}  // namespace adjoint::cuda
