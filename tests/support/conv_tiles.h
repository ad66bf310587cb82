// Problems for the tensor-core kernels that between them use every tile, each small enough for many addresses.
#pragma once

#include <adjoint/tests/support/conv_cases.h>

#include <vector>

namespace adjoint::testing {

/// Of conv and of conv_transpose; several chunks of channels, several passes and streamed filters.
const std::vector<ConvCase>& correlation_tile_cases();
/// Of conv_weight by mma.sync; several blocks of channels and taps, and several splits.
const std::vector<ConvCase>& weight_tile_cases();

}  // namespace adjoint::testing
