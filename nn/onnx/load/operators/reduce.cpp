// ONNX's reductions, running sums, orders and losses.
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/loss/classification.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/scan/scan.h>
#include <adjoint/ops/softmax/softmax.h>
#include <adjoint/ops/sort/sort.h>
#include <adjoint/ops/view/view.h>

#include <limits>
#include <utility>

namespace adjoint::nn::detail {
namespace {

// ---- Reductions. ONNX's have results of the operand's dtype.

template <Tensor (*kReduce)(const Tensor&, const Dims&, bool)>
OnnxResults reduced(const OnnxArgs& x) {
  const Dims axes = x.axes("axes", 1);
  if (axes.empty() && x.integer("noop_with_empty_axes", 0) != 0) return {x[0]};
  return {kReduce(x[0], axes, x.integer("keepdims", 1) != 0).to(x[0].dtype())};
}

// Operands of functions for floating-point ones, and of several steps.
Tensor as_real(const Tensor& x) { return x.is_floating_point() ? widened(x) : x.to(kFloat64); }

Tensor mean_of_real(const Tensor& x, const Dims& axes, bool keepdim) { return mean(as_real(x), axes, keepdim); }
Tensor sum_of_magnitudes(const Tensor& x, const Dims& axes, bool keepdim) { return sum(abs(x), axes, keepdim); }
Tensor sum_of_squares(const Tensor& x, const Dims& axes, bool keepdim) {
  return sum(square(widened(x)), axes, keepdim);
}
Tensor euclidean_norm(const Tensor& x, const Dims& axes, bool keepdim) { return norm(as_real(x), 2.0, axes, keepdim); }
Tensor log_of_sum(const Tensor& x, const Dims& axes, bool keepdim) { return log(sum(as_real(x), axes, keepdim)); }
Tensor log_of_sum_of_exp(const Tensor& x, const Dims& axes, bool keepdim) {
  return logsumexp(as_real(x), axes, keepdim);
}

template <Tensor (*kPlace)(const Tensor&, std::int64_t, bool)>
OnnxResults place_of_extreme(const OnnxArgs& x) {
  const std::int64_t axis = x.integer("axis", 0);
  const bool keepdim = x.integer("keepdims", 1) != 0;
  if (x.integer("select_last_index", 0) == 0) return {kPlace(x[0], axis, keepdim)};
  return {(x[0].size(axis) - 1) - kPlace(flip(x[0], axis), axis, keepdim)};
}

OnnxResults mean_and_variance_normalized(const OnnxArgs& args) {
  const Tensor x = widened(args[0]);
  const auto [deviation, mean] = std_mean(x, args.integers("axes", {0, 2, 3}), 0, true);
  return {((x - mean) / (deviation + 1e-9)).to(args[0].dtype())};
}

// ---- Running sums and orders.

OnnxResults running_sum(const OnnxArgs& args) {
  const Tensor& x = args[0];
  const std::int64_t axis = args.host_integer(1), extent = x.size(axis);
  const bool reverse = args.integer("reverse", 0) != 0;
  Tensor sums = cumsum(reverse ? flip(x, axis) : x, axis).to(x.dtype());
  if (args.integer("exclusive", 0) != 0 && extent > 0) sums = embed(sums.narrow(axis, 0, extent - 1), axis, 1, extent);
  return {reverse ? flip(sums, axis) : sums};
}

OnnxResults largest(const OnnxArgs& x) {
  const auto [values, places] =
      topk(x[0], x.host_integer(1), x.integer("axis", -1), /*largest=*/x.integer("largest", 1) != 0);
  return {values, places};
}

// ---- Losses.

// Without the attribute no target is ignored: this one is no class.
std::int64_t ignored_target(const OnnxArgs& x) {
  return x.integer("ignore_index", std::numeric_limits<std::int64_t>::min());
}

OnnxResults negative_log_likelihood(const OnnxArgs& x) {
  return {
      nll_loss(x[0], x[1].to(kInt64),
               {.weight = x.optional(2), .ignore_index = ignored_target(x), .reduction = x.text("reduction", "mean")})};
}

OnnxResults softmax_cross_entropy(const OnnxArgs& x) {
  const Tensor loss = cross_entropy(x[0], x[1].to(kInt64),
                                    {.weight = x.optional(2),
                                     .ignore_index = ignored_target(x),
                                     .reduction = x.text("reduction", "mean")});
  return {loss, x.node.outputs.size() > 1 ? log_softmax(x[0], 1) : Tensor()};
}

constexpr OnnxOperator kReduceOperators[] = {
    {.type = "ArgMax", .run = place_of_extreme<argmax>, .attributes = "axis keepdims select_last_index"},
    {.type = "ArgMin", .run = place_of_extreme<argmin>, .attributes = "axis keepdims select_last_index"},
    {.type = "CumSum", .run = running_sum, .attributes = "exclusive reverse", .settings = 2},
    {.type = "MeanVarianceNormalization", .run = mean_and_variance_normalized, .attributes = "axes"},
    {.type = "NegativeLogLikelihoodLoss",
     .run = negative_log_likelihood,
     .attributes = "ignore_index reduction",
     .buffers = 4},
    {.type = "ReduceL1", .run = reduced<sum_of_magnitudes>, .attributes = "axes keepdims"},
    {.type = "ReduceL2", .run = reduced<euclidean_norm>, .attributes = "axes keepdims"},
    {.type = "ReduceLogSum", .run = reduced<log_of_sum>, .attributes = "axes keepdims"},
    {.type = "ReduceLogSumExp", .run = reduced<log_of_sum_of_exp>, .attributes = "axes keepdims"},
    {.type = "ReduceMax", .run = reduced<amax>, .attributes = "axes keepdims"},
    {.type = "ReduceMean", .run = reduced<mean_of_real>, .attributes = "axes keepdims"},
    {.type = "ReduceMin", .run = reduced<amin>, .attributes = "axes keepdims"},
    {.type = "ReduceProd", .run = reduced<prod>, .attributes = "axes keepdims"},
    {.type = "ReduceSum", .run = reduced<sum>, .attributes = "axes keepdims noop_with_empty_axes", .settings = 2},
    {.type = "ReduceSumSquare", .run = reduced<sum_of_squares>, .attributes = "axes keepdims"},
    {.type = "SoftmaxCrossEntropyLoss",
     .run = softmax_cross_entropy,
     .attributes = "ignore_index reduction",
     .buffers = 4},
    {.type = "TopK", .run = largest, .attributes = "axis largest sorted", .settings = 2},
};

}  // namespace

std::span<const OnnxOperator> onnx_reduce_operators() { return kReduceOperators; }

}  // namespace adjoint::nn::detail
