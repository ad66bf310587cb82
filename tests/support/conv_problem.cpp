#include <adjoint/tests/support/conv_problem.h>

#include <adjoint/ops/conv/conv.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/values.h>

#include <algorithm>

namespace adjoint::testing {
namespace {

template <class Make>
ConvProblem make_problem(const ConvGeometry& g, Make make) {
  return {.geometry = g,
          .image = make(g.image_numel(), 1),
          .filter = make(g.filter_numel(), 2),
          .feature = make(g.feature_numel(), 3),
          .image_bias = make(g.image_channels, 4),
          .feature_bias = make(g.feature_channels, 5)};
}

Size2 size(const Extent2& value) { return {value[0], value[1]}; }

Tensor transpose(const ConvCase& c, const Tensor& input, const Tensor& weight, const Tensor& bias,
                 const Extent2& output_padding, const Extent2& output_size) {
  if (c.rank == 1) {
    return conv_transpose1d(input, weight, bias,
                            {.stride = c.stride[1],
                             .padding = c.padding[1],
                             .output_padding = output_padding[1],
                             .dilation = c.dilation[1],
                             .groups = c.groups,
                             .output_size = output_size[1]});
  }
  return conv_transpose2d(input, weight, bias,
                          {.stride = size(c.stride),
                           .padding = size(c.padding),
                           .output_padding = size(output_padding),
                           .dilation = size(c.dilation),
                           .groups = c.groups,
                           .output_size = size(output_size)});
}

}  // namespace

Tensor ConvProblem::image_tensor(const TensorOptions& options) const {
  return Tensor::from_vector<double>(image, image_shape(geometry), options);
}
Tensor ConvProblem::filter_tensor(const TensorOptions& options) const {
  return Tensor::from_vector<double>(filter, filter_shape(geometry), options);
}
Tensor ConvProblem::feature_tensor(const TensorOptions& options) const {
  return Tensor::from_vector<double>(feature, feature_shape(geometry), options);
}
Tensor ConvProblem::image_bias_tensor(const TensorOptions& options) const {
  return Tensor::from_vector<double>(image_bias, {geometry.image_channels}, options);
}
Tensor ConvProblem::feature_bias_tensor(const TensorOptions& options) const {
  return Tensor::from_vector<double>(feature_bias, {geometry.feature_channels}, options);
}

ConvProblem integer_problem(const ConvGeometry& g) {
  const std::int64_t longest_sum = std::max({g.image_channels_per_group() * g.taps(),
                                             g.feature_channels_per_group() * g.taps(), g.batch * g.feature_plane()});
  const std::int64_t magnitude = 9 * (longest_sum + 1) < (std::int64_t{1} << 24) ? 3 : 1;
  return make_problem(g, [=](std::int64_t count, std::uint64_t seed) { return integers(count, magnitude, seed); });
}

ConvProblem real_problem(const ConvGeometry& g) {
  return make_problem(g, [](std::int64_t count, std::uint64_t seed) { return reals(count, seed); });
}

Tensor call_conv_transpose(const ConvCase& c, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return transpose(c, input, weight, bias, c.output_padding, {0, 0});
}

Tensor call_conv_transpose_to_size(const ConvCase& c, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return transpose(c, input, weight, bias, {0, 0}, output_extents(c));
}

Tensor call_conv(const ConvCase& c, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (c.rank == 1) {
    return conv1d(input, weight, bias,
                  {.stride = c.stride[1], .padding = c.padding[1], .dilation = c.dilation[1], .groups = c.groups});
  }
  return conv2d(
      input, weight, bias,
      {.stride = size(c.stride), .padding = size(c.padding), .dilation = size(c.dilation), .groups = c.groups});
}

bool conv_inverts(const ConvCase& c) { return c.output_padding[0] < c.stride[0] && c.output_padding[1] < c.stride[1]; }

}  // namespace adjoint::testing
