#include <adjoint/ops/norm/onnx.h>

#include <adjoint/core/graph/one_call.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/reduce/reduce.h>

#include <vector>

namespace adjoint {
namespace {

struct NodeAttr {
  std::int64_t groups, last_axes;
  double eps;
};

// Operand i, the weight or the bias, or a constant if that is undefined.
OnnxValue parameter_onnx(OnnxCall& call, std::size_t i, double otherwise, const Shape& shape) {
  if (call.in[i].defined()) return call.operand(i);
  const DType dtype = call.in[3 - i].defined() ? call.in[3 - i].dtype() : call.in[0].dtype();
  return call.constant(Tensor::full(shape, otherwise, {.dtype = dtype}));
}

// x, weight, bias, running mean and variance.
OnnxValue given_onnx(OnnxCall& call, const NodeAttr& attr) {
  const Shape channels{call.in[0].size(1)};
  return call.add("BatchNormalization",
                  {call.operand(0), parameter_onnx(call, 1, 1.0, channels), parameter_onnx(call, 2, 0.0, channels),
                   call.operand(3), call.operand(4)},
                  {{"epsilon", attr.eps}});
}

// x, weight, bias.
OnnxValue layer_norm_onnx(OnnxCall& call, const NodeAttr& attr) {
  const Shape& shape = call.in[0].shape();
  const OnnxValue weight = parameter_onnx(call, 1, 1.0, Shape(shape.end() - attr.last_axes, shape.end()));
  return call.add("LayerNormalization", {call.operand(0), weight, call.operand(2)},
                  {{"axis", -attr.last_axes}, {"epsilon", attr.eps}});
}
OnnxValue instance_norm_onnx(OnnxCall& call, const NodeAttr& attr) {
  const Shape channels{call.in[0].size(1)};
  return call.add("InstanceNormalization",
                  {call.operand(0), parameter_onnx(call, 1, 1.0, channels), parameter_onnx(call, 2, 0.0, channels)},
                  {{"epsilon", attr.eps}});
}

// x. Each group is a channel of (N, groups, rest).
OnnxValue group_norm_onnx(OnnxCall& call, const NodeAttr& attr) {
  const Tensor& x = call.in[0];
  if (x.numel() == 0) return call.operand(0);
  const auto each = [&](double value) {
    return call.constant(Tensor::full({attr.groups}, value, {.dtype = x.dtype()}));
  };
  const OnnxValue groups = call.add("Reshape", {call.operand(0), call.integers({0, attr.groups, -1})});
  const OnnxValue normal = call.add("InstanceNormalization", {groups, each(1.0), each(0.0)}, {{"epsilon", attr.eps}});
  return call.reshape(normal, x.shape());
}

// ONNX has no node for statistics over the samples, nor for those without a mean.
Tensor formula(const TracedNorm& c, const NormAttr& attr) {
  Dims axes;
  for (std::int64_t axis = 0; axis < c.x.dim(); ++axis) {
    const bool shared = attr.across ? axis != 1 : axis >= c.x.dim() - static_cast<std::int64_t>(c.last_axes);
    if (shared) axes.push_back(axis);
  }
  const Tensor x = widened(c.x), centred = attr.centred ? x - x.mean(axes, true) : x;
  return centred / sqrt(square(centred).mean(axes, true) + attr.eps);
}

// A parameter of the channels as (C, 1, ...).
Tensor beside_channels(const TracedNorm& c, const Tensor& parameter) {
  if (c.last_axes > 0) return parameter;
  Shape shape = Dims::filled(c.x.shape().size() - 1, 1);
  shape[0] = parameter.numel();
  return parameter.reshape(shape);
}

}  // namespace

Normalized normalize_traced(const TracedNorm& c, const NormAttr& attr,
                            const std::function<Normalized(bool affine)>& compute) {
  const NodeAttr node{attr.groups, static_cast<std::int64_t>(c.last_axes), attr.eps};
  Normalized result;
  const auto computed = [&](bool affine) {
    return [&, affine] {
      result = compute(affine);
      return result.y;
    };
  };
  Tensor y;
  bool affine = true;
  if (attr.given) {
    y = detail::as_one_call(c.op, given_onnx, node, computed(true), c.x, c.weight, c.bias, c.running_mean,
                            c.running_var);
  } else if (attr.across || !attr.centred) {
    const detail::TraceScope paused(nullptr);
    result = compute(false);  // for its statistics
    affine = false;
  } else if (c.last_axes > 0) {
    y = detail::as_one_call(c.op, layer_norm_onnx, node, computed(true), c.x, c.weight, c.bias);
  } else if (attr.depth == 1 && !attr.wide && c.x.dim() > 2) {
    y = detail::as_one_call(c.op, instance_norm_onnx, node, computed(true), c.x, c.weight, c.bias);
  } else {
    y = detail::as_one_call(c.op, group_norm_onnx, node, computed(false), c.x);
    affine = false;
  }
  if (!y.defined()) y = formula(c, attr);
  if (!affine) {
    y = widened(y);
    if (c.weight.defined()) y = y * widened(beside_channels(c, c.weight));
    if (c.bias.defined()) y = y + widened(beside_channels(c, c.bias));
    y = y.to(c.x.dtype());
  }
  if (c.behind.residual.defined()) y = y + c.behind.residual;
  return {activate(y, c.behind.activation), result.statistics};
}

}  // namespace adjoint
