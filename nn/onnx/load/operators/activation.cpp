// ONNX's activations.
#include <adjoint/core/base/check.h>
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/softmax/softmax.h>

namespace adjoint::nn::detail {
namespace {

template <Tensor (*kFunction)(const Tensor&)>
OnnxResults activated(const OnnxArgs& x) {
  return {kFunction(x[0])};
}

// Before operator set 13, all axes from `axis` on are one.
template <Tensor (*kFunction)(const Tensor&, std::int64_t)>
OnnxResults along_axis(const OnnxArgs& args) {
  const Tensor& x = args[0];
  if (args.operator_set >= 13) return {kFunction(x, args.integer("axis", -1))};
  const auto axis = static_cast<std::int64_t>(resolve_axis("softmax", args.integer("axis", 1), x.shape().size()));
  const Tensor matrix = axis == 0 ? x.flatten().unsqueeze(0) : x.flatten(axis).flatten(0, axis - 1);
  return {kFunction(matrix, 1).reshape(x.shape())};
}

// 1 at the first of the largest elements, else 0.
Tensor hardmax(const Tensor& x, std::int64_t axis) {
  return one_hot(argmax(x, axis), x.size(axis)).movedim(-1, axis).to(x.dtype());
}

// Bounds are numbers, unless they have gradients or would have to be fetched from a device.
OnnxResults clipped(const OnnxArgs& x) {
  const auto is_number = [&](std::size_t i) { return x.has(i) && x[i].is_cpu() && !x[i].requires_grad(); };
  if (is_number(1) && is_number(2)) return {clamp(x[0], x[1].item(), x[2].item())};
  Tensor y = x[0];
  if (x.has(1)) y = is_number(1) ? clamp_min(y, x[1].item()) : maximum(y, x[1].reshape({}).to(y));
  if (x.has(2)) y = is_number(2) ? clamp_max(y, x[2].item()) : minimum(y, x[2].reshape({}).to(y));
  return {y};
}

OnnxResults rectified(const OnnxArgs& args) {
  const Tensor &x = args[0], &slope = args[1];
  if (broadcast_shapes("prelu", x.shape(), slope.shape()) != x.shape())
    args.refuse(fmt::format("its slope must broadcast to the input {}; got {}", x.shape(), slope.shape()));
  if (slope.numel() == 1) return {prelu(x, slope.reshape({1}))};
  // Exporters write (channels, 1, ...), with or without an axis for the batch in front.
  const std::int64_t channels = slope.dim() - x.dim() + 1;
  const bool of_channels = x.dim() > 1 && (channels == 0 || channels == 1) && slope.size(channels) == slope.numel();
  return {of_channels ? prelu(x, slope.flatten()) : where(x < 0, slope * x, x)};
}

OnnxResults scaled_elu(const OnnxArgs& x) {
  if (!x.has_attribute("alpha") && !x.has_attribute("gamma")) return {selu(x[0])};
  const Tensor negative = elu(widened(x[0]), x.number("alpha", 1.67326319217681884765625));
  return {(negative * x.number("gamma", 1.05070102214813232421875)).to(x[0].dtype())};
}

OnnxResults shrunk(const OnnxArgs& args) {
  const Tensor& x = args[0];
  const double threshold = args.number("lambd", 0.5), bias = args.number("bias", 0.0);
  const Tensor wide = x.is_floating_point() ? widened(x) : x.to(kFloat64);
  const Tensor moved = where(wide < -threshold, wide + bias, where(wide > threshold, wide - bias, 0));
  return {moved.to(x.dtype())};
}

OnnxResults hard_sigmoid(const OnnxArgs& x) {
  const Tensor line = widened(x[0]) * x.number("alpha", 0.2) + x.number("beta", 0.5);
  return {clamp(line, 0, 1).to(x[0].dtype())};
}

constexpr OnnxOperator kActivationOperators[] = {
    {.type = "Celu",
     .run = [](const OnnxArgs& x) -> OnnxResults { return {celu(x[0], x.number("alpha", 1.0))}; },
     .attributes = "alpha"},
    {.type = "Clip", .run = clipped, .settings = 6},
    {.type = "Elu",
     .run = [](const OnnxArgs& x) -> OnnxResults { return {elu(x[0], x.number("alpha", 1.0))}; },
     .attributes = "alpha"},
    {.type = "HardSigmoid", .run = hard_sigmoid, .attributes = "alpha beta"},
    {.type = "HardSwish", .run = activated<hardswish>},
    {.type = "Hardmax", .run = along_axis<hardmax>, .attributes = "axis"},
    {.type = "LeakyRelu",
     .run = [](const OnnxArgs& x) -> OnnxResults { return {leaky_relu(x[0], x.number("alpha", 0.01))}; },
     .attributes = "alpha"},
    {.type = "LogSoftmax", .run = along_axis<log_softmax>, .attributes = "axis"},
    {.type = "PRelu", .run = rectified},
    {.type = "Relu", .run = activated<relu>},
    {.type = "Selu", .run = scaled_elu, .attributes = "alpha gamma"},
    {.type = "Shrink", .run = shrunk, .attributes = "lambd bias"},
    {.type = "Sigmoid", .run = activated<sigmoid>},
    {.type = "Softmax", .run = along_axis<softmax>, .attributes = "axis"},
    {.type = "Softplus", .run = [](const OnnxArgs& x) -> OnnxResults { return {softplus(x[0])}; }},
    {.type = "Softsign", .run = activated<softsign>},
    {.type = "Tanh", .run = activated<tanh>},
    {.type = "ThresholdedRelu",
     .run = [](const OnnxArgs& x) -> OnnxResults { return {threshold(x[0], x.number("alpha", 1.0), 0.0)}; },
     .attributes = "alpha"},
};

}  // namespace

std::span<const OnnxOperator> onnx_activation_operators() { return kActivationOperators; }

}  // namespace adjoint::nn::detail
