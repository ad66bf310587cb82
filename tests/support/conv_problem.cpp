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

template <class Values>
Size2 size(const Values& value) {
  return {value.h, value.w};
}
template <class Values>
Size3 size3(const Values& value) {
  return {value.d, value.h, value.w};
}

Tensor transpose(const ConvCase& c, const Tensor& input, const Tensor& weight, const Tensor& bias,
                 const Margins& output_padding, const Margins& output_size) {
  if (c.rank == 3) {
    return conv_transpose3d(input, weight, bias,
                            {.stride = size3(c.stride),
                             .padding = size3(c.padding),
                             .output_padding = size3(output_padding),
                             .dilation = size3(c.dilation),
                             .groups = c.groups,
                             .output_size = size3(output_size)});
  }
  if (c.rank == 1) {
    return conv_transpose1d(input, weight, bias,
                            {.stride = c.stride.w,
                             .padding = c.padding.w,
                             .output_padding = output_padding.w,
                             .dilation = c.dilation.w,
                             .groups = c.groups,
                             .output_size = output_size.w});
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
  return transpose(c, input, weight, bias, c.output_padding, {});
}

Tensor call_conv_transpose_to_size(const ConvCase& c, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const Extents wanted = output_extents(c);
  return transpose(c, input, weight, bias, {}, {wanted.d, wanted.h, wanted.w});
}

Tensor call_conv(const ConvCase& c, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (c.rank == 3) {
    return conv3d(
        input, weight, bias,
        {.stride = size3(c.stride), .padding = size3(c.padding), .dilation = size3(c.dilation), .groups = c.groups});
  }
  if (c.rank == 1) {
    return conv1d(input, weight, bias,
                  {.stride = c.stride.w, .padding = c.padding.w, .dilation = c.dilation.w, .groups = c.groups});
  }
  return conv2d(
      input, weight, bias,
      {.stride = size(c.stride), .padding = size(c.padding), .dilation = size(c.dilation), .groups = c.groups});
}

bool conv_inverts(const ConvCase& c) {
  return c.output_padding.d < c.stride.d && c.output_padding.h < c.stride.h && c.output_padding.w < c.stride.w;
}

}  // namespace adjoint::testing
