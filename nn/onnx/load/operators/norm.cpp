// ONNX's normalisations.
#include <adjoint/core/base/check.h>
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/norm/norm.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/pool/pool.h>
#include <adjoint/ops/reduce/reduce.h>

namespace adjoint::nn::detail {
namespace {

double epsilon_of(const OnnxArgs& x) { return x.number("epsilon", 1e-5); }

// In training the statistics follow the batch, in place. A node that also returns them uses the population's variance,
// as ONNX defines it; the others use the library's n - 1.
OnnxResults batch_normalized(const OnnxArgs& x) {
  Tensor mean = x[3], variance = x[4];
  const double momentum = x.number("momentum", 0.9);
  if (!x.training || x.node.outputs.size() < 2) {
    const Tensor y = batch_norm(x[0], mean, variance, x[1], x[2], x.training, 1.0 - momentum, epsilon_of(x));
    return {y, mean.clone(), variance.clone()};
  }
  const Tensor y = batch_norm(x[0], {}, {}, x[1], x[2], true, 0.0, epsilon_of(x));
  Dims others{0};
  for (std::int64_t axis = 2; axis < x[0].dim(); ++axis) others.push_back(axis);
  const auto [own_variance, own_mean] = var_mean(x[0].detach(), others, 0);
  mean.copy_(lerp(own_mean.to(mean.dtype()), mean, momentum));
  variance.copy_(lerp(own_variance.to(variance.dtype()), variance, momentum));
  return {y, mean.clone(), variance.clone()};
}

OnnxResults instance_normalized(const OnnxArgs& x) {
  return {instance_norm(x[0], {}, {}, x[1], x[2], true, 0.0, epsilon_of(x))};
}

OnnxResults layer_normalized(const OnnxArgs& x) {
  const Shape& shape = x[0].shape();
  const std::int64_t axis = x.axis_of(x.integer("axis", -1), x[0].dim());
  if (x.integer("stash_type", 1) != 1) x.refuse("its stash_type must be 1, float32");
  const Shape normalized(shape.begin() + axis, shape.end());
  const Tensor weight = x[1].expand(normalized), bias = x.has(2) ? x[2].expand(normalized) : Tensor();
  OnnxResults results{layer_norm(x[0], normalized, weight, bias, epsilon_of(x))};
  if (x.node.outputs.size() < 2) return results;
  Dims axes;
  for (std::int64_t own = axis; own < x[0].dim(); ++own) axes.push_back(own);
  const auto [variance, mean] = var_mean(x[0].to(kFloat32), axes, 0, true);
  results.insert(results.end(), {mean, rsqrt(variance + epsilon_of(x))});
  return results;
}

// The mean of squares over neighbouring channels is an average over an image whose rows are the channels.
OnnxResults response_normalized(const OnnxArgs& x) {
  const Shape& shape = x[0].shape();
  const std::int64_t size = x.integer("size", 0);
  if (shape.size() < 2 || size < 1 || size >= std::int64_t{1} << 30)
    x.refuse(fmt::format("its input must be (N, C, ...), and its size positive; got {}, {}", shape, size));
  const std::int64_t pixels = Shape(shape.begin() + 2, shape.end()).numel();
  const Tensor squares = square(x[0]).reshape({shape[0], 1, shape[1], pixels});
  const Tensor around = pad(squares, {0, 0, (size - 1) / 2, size / 2});
  const Tensor mean = avg_pool2d(around, {size, 1}, 1).reshape(shape);
  return {x[0] / (mean * x.number("alpha", 1e-4) + x.number("bias", 1.0)).pow(x.number("beta", 0.75))};
}

constexpr OnnxOperator kNormOperators[] = {
    {.type = "BatchNormalization",
     .run = batch_normalized,
     .attributes = "epsilon momentum training_mode",
     .buffers = 8 | 16},
    {.type = "InstanceNormalization", .run = instance_normalized, .attributes = "epsilon"},
    {.type = "LayerNormalization", .run = layer_normalized, .attributes = "axis epsilon stash_type"},
    {.type = "LRN", .run = response_normalized, .attributes = "alpha beta bias size"},
};

}  // namespace

std::span<const OnnxOperator> onnx_norm_operators() { return kNormOperators; }

}  // namespace adjoint::nn::detail
