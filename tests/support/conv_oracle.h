// The convolution trio from its definition: naive loops in float64, sharing nothing with the code under test.
//
//   S(image, filter, feature) = sum of image[o * stride - padding + k * dilation] * filter[k] * feature[o]
//
// over batch, groups, channels, feature positions o and taps k whose image position exists.
#pragma once

#include <adjoint/ops/conv/geometry.h>

#include <cstdint>
#include <span>
#include <vector>

namespace adjoint::testing::oracle {

using Values = std::span<const double>;

/// Whole results. No bias if it is empty.
std::vector<double> conv(const ConvGeometry& g, Values image, Values filter, Values bias = {});
std::vector<double> conv_transpose(const ConvGeometry& g, Values feature, Values filter, Values bias = {});
std::vector<double> conv_weight(const ConvGeometry& g, Values image, Values feature);

/// One element of each, by its row-major index, for problems too large to compute whole.
double conv_at(const ConvGeometry& g, Values image, Values filter, Values bias, std::int64_t index);
double conv_transpose_at(const ConvGeometry& g, Values feature, Values filter, Values bias, std::int64_t index);
double conv_weight_at(const ConvGeometry& g, Values image, Values feature, std::int64_t index);

}  // namespace adjoint::testing::oracle
