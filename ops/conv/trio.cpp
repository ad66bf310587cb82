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
#include <adjoint/ops/conv/infer.h>
#include <adjoint/ops/conv/kernels.h>

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
  bool valid = (g.rank == 1 || g.rank == 2) && g.batch >= 0 && g.groups >= 1 && g.image_channels % g.groups == 0 &&
               g.feature_channels % g.groups == 0;
  for (std::size_t axis : {0U, 1U}) {
    valid = valid && g.image[axis] >= 1 && g.feature[axis] >= 1;
    valid = valid && g.kernel[axis] >= 1 && g.stride[axis] >= 1 && g.padding[axis] >= 0 && g.dilation[axis] >= 1;
    valid = valid && (g.rank == 2 || axis == 1 || (g.image[axis] == 1 && g.feature[axis] == 1 && g.kernel[axis] == 1));
  }
  ADJOINT_CHECK(
      valid,
      "{}: a geometry's rank is 1 or 2, its groups divide both channels, its extents, kernel, stride and dilation are "
      "positive and its padding is not negative; got rank {}, groups {}, channels {} and {}, image ({}, {}), feature "
      "({}, {}), kernel ({}, {}), stride ({}, {}), "
      "padding ({}, {}), dilation ({}, {}); make it from a call of conv.h",
      op, g.rank, g.groups, g.image_channels, g.feature_channels, g.image[0], g.image[1], g.feature[0], g.feature[1],
      g.kernel[0], g.kernel[1], g.stride[0], g.stride[1], g.padding[0], g.padding[1], g.dilation[0], g.dilation[1]);
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
