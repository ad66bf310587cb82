// Problems that between them reach every CUDA kernel of the trio, and every tile of each.
#pragma once

#include <adjoint/tests/support/conv_cases.h>

#include <vector>

namespace adjoint::testing {

/// Layers of networks, in small.
const std::vector<ConvCase>& conv_layers();
/// Shapes for the tiles that those do not reach.
const std::vector<ConvCase>& conv_tile_cases();
/// Shapes for the weight gradient's tiles of 384 and 768 rows, which serve large filters: too large for every address.
const std::vector<ConvCase>& conv_large_tile_cases();
/// All of them.
std::vector<ConvCase> conv_variant_cases();
/// Cases whose sums are cut into slices if there are many multiprocessors.
const std::vector<ConvCase>& conv_sliced_cases();

}  // namespace adjoint::testing
