// The trio's operators and their gradients. S(image, filter, feature) is linear in each argument, so each operator's
// gradients are the other two:
//
//   operator                   gradient to its 1st        gradient to its 2nd
//   conv(x, w)                 conv_transpose(g, w)       conv_weight(x, g)
//   conv_transpose(y, w)       conv(g, w)                 conv_weight(g, y)
//   conv_weight(x, y)          conv_transpose(y, g)       conv(x, g)
//
// A bias, the optional third operand of the first two, gets the sum of g over all axes but the channels'.

#include <adjoint/ops/conv/trio.h>

#include <adjoint/core/check.h>
#include <adjoint/core/op.h>
#include <adjoint/ops/conv/check.h>
#include <adjoint/ops/conv/infer.h>
#include <adjoint/ops/conv/kernels.h>

#include <algorithm>

namespace adjoint {
namespace {

using ConvCtx = Ctx<ConvGeometry>;

Shape shape_of(const ConvGeometry& geometry, std::int64_t first, std::int64_t second, const Extent2& extents) {
  return geometry.rank == 1 ? Shape{first, second, extents[1]} : Shape{first, second, extents[0], extents[1]};
}

void check_operand(const char* op, const char* name, const Tensor& operand, const Shape& expected, DType dtype) {
  ADJOINT_CHECK(operand.shape() == expected,
                "{}: {} must have the geometry's shape {}; got {}; pass the operand that it describes", op, name,
                expected, operand.shape());
  ADJOINT_CHECK(
      is_floating_point(operand.dtype()) && operand.dtype() == dtype,
      "{}: operands must share one floating-point dtype; got {} {} of {} beside {}; convert one with .to(dtype)", op,
      name, operand.shape(), operand.dtype(), dtype);
}

void check_bias(const char* op, Operands in, std::int64_t channels) {
  if (in.size() == 3) check_operand(op, "bias", in[2], {channels}, in[0].dtype());
}

TensorSpec infer_conv_weight(Operands in, const ConvGeometry& geometry) {
  check_geometry("conv_weight", geometry);
  check_operand("conv_weight", "image", in[0], image_shape(geometry), in[0].dtype());
  check_operand("conv_weight", "feature", in[1], feature_shape(geometry), in[0].dtype());
  return {filter_shape(geometry), in[0].dtype()};
}

bool is_step(std::int64_t value, std::int64_t least) { return value >= least && value <= kMaxConvStep; }

// A tensor of this shape, of the smallest dtype, has bytes that fit in 63 bits.
bool fits(const Shape& shape) {
  std::int64_t product = element_size(kFloat16);
  bool overflow = false;
  for (const std::int64_t extent : shape) overflow |= __builtin_mul_overflow(product, extent, &product);
  return !overflow;
}

// Whether the feature's last position, and no other beyond it, lies in the image, as far as output_padding leaves open.
bool meets(const ConvGeometry& g, std::size_t axis) {
  std::int64_t reach = 0, span = 0, least = 0;
  if (__builtin_mul_overflow(g.feature[axis] - 1, g.stride[axis], &reach) ||
      __builtin_mul_overflow(g.kernel[axis] - 1, g.dilation[axis], &span) ||
      __builtin_add_overflow(reach, span, &least)) {
    return false;
  }
  // The smallest image that has them all; padding alone may make it negative.
  if (__builtin_sub_overflow(least, 2 * g.padding[axis] - 1, &least)) return false;
  const std::int64_t spare = std::max(g.stride[axis], g.dilation[axis]) - 1;
  std::int64_t most = 0;
  return least <= g.image[axis] && (__builtin_add_overflow(least, spare, &most) || g.image[axis] <= most);
}

Tensor bias_gradient(const ConvCtx& c) { return c.attr.rank == 1 ? c.grad.sum({0, 2}) : c.grad.sum({0, 2, 3}); }

constinit const OpDef<ConvGeometry> conv_op{
    .name = "conv",
    .infer = infer_conv,
    .cpu = cpu::conv,
    .cuda = ADJOINT_IF_CUDA(cuda::conv),
    .vjp = {{{kSaveIn1, [](const ConvCtx& c) { return conv_transpose(c.grad, c.in[1], {}, c.attr); }},
             {kSaveIn0, [](const ConvCtx& c) { return conv_weight(c.in[0], c.grad, c.attr); }},
             {kSaveNone, bias_gradient}}}};

constinit const OpDef<ConvGeometry> conv_transpose_op{
    .name = "conv_transpose",
    .infer = infer_conv_transpose,
    .cpu = cpu::conv_transpose,
    .cuda = ADJOINT_IF_CUDA(cuda::conv_transpose),
    .vjp = {{{kSaveIn1, [](const ConvCtx& c) { return conv(c.grad, c.in[1], {}, c.attr); }},
             {kSaveIn0, [](const ConvCtx& c) { return conv_weight(c.grad, c.in[0], c.attr); }},
             {kSaveNone, bias_gradient}}}};

constinit const OpDef<ConvGeometry> conv_weight_op{
    .name = "conv_weight",
    .infer = infer_conv_weight,
    .cpu = cpu::conv_weight,
    .cuda = ADJOINT_IF_CUDA(cuda::conv_weight),
    .vjp = {{{kSaveIn1, [](const ConvCtx& c) { return conv_transpose(c.in[1], c.grad, {}, c.attr); }},
             {kSaveIn0, [](const ConvCtx& c) { return conv(c.in[0], c.grad, {}, c.attr); }}}}};

}  // namespace

TensorSpec infer_conv(Operands in, const ConvGeometry& geometry) {
  check_geometry("conv", geometry);
  check_operand("conv", "image", in[0], image_shape(geometry), in[0].dtype());
  check_operand("conv", "filter", in[1], filter_shape(geometry), in[0].dtype());
  check_bias("conv", in, geometry.feature_channels);
  return {feature_shape(geometry), in[0].dtype()};
}

TensorSpec infer_conv_transpose(Operands in, const ConvGeometry& geometry) {
  check_geometry("conv_transpose", geometry);
  check_operand("conv_transpose", "feature", in[0], feature_shape(geometry), in[0].dtype());
  check_operand("conv_transpose", "filter", in[1], filter_shape(geometry), in[0].dtype());
  check_bias("conv_transpose", in, geometry.image_channels);
  return {image_shape(geometry), in[0].dtype()};
}

void check_geometry(const char* op, const ConvGeometry& g) {
  bool valid = (g.rank == 1 || g.rank == 2) && g.batch >= 0 && g.groups >= 1 && g.image_channels >= 1 &&
               g.feature_channels >= 1 && g.image_channels % g.groups == 0 && g.feature_channels % g.groups == 0;
  for (std::size_t axis : {0U, 1U}) {
    valid = valid && g.image[axis] >= 1 && g.feature[axis] >= 1 && g.kernel[axis] >= 1;
    valid = valid && is_step(g.stride[axis], 1) && is_step(g.padding[axis], 0) && is_step(g.dilation[axis], 1);
    valid = valid && (g.rank == 2 || axis == 1 || (g.image[axis] == 1 && g.feature[axis] == 1 && g.kernel[axis] == 1));
    valid = valid && meets(g, axis);
  }
  // An empty batch counts as one sample: kernels multiply a sample's extents.
  const std::int64_t batch = std::max<std::int64_t>(g.batch, 1);
  valid = valid && fits({batch, g.image_channels, g.image[0], g.image[1]}) &&
          fits({batch, g.feature_channels, g.feature[0], g.feature[1]}) &&
          fits({g.feature_channels, g.image_channels_per_group(), g.kernel[0], g.kernel[1]});
  ADJOINT_CHECK(
      valid,
      "{}: a geometry's rank is 1 or 2, its groups divide both channels, its channels, extents, kernel, stride and "
      "dilation are positive and its padding is not negative; stride, padding and dilation are at most 2^40, tensors "
      "have fewer than 2^62 elements, and the extents of image and feature are a convolution's; got batch {}, rank {}, "
      "groups {}, channels {} and {}, image ({}, {}), feature ({}, {}), kernel ({}, {}), stride ({}, {}), padding "
      "({}, {}), dilation ({}, {}); make it from a call of conv.h",
      op, g.batch, g.rank, g.groups, g.image_channels, g.feature_channels, g.image[0], g.image[1], g.feature[0],
      g.feature[1], g.kernel[0], g.kernel[1], g.stride[0], g.stride[1], g.padding[0], g.padding[1], g.dilation[0],
      g.dilation[1]);
}

Shape image_shape(const ConvGeometry& geometry) {
  return shape_of(geometry, geometry.batch, geometry.image_channels, geometry.image);
}
Shape feature_shape(const ConvGeometry& geometry) {
  return shape_of(geometry, geometry.batch, geometry.feature_channels, geometry.feature);
}
Shape filter_shape(const ConvGeometry& geometry) {
  return shape_of(geometry, geometry.feature_channels, geometry.image_channels_per_group(), geometry.kernel);
}

Tensor conv(const Tensor& image, const Tensor& filter, const Tensor& bias, const ConvGeometry& geometry) {
  return bias.defined() ? apply(conv_op, {image, filter, bias}, geometry) : apply(conv_op, {image, filter}, geometry);
}
Tensor conv_transpose(const Tensor& feature, const Tensor& filter, const Tensor& bias, const ConvGeometry& geometry) {
  return bias.defined() ? apply(conv_transpose_op, {feature, filter, bias}, geometry)
                        : apply(conv_transpose_op, {feature, filter}, geometry);
}
Tensor conv_weight(const Tensor& image, const Tensor& feature, const ConvGeometry& geometry) {
  return apply(conv_weight_op, {image, feature}, geometry);
}

}  // namespace adjoint
