// batch_norm, layer_norm, group_norm, instance_norm, rms_norm: the axes over which each normalises.
#include <adjoint/ops/norm/norm.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/norm/normalize.h>
#include <adjoint/ops/norm/onnx.h>

#include <array>
#include <utility>

namespace adjoint {
namespace {

// The arguments that all share.
struct Call {
  const char* op;
  Tensor input, weight, bias;
  const NormFusion& behind;
};

// may_be_wide: the parameter may be float32 if the input has 16 bits.
void check_parameter(const Call& c, const char* name, const Tensor& parameter, const Shape& shape,
                     bool may_be_wide = false) {
  if (!parameter.defined()) return;
  const DType own = c.input.dtype(), wide = may_be_wide && own != kFloat64 ? kFloat32 : own;
  ADJOINT_CHECK(parameter.shape() == shape && (parameter.dtype() == own || parameter.dtype() == wide),
                "{}: {} must have shape {} and input's dtype{}; got {} {}, input {} {}", c.op, name, shape,
                may_be_wide ? ", or float32 for an input of 16 bits" : "", parameter.dtype(), parameter.shape(), own,
                c.input.shape());
}

void check_input(const Call& c) {
  check_defined(c.op, "input", c.input);
  check_floating(c.op, c.input.dtype());
  check_activation(c.op, c.behind.activation);
  check_parameter(c, "residual", c.behind.residual, c.input.shape());
}

// The channels are axis 1.
void check_channels(const Call& c, bool may_be_wide) {
  check_input(c);
  ADJOINT_CHECK(c.input.dim() >= 2, "{}: input must have two axes or more, (N, C, ...); got {}", c.op, c.input.shape());
  for (const auto& [name, parameter] : {std::pair{"weight", &c.weight}, {"bias", &c.bias}}) {
    ADJOINT_CHECK(!parameter->defined() || parameter->dim() != 1 || parameter->size(0) == c.input.size(1),
                  "{}: input's axis 1 must have the {} channels that {} is for; got {} in input {}, {} {}; without "
                  "a batch axis? unsqueeze(0)",
                  c.op, parameter->size(0), name, c.input.size(1), c.input.shape(), name, parameter->shape());
    check_parameter(c, name, *parameter, {c.input.size(1)}, may_be_wide);
  }
  ADJOINT_CHECK(!c.weight.defined() || !c.bias.defined() || c.weight.dtype() == c.bias.dtype(),
                "{}: weight and bias must have one dtype; got {} and {}", c.op, c.weight.dtype(), c.bias.dtype());
}

std::int64_t inner_of(const Tensor& input) { return Shape(input.shape().begin() + 2, input.shape().end()).numel(); }

struct Running {
  const Tensor& mean;
  const Tensor& variance;
};

void check_running(const Call& c, const Running& running, bool required) {
  ADJOINT_CHECK(running.mean.defined() == running.variance.defined(),
                "{}: running_mean and running_var must come together; got one of them", c.op);
  ADJOINT_CHECK(!required || running.mean.defined(),
                "{}: without the batch's own statistics running_mean and running_var must be defined", c.op);
  if (!running.mean.defined()) return;
  const Shape shape{c.input.size(1)};
  for (const auto& [name, of] : {std::pair{"running_mean", &running.mean}, {"running_var", &running.variance}}) {
    ADJOINT_CHECK(
        of->shape() == shape && is_floating_point(of->dtype()) && of->dtype() == running.mean.dtype() &&
            of->device() == c.input.device(),
        "{}: {} must be of one floating-point dtype, of shape {} and on input's device; got {} {} on {}, input {} on {}",
        c.op, name, shape, of->dtype(), of->shape(), of->device(), c.input.shape(), c.input.device());
  }
}

// Converts running statistics to the form of a batch's. Neither operator is ever recorded.
constinit const OpDef<DType> give_op{.name = "normalize",
                                     .infer =
                                         [](Operands in, const DType& dtype) {
                                           return TensorSpec{{in[0].numel(), kStatisticsFields}, dtype};
                                         },
                                     .cpu = cpu::give_statistics,
                                     .cuda = ADJOINT_IF_CUDA(cuda::give_statistics),
                                     .mixed_precision = MixedPrecision::kAsGiven};

constinit const OpDef<FollowAttr> follow_op{.name = "normalize",
                                            .infer = [](Operands in, const FollowAttr&) -> Specs {
                                              const TensorSpec each{in[0].shape(), in[0].dtype()};
                                              return {.specs = {each, each}, .results = 2};
                                            },
                                            .cpu = cpu::follow_statistics,
                                            .cuda = ADJOINT_IF_CUDA(cuda::follow_statistics),
                                            .mixed_precision = MixedPrecision::kAsGiven};

Tensor given_statistics(const Tensor& x, const Running& running) {
  return apply(give_op, {running.mean.detach(), running.variance.detach()},
               x.dtype() == kFloat64 ? kFloat64 : kFloat32);
}

// last_axes: the axes that are normalised; 0: those behind the channels.
Normalized run(const Call& c, NormAttr attr, const Running& running, std::size_t last_axes = 0) {
  const auto flat = [&](const Tensor& t) { return !t.defined() || t.dim() == 1 ? t : t.reshape({attr.channels()}); };
  for (const Tensor* parameter : {&c.weight, &c.bias}) {
    if (parameter->defined()) attr.wide = parameter->dtype() != c.input.dtype();
  }
  const auto compute = [&](bool affine, const NormFusion& behind) {
    attr.activation = behind.activation;
    const Tensor statistics = attr.given ? given_statistics(c.input, running) : Tensor();
    return normalize(c.input, affine ? flat(c.weight) : Tensor(), affine ? flat(c.bias) : Tensor(), behind.residual,
                     statistics, attr);
  };
  if (adjoint::detail::CallTrace::of_functions() == nullptr) [[likely]]
    return compute(true, c.behind);
  const TracedNorm traced{c.op, c.input, c.weight, c.bias, running.mean, running.variance, c.behind, last_axes};
  return normalize_traced(traced, attr, [&](bool affine) { return compute(affine, {}); });
}

// `count` elements share each of the statistics (samples, C, fields).
void follow(const Call& c, const Running& running, const Tensor& statistics, double count, double momentum) {
  const PauseTape pause;
  std::array<Tensor, 2> targets{running.mean, running.variance};
  for (const Tensor& target : targets) check_writable(c.op, target);
  const std::array<Tensor, 3> in{running.mean, running.variance, statistics};
  const FollowAttr attr{momentum, momentum * count / (count - 1.0)};
  if (targets[0].is_contiguous() && targets[1].is_contiguous()) {
    const detail::ProfiledCall profiled(follow_op.name, in);
    return detail::compute(follow_op, in, targets, attr);
  }
  const auto made = apply_all(follow_op, in, attr);
  for (std::size_t i = 0; i < targets.size(); ++i) copy_into(made[i], targets[i]);
}

// One group per channel: across all samples (`across`), or within one; with given statistics, the running ones.
NormAttr by_channel(const Call& c, const Running& running, bool across, bool given, double eps) {
  check_channels(c, true);
  check_running(c, running, given);
  return {.samples = c.input.size(0),
          .groups = c.input.size(1),
          .inner = inner_of(c.input),
          .across = across,
          .given = given,
          .eps = eps};
}

Tensor over_last_axes(const Call& c, const Shape& normalized, NormAttr attr) {
  check_input(c);
  const Shape& shape = c.input.shape();
  const bool fits = normalized.size() >= 1 && normalized.size() <= shape.size() &&
                    Shape(shape.end() - normalized.size(), shape.end()) == normalized;
  ADJOINT_CHECK(fits, "{}: normalized_shape must be the extents of input's last axes; got {}, input {}", c.op,
                normalized, shape);
  check_parameter(c, "weight", c.weight, normalized);
  check_parameter(c, "bias", c.bias, normalized);
  attr.samples = Shape(shape.begin(), shape.end() - normalized.size()).numel();
  attr.depth = normalized.numel();
  return run(c, attr, {Tensor(), Tensor()}, normalized.size()).y;
}

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                  const Tensor& bias, bool training, double momentum, double eps, const NormFusion& behind) {
  const OpScope scope("batch_norm");
  if (const detail::AutocastCall cast(MixedPrecision::kFirst, {input, behind.residual}); cast) {
    return batch_norm(cast[0], running_mean, running_var, weight, bias, training, momentum, eps,
                      {behind.activation, cast[1]});
  }
  const Call call{"batch_norm", input, weight, bias, behind};
  const Running running{running_mean, running_var};
  const NormAttr attr = by_channel(call, running, true, !training, eps);
  if (attr.given) return run(call, attr, running).y;
  const std::int64_t count = attr.samples * attr.inner;
  ADJOINT_CHECK(count != 1, "batch_norm: in training there must be more than 1 value for each channel; got input {}",
                input.shape());
  const Normalized result = run(call, attr, running);
  if (running_mean.defined() && count > 0)
    follow(call, running, result.statistics.unsqueeze(0), static_cast<double>(count), momentum);
  return result.y;
}

Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias,
                  double eps, const NormFusion& behind) {
  const OpScope scope("layer_norm");
  if (const detail::AutocastCall cast(MixedPrecision::kFull, {input, weight, bias, behind.residual}); cast) {
    return layer_norm(cast[0], normalized_shape, cast[1], cast[2], eps, {behind.activation, cast[3]});
  }
  return over_last_axes({"layer_norm", input, weight, bias, behind}, normalized_shape, {.eps = eps});
}

Tensor group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps,
                  const NormFusion& behind) {
  const OpScope scope("group_norm");
  if (const detail::AutocastCall cast(MixedPrecision::kFull, {input, weight, bias, behind.residual}); cast) {
    return group_norm(cast[0], num_groups, cast[1], cast[2], eps, {behind.activation, cast[3]});
  }
  const Call call{"group_norm", input, weight, bias, behind};
  check_channels(call, false);
  ADJOINT_CHECK(num_groups >= 1 && input.size(1) % num_groups == 0,
                "group_norm: num_groups must divide the channels; got {} groups, input {}", num_groups, input.shape());
  const std::int64_t values = input.size(0) * (input.size(1) / num_groups) * inner_of(input);
  ADJOINT_CHECK(values != 1, "group_norm: there must be more than 1 value for each group; got {} groups, input {}",
                num_groups, input.shape());
  const NormAttr attr{.samples = input.size(0),
                      .groups = num_groups,
                      .depth = input.size(1) / num_groups,
                      .inner = inner_of(input),
                      .eps = eps};
  return run(call, attr, {Tensor(), Tensor()}).y;
}

Tensor instance_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                     const Tensor& bias, bool use_input_stats, double momentum, double eps, const NormFusion& behind) {
  const OpScope scope("instance_norm");
  if (const detail::AutocastCall cast(MixedPrecision::kFirst, {input, behind.residual}); cast) {
    return instance_norm(cast[0], running_mean, running_var, weight, bias, use_input_stats, momentum, eps,
                         {behind.activation, cast[1]});
  }
  const Call call{"instance_norm", input, weight, bias, behind};
  const Running running{running_mean, running_var};
  const NormAttr attr = by_channel(call, running, !use_input_stats, !use_input_stats, eps);
  if (attr.given) return run(call, attr, running).y;
  ADJOINT_CHECK(attr.inner != 1,
                "instance_norm: there must be more than 1 value for each channel of a sample; got input {}",
                input.shape());
  const Normalized result = run(call, attr, running);
  if (running_mean.defined() && input.numel() > 0) {
    follow(call, running, result.statistics.reshape({attr.samples, attr.groups, kStatisticsFields}),
           static_cast<double>(attr.inner), momentum);
  }
  return result.y;
}

Tensor rms_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight, std::optional<double> eps,
                const NormFusion& behind) {
  const OpScope scope("rms_norm");
  if (const detail::AutocastCall cast(MixedPrecision::kFull, {input, weight, behind.residual}); cast) {
    return rms_norm(cast[0], normalized_shape, cast[1], eps, {behind.activation, cast[2]});
  }
  check_defined("rms_norm", "input", input);
  return over_last_axes({"rms_norm", input, weight, {}, behind}, normalized_shape,
                        {.centred = false, .eps = eps.value_or(epsilon(input.dtype()))});
}

}  // namespace adjoint
