// You are at stop 4 of 7 of the README's reading path, the trio: these are the three operators. ops/conv/cpu/eigen.cpp
// comes next.
//
// The trio's operators and their gradients. S(image, filter, feature) is linear in each argument, so each operator's
// gradients are the other two:
//
//   operator                   gradient to its 1st        gradient to its 2nd
//   conv(x, w)                 conv_transpose(g, w)       conv_weight(x, g)
//   conv_transpose(y, w)       conv(g, w)                 conv_weight(g, y)
//   conv_weight(x, y)          conv_transpose(y, g)       conv(x, g)
//
// A bias, the optional third operand of the first two, gets the sum of g over all axes but the channels'. An optional
// activation follows the first two.

#include <adjoint/ops/conv/trio.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/ops/conv/check.h>
#include <adjoint/ops/conv/kernels.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/ops/elementwise/onnx_activation.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

using ConvCtx = Ctx<ConvAttr>;
struct WeightAttr {
  ConvGeometry geometry;
  MemoryFormat format;  // of the result
};
using WeightCtx = Ctx<WeightAttr>;

Shape shape_of(const ConvGeometry& geometry, std::int64_t first, std::int64_t second, const Extents& extents) {
  switch (geometry.rank) {
    case 1: return {first, second, extents.w};
    case 2: return {first, second, extents.h, extents.w};
    default: return {first, second, extents.d, extents.h, extents.w};
  }
}

/// The first of the axes (depth, height, width) that the tensors have.
std::size_t first_axis(const ConvGeometry& g) { return static_cast<std::size_t>(3 - g.rank); }

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
  if (in[2].defined()) check_operand(op, "bias", in[2], {channels}, in[0].dtype());
}

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

TensorSpec infer_conv_weight(Operands in, const WeightAttr& attr) {
  const ConvGeometry& geometry = attr.geometry;
  check_geometry("conv_weight", geometry);
  check_operand("conv_weight", "image", in[0], image_shape(geometry), in[0].dtype());
  check_operand("conv_weight", "feature", in[1], feature_shape(geometry), in[0].dtype());
  return {.shape = filter_shape(geometry), .dtype = in[0].dtype(), .format = attr.format};
}

bool is_step(std::int64_t value, std::int64_t least) { return value >= least && value <= kMaxConvStep; }

// True if the bytes of a tensor of this shape, of the smallest dtype, fit in 63 bits.
bool fits(const Shape& shape) {
  std::int64_t product = element_size(kFloat16);
  bool overflow = false;
  for (const std::int64_t extent : shape) overflow |= __builtin_mul_overflow(product, extent, &product);
  return !overflow;
}

// Returns true if the feature's extent fits the image's: its last position is in the image and no further one is,
// within the freedom of output_padding. Behind the depth there may be less padding than in front, or no padding.
bool meets(const ConvGeometry& g, std::size_t axis) {
  std::int64_t reach = 0, span = 0, least = 0;
  if (__builtin_mul_overflow(g.feature[axis] - 1, g.stride[axis], &reach) ||
      __builtin_mul_overflow(g.kernel[axis] - 1, g.dilation[axis], &span) ||
      __builtin_add_overflow(reach, span, &least)) {
    return false;
  }
  // The smallest image that holds all positions; padding alone may make it negative.
  if (__builtin_sub_overflow(least, 2 * g.padding[axis] - 1, &least)) return false;
  const std::int64_t spare = std::max(g.stride[axis], g.dilation[axis]) - 1 + (axis == 0 ? g.padding.d : 0);
  std::int64_t most = 0;
  return least <= g.image[axis] && (__builtin_add_overflow(least, spare, &most) || g.image[axis] <= most);
}

// Two of the three tensors are read and the third is written. Within a group, every tap of every feature position is a
// product and a sum.
Cost cost(Operands in, const ConvGeometry& g) {
  const auto elements = [](const Shape& shape) { return static_cast<double>(shape.numel()); };
  const double moved = elements(image_shape(g)) + elements(feature_shape(g)) + elements(filter_shape(g));
  return {moved * static_cast<double>(element_size(in[0].dtype())),
          2.0 * elements(feature_shape(g)) * static_cast<double>(g.image_channels_per_group() * g.taps())};
}

// ---- The gradients of conv and conv_transpose. With z the sums and the bias, y = f(z) the result and g its gradient,
// the gradient in z is dz = g * f'(z), and the trio's rules take it from there. f' is written in y, which is kept;
// if it does not follow from y, the forward call also writes z, and z is kept instead.

constinit const OpDef<ActivationAttr> linear_gradients_op{
    .name = "activation_and_bias_gradient",
    .infer = [](Operands in, const ActivationAttr&) -> Specs {
      return {.specs = {{{in[0].shape(), in[0].dtype()}, {{in[0].shape()[1]}, in[0].dtype()}}}, .results = 2};
    },
    .cpu = cpu::activation_and_bias_gradient,
    .cuda = ADJOINT_IF_CUDA(cuda::activation_and_bias_gradient),
    .formats = Formats::kImages,
    .in_memory_order = [](Operands in, const ActivationAttr& attr) -> std::optional<ActivationAttr> {
      return ActivationAttr{attr.activation, in[0].shape().size() - 1};
    }};

struct LinearGradients {
  Tensor z, bias;  // bias: undefined if not needed
};

using Linear = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvGeometry&, const Activation&);

// `linear` is the operator itself.
LinearGradients linear_gradients(const ConvCtx& c, bool with_bias, Linear linear) {
  const ConvGeometry& g = c.attr.geometry;
  const Activation& activation = c.attr.activation;
  const bool records = Tape::current() != nullptr;
  const auto bias_gradient = [&](const Tensor& dz) {
    return !with_bias    ? Tensor{}
           : g.rank == 1 ? dz.sum({0, 2})
           : g.rank == 2 ? dz.sum({0, 2, 3})
                         : dz.sum({0, 2, 3, 4});
  };
  if (activation.is_none()) return {c.grad, bias_gradient(c.grad)};
  const bool from_result = differentiates_from_result(activation);
  Tensor kept = c.outs[from_result ? 0 : 1];
  if (with_bias && !records && c.grad.numel() > 0) {  // one pass over memory for both
    const auto gradients = apply_all(linear_gradients_op, {c.grad, kept}, ActivationAttr{activation});
    return {gradients[0], gradients[1]};
  }
  // A kept z has no place on the tape: where the sweep is recorded, it is computed again, with the same bits.
  if (records && !from_result) kept = linear(c.in[0], c.in[1], c.in[2], g, {});
  const Tensor dz = activation_gradient(activation, c.grad, kept);
  return {dz, bias_gradient(dz)};
}

Save saves(const ConvAttr& attr, Needs needs) {
  if (!differentiates_from_result(attr.activation)) return kSaveIn0 | kSaveIn1 | kSaveIn2;
  return (needs[0] ? kSaveIn1 : kSaveNone) | (needs[1] ? kSaveIn0 : kSaveNone) |
         (attr.activation.is_none() ? kSaveNone : kSaveOut);
}

Specs with_linear(const TensorSpec& result, const Activation& activation) {
  return {.specs = {result, result}, .kept = differentiates_from_result(activation) ? 0U : 1U};
}

void conv_gradients(const ConvCtx& c, Needs needs, Results grads) {
  const LinearGradients d = linear_gradients(c, needs[2], conv);
  if (needs[0]) grads[0] = conv_transpose(d.z, c.in[1], {}, c.attr.geometry);
  if (needs[1]) grads[1] = conv_weight(c.in[0], d.z, c.attr.geometry, c.attr.filter_format);
  grads[2] = d.bias;
}

void conv_transpose_gradients(const ConvCtx& c, Needs needs, Results grads) {
  const LinearGradients d = linear_gradients(c, needs[2], conv_transpose);
  if (needs[0]) grads[0] = conv(d.z, c.in[1], {}, c.attr.geometry);
  if (needs[1]) grads[1] = conv_weight(d.z, c.in[0], c.attr.geometry, c.attr.filter_format);
  grads[2] = d.bias;
}

constexpr std::uint32_t kBias = 1U << 2;

// ---- Kernels that read channels_last, on a GPU. Copies to contiguous tensors and back replace the others.

#if defined(ADJOINT_WITH_CUDA)
template <bool kTransposed>
bool conv_in_channels_last(Operands in, Results out, const ConvAttr& attr) {
  const bool keeps_linear = out.size() > 1 && out[1].defined();
  if (in[0].device().is_cpu() || keeps_linear || out[0].numel() == 0) return false;
  // Parts of a tensor, such as the gradients of cat's operands, have gaps.
  const std::array<Tensor, 3> operands{contiguous_copy(in[0], kChannelsLast),
                                       contiguous_copy(in[1], in[1].memory_format()),
                                       in[2].defined() ? contiguous_copy(in[2]) : Tensor{}};
  return cuda::conv_channels_last(operands, out[0], attr, kTransposed);
}

bool conv_weight_in_channels_last(Operands in, Results out, const WeightAttr& attr) {
  if (in[0].device().is_cpu() || in[0].numel() == 0 || out[0].numel() == 0) return false;
  const std::array<Tensor, 2> operands{contiguous_copy(in[0], kChannelsLast), contiguous_copy(in[1], kChannelsLast)};
  return cuda::conv_weight_channels_last(operands, out[0], attr.geometry);
}
#else
template <bool kTransposed>
constexpr bool (*conv_in_channels_last)(Operands, Results, const ConvAttr&) = nullptr;
constexpr bool (*conv_weight_in_channels_last)(Operands, Results, const WeightAttr&) = nullptr;
#endif

// ---- ONNX.

template <class Values>
std::vector<std::int64_t> spatial(const ConvGeometry& g, const Values& values) {
  std::vector<std::int64_t> result;
  for (std::size_t axis = first_axis(g); axis < 3; ++axis) result.push_back(values[axis]);
  return result;
}

// The smallest image that holds `count` positions, without its padding.
std::int64_t least_image(const ConvGeometry& g, std::size_t axis, std::int64_t count) {
  return (count - 1) * g.stride[axis] + (g.kernel[axis] - 1) * g.dilation[axis] + 1 - 2 * g.padding[axis];
}

// The depth may have less than in front, or no padding.
Margins padding_behind(const ConvGeometry& g) {
  Margins behind = g.padding;
  if (!is_padded_alike(g))
    behind.d = std::max<std::int64_t>(0, least_image(g, 0, g.feature.d) + g.padding.d - g.image.d);
  return behind;
}

OnnxAttributes conv_attributes(const ConvGeometry& g) {
  std::vector<std::int64_t> pads = spatial(g, g.padding), behind = spatial(g, padding_behind(g));
  pads.insert(pads.end(), behind.begin(), behind.end());
  return {{"kernel_shape", spatial(g, g.kernel)},
          {"strides", spatial(g, g.stride)},
          {"pads", pads},
          {"dilations", spatial(g, g.dilation)},
          {"group", g.groups}};
}

// Conv computes all positions that the image holds, which may be more than the feature has.
OnnxValue feature_onnx(OnnxCall& call, OnnxValue image, OnnxValue filter, OnnxValue bias, const ConvGeometry& g) {
  const OnnxValue feature = call.add("Conv", {image, filter, bias}, conv_attributes(g));
  std::vector<std::int64_t> axes, starts, ends;
  for (std::size_t axis = first_axis(g); axis < 3; ++axis) {
    if (least_image(g, axis, g.feature[axis] + 1) > g.image[axis]) continue;
    axes.push_back(static_cast<std::int64_t>(2 + axis - first_axis(g)));
    starts.push_back(0);
    ends.push_back(g.feature[axis]);
  }
  if (axes.empty()) return feature;
  return call.add("Slice", {feature, call.integers(starts), call.integers(ends), call.integers(axes)});
}

OnnxValue conv_onnx(OnnxCall& call, const ConvAttr& attr) {
  const OnnxValue feature = feature_onnx(call, call.operand(0), call.operand(1), call.operand(2), attr.geometry);
  return activation_onnx(call, feature, attr.activation);
}

OnnxValue conv_transpose_onnx(OnnxCall& call, const ConvAttr& attr) {
  const ConvGeometry& g = attr.geometry;
  // ONNX Runtime is wrong if output_padding reaches the stride: zeros behind the feature replace it.
  const Margins padding = padding_behind(g);
  Margins zeros, rest;
  for (std::size_t axis = first_axis(g); axis < 3; ++axis) {
    const std::int64_t least = least_image(g, axis, g.feature[axis]) + g.padding[axis] - padding[axis];
    const std::int64_t beyond = g.image[axis] - least;
    zeros[axis] = beyond / g.stride[axis];
    rest[axis] = beyond % g.stride[axis];
  }
  OnnxValue feature = call.operand(0);
  if (zeros != Margins{}) {
    std::vector<std::int64_t> pads(static_cast<std::size_t>(4 + g.rank)), behind = spatial(g, zeros);
    pads.insert(pads.end(), behind.begin(), behind.end());
    feature = call.add("Pad", {feature, call.integers(pads)});
  }
  OnnxAttributes attributes = conv_attributes(g);
  if (rest != Margins{}) attributes.emplace_back("output_padding", spatial(g, rest));
  const OnnxValue image = call.add("ConvTranspose", {feature, call.operand(1), call.operand(2)}, attributes);
  return activation_onnx(call, image, attr.activation);
}

// A convolution over samples as channels, with the feature as filter: stride and dilation change places. A group's
// image channels are its samples, so that the filter's channels of all groups are computed side by side.
OnnxValue conv_weight_onnx(OnnxCall& call, const WeightAttr& attr) {
  const ConvGeometry& g = attr.geometry;
  const std::int64_t channels = g.image_channels_per_group();
  ConvGeometry by_sample = g;
  std::swap(by_sample.kernel, by_sample.feature);
  std::swap(by_sample.stride, by_sample.dilation);
  std::vector<std::int64_t> grouped{g.batch, g.groups, channels}, joined{channels, g.groups * g.batch}, turned{2, 1, 0},
      swapped{1, 0};
  for (const std::int64_t extent : spatial(g, g.image)) {
    turned.push_back(static_cast<std::int64_t>(grouped.size()));
    swapped.push_back(static_cast<std::int64_t>(joined.size()));
    grouped.push_back(extent);
    joined.push_back(extent);
  }
  const OnnxValue groups = call.add("Transpose", {call.reshape(call.operand(0), grouped)}, {{"perm", turned}});
  const OnnxValue feature = call.add("Transpose", {call.operand(1)}, {{"perm", swapped}});
  return call.add("Transpose", {feature_onnx(call, call.reshape(groups, joined), feature, {}, by_sample)},
                  {{"perm", swapped}});
}

constinit const OpDef<ConvAttr> conv_op{
    .name = "conv",
    .infer = [](Operands in,
                const ConvAttr& attr) { return with_linear(infer_conv(in, attr.geometry), attr.activation); },
    .cpu = cpu::conv,
    .cuda = ADJOINT_IF_CUDA(cuda::conv),
    .formats = Formats::kImages,
    .channels_last = conv_in_channels_last<false>,
    .prepare = [](Operands in, Results out, const ConvAttr& attr) { return cpu::prepare_conv(in, out, attr, false); },
    .optional = kBias,
    .mixed_precision = MixedPrecision::kLow,
    .cost = [](Operands in, Operands, const ConvAttr& attr) { return cost(in, attr.geometry); },
    .onnx = conv_onnx,
    .joint_vjp = {saves, conv_gradients}};

constinit const OpDef<ConvAttr> conv_transpose_op{
    .name = "conv_transpose",
    .infer = [](Operands in,
                const ConvAttr& attr) { return with_linear(infer_conv_transpose(in, attr.geometry), attr.activation); },
    .cpu = cpu::conv_transpose,
    .cuda = ADJOINT_IF_CUDA(cuda::conv_transpose),
    .formats = Formats::kImages,
    .channels_last = conv_in_channels_last<true>,
    .prepare = [](Operands in, Results out, const ConvAttr& attr) { return cpu::prepare_conv(in, out, attr, true); },
    .optional = kBias,
    .mixed_precision = MixedPrecision::kLow,
    .cost = [](Operands in, Operands, const ConvAttr& attr) { return cost(in, attr.geometry); },
    .onnx = conv_transpose_onnx,
    .joint_vjp = {saves, conv_transpose_gradients}};

constinit const OpDef<WeightAttr> conv_weight_op {
  .name = "conv_weight", .infer = infer_conv_weight,
  .cpu = [](Operands in, Tensor& out, const WeightAttr& attr) { cpu::conv_weight(in, out, attr.geometry); },
#if defined(ADJOINT_WITH_CUDA)
  .cuda = [](Operands in, Tensor& out, const WeightAttr& attr) { cuda::conv_weight(in, out, attr.geometry); },
#endif
  .formats = Formats::kImages, .channels_last = conv_weight_in_channels_last, .mixed_precision = MixedPrecision::kLow,
  .cost = [](Operands in, Operands, const WeightAttr& attr) { return cost(in, attr.geometry); },
  .onnx = conv_weight_onnx, .vjp = {
    {{kSaveIn1, [](const WeightCtx& c) { return conv_transpose(c.in[1], c.grad, {}, c.attr.geometry); }},
     {kSaveIn0, [](const WeightCtx& c) { return conv(c.in[0], c.grad, {}, c.attr.geometry); }}}
  }
};

}  // namespace

void check_geometry(const char* op, const ConvGeometry& g) {
  const auto words = [&](const auto& values) {
    return g.rank == 3 ? fmt::format("{}, {}, {}", values.d, values.h, values.w)
                       : fmt::format("{}, {}", values.h, values.w);
  };
  bool valid = g.rank >= 1 && g.rank <= 3 && g.batch >= 0 && g.groups >= 1 && g.image_channels >= 1 &&
               g.feature_channels >= 1 && g.image_channels % g.groups == 0 && g.feature_channels % g.groups == 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    valid = valid && g.image[axis] >= 1 && g.feature[axis] >= 1 && g.kernel[axis] >= 1;
    valid = valid && is_step(g.stride[axis], 1) && is_step(g.padding[axis], 0) && is_step(g.dilation[axis], 1);
    const bool is_present = static_cast<int>(axis) + g.rank >= 3;
    valid = valid && (is_present || (g.image[axis] == 1 && g.feature[axis] == 1 && g.kernel[axis] == 1));
    valid = valid && meets(g, axis);
  }
  // An empty batch counts as one sample: kernels multiply a sample's extents.
  const std::int64_t batch = std::max<std::int64_t>(g.batch, 1);
  const auto fits_in = [](std::int64_t first, std::int64_t second, const Extents& extents) {
    return fits({first, second, extents.d, extents.h, extents.w});
  };
  valid = valid && fits_in(batch, g.image_channels, g.image) && fits_in(batch, g.feature_channels, g.feature) &&
          fits_in(g.feature_channels, g.image_channels_per_group(), g.kernel);
  ADJOINT_CHECK(
      valid,
      "{}: a geometry's rank is 1, 2 or 3, its groups divide both channels, its channels, extents, kernel, stride and "
      "dilation are positive and its padding is not negative; stride, padding and dilation are at most 2^40, tensors "
      "have fewer than 2^62 elements, and the extents of image and feature are a convolution's; got batch {}, rank {}, "
      "groups {}, channels {} and {}, image ({}), feature ({}), kernel ({}), stride ({}), padding ({}), dilation ({}); "
      "make it from a call of conv.h",
      op, g.batch, g.rank, g.groups, g.image_channels, g.feature_channels, words(g.image), words(g.feature),
      words(g.kernel), words(g.stride), words(g.padding), words(g.dilation));
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

namespace {

Tensor run(const OpDef<ConvAttr>& op, const Tensor& input, const Tensor& filter, const Tensor& bias,
           const ConvGeometry& geometry, const Activation& activation) {
  const MemoryFormat format = filter.defined() ? filter.memory_format() : kContiguous;
  if (fuses_into_convolution(activation)) return apply(op, {input, filter, bias}, {geometry, activation, format});
  return activate(apply(op, {input, filter, bias}, {geometry, {}, format}), activation);
}

}  // namespace

Tensor conv(const Tensor& image, const Tensor& filter, const Tensor& bias, const ConvGeometry& geometry,
            const Activation& activation) {
  return run(conv_op, image, filter, bias, geometry, activation);
}
Tensor conv_transpose(const Tensor& feature, const Tensor& filter, const Tensor& bias, const ConvGeometry& geometry,
                      const Activation& activation) {
  return run(conv_transpose_op, feature, filter, bias, geometry, activation);
}
Tensor conv_weight(const Tensor& image, const Tensor& feature, const ConvGeometry& geometry, MemoryFormat format) {
  const bool is_channels_last = leading_format(std::array{image, feature}) == kChannelsLast;
  return apply(conv_weight_op, {image, feature}, WeightAttr{geometry, is_channels_last ? format : kContiguous});
}

}  // namespace adjoint
