// A convolution problem with its data: integers small enough that every sum is exact in float32.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/support/conv_cases.h>

#include <vector>

namespace adjoint::testing {

struct ConvProblem {
  ConvGeometry geometry;
  std::vector<double> image, filter, feature;
  std::vector<double> image_bias, feature_bias;  // of conv_transpose, of conv

  Tensor image_tensor(const TensorOptions& options) const;
  Tensor filter_tensor(const TensorOptions& options) const;
  Tensor feature_tensor(const TensorOptions& options) const;
  Tensor image_bias_tensor(const TensorOptions& options) const;
  Tensor feature_bias_tensor(const TensorOptions& options) const;
};

/// Integers up to 3 in magnitude, or 1 if sums of 3s could leave float32's 24 bits.
ConvProblem integer_problem(const ConvGeometry& geometry);
/// Reals in [-1, 1).
ConvProblem real_problem(const ConvGeometry& geometry);

/// The front end that computes conv_transpose of `c`: conv_transpose1d, conv_transpose2d or conv_transpose3d.
Tensor call_conv_transpose(const ConvCase& c, const Tensor& input, const Tensor& weight, const Tensor& bias);
/// As above, asking for the extents by output_size.
Tensor call_conv_transpose_to_size(const ConvCase& c, const Tensor& input, const Tensor& weight, const Tensor& bias);
/// The front end that computes conv with `c`'s geometry: conv1d, conv2d or conv3d, from the image.
Tensor call_conv(const ConvCase& c, const Tensor& input, const Tensor& weight, const Tensor& bias);
/// If output_padding reaches stride, conv on the same image makes more features than the geometry has.
bool conv_inverts(const ConvCase& c);

}  // namespace adjoint::testing
