// Geometries and operands for tests that replay plans of CUDA kernels in integers.
#pragma once

#include <adjoint/ops/conv/geometry.h>

#include <cstdint>
#include <random>
#include <vector>

namespace adjoint::testing {

/// The geometry with the image's extents that PyTorch's formula for ConvTranspose gives.
ConvGeometry make_geometry(std::int64_t batch, std::int64_t image_channels, std::int64_t feature_channels,
                           std::int64_t groups, Extents feature, Extents kernel, Extents stride, Margins padding,
                           Extents dilation, Margins output_padding);

/// `count` integers in [-4, 4].
std::vector<std::int64_t> small_integers(std::int64_t count, std::mt19937& random);

}  // namespace adjoint::testing
