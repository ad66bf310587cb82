#include <adjoint/nn/norm.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/distributed/collectives.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>

#include <string>

namespace adjoint::nn {
namespace {

const char* python(bool value) { return value ? "True" : "False"; }

std::string python(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "None"; }

bool is_reduced(DType dtype) { return dtype == kFloat16 || dtype == kBFloat16; }

Tensor ones_if(bool wanted, const Shape& shape) { return wanted ? Tensor::ones(shape) : Tensor(); }
Tensor zeros_if(bool wanted, const Shape& shape) { return wanted ? Tensor::zeros(shape) : Tensor(); }

template <class M>
void make_affine(M& module, bool weight, bool bias, const Shape& shape) {
  module.weight = module.register_parameter("weight", ones_if(weight, shape), {.optional = true});
  module.bias = module.register_parameter("bias", zeros_if(bias, shape), {.optional = true});
}

void check_extents(const char* type, const Shape& shape) {
  bool positive = shape.size() > 0;
  for (const std::int64_t extent : shape) positive = positive && extent >= 1;
  ADJOINT_CHECK(positive, "{}: normalized_shape must have extents of at least 1; got {}", type, shape);
}

}  // namespace

namespace detail {

RunningNorm::RunningNorm(const char* type, std::int64_t num_features, const BatchNormOptions& options)
    : Module(type), num_features_(num_features), options_(options) {
  const OpScope scope(type);
  ADJOINT_CHECK(num_features >= 1, "{}: num_features must be at least 1; got {}", type, num_features);
  set_description(fmt::format("{}, eps={}, momentum={}, affine={}, track_running_stats={}", num_features, options.eps,
                              python(options.momentum), python(options.affine), python(options.track_running_stats)));
  const Shape shape{num_features};
  const bool tracks = options.track_running_stats;
  make_affine(*this, options.affine, options.affine, shape);
  running_mean = register_buffer("running_mean", zeros_if(tracks, shape), {.optional = true});
  running_var = register_buffer("running_var", ones_if(tracks, shape), {.optional = true});
  const Tensor none = tracks ? Tensor::zeros({}, {.dtype = kInt64}) : Tensor();
  num_batches_tracked = register_buffer("num_batches_tracked", none, {.optional = true});
}

void RunningNorm::check(const Tensor& input, std::int64_t least, std::int64_t most, std::int64_t channel_axis) const {
  check_not_moved_from(type().c_str());
  check_defined(type().c_str(), "input", input);
  ADJOINT_CHECK(input.dim() >= least && input.dim() <= most && input.size(channel_axis) == num_features_,
                "{}: input must have {} axes and {} channels; got {}", type(),
                least == most ? fmt::format("{}", least) : fmt::format("{} or {}", least, most), num_features_,
                input.shape());
}

double RunningNorm::share() const {
  const std::optional<double>& momentum = options().momentum;
  if (momentum) return *momentum;
  const Tensor count = num_batches_tracked;
  return training() && count.defined() ? 1.0 / (1.0 + count.item<double>()) : 0.0;
}

void RunningNorm::count_batch() const {
  Tensor count = num_batches_tracked;
  if (!training() || !count.defined()) return;
  const PauseTape pause;
  count.add_(Tensor::ones({}, count.options()));
}

Tensor BatchNorm::normalized(const Tensor& input, std::int64_t least, std::int64_t most,
                             const NormFusion& behind) const {
  const OpScope scope(type().c_str());
  check(input, least, most, 1);
  const bool of_all_ranks = sync() && uses_input() && distributed::world_size() > 1;
  const Tensor y = of_all_ranks ? synchronized(input, share(), behind)
                                : batch_norm(input, running_mean, running_var, weight, bias, uses_input(), share(),
                                             options().eps, behind);
  // Without elements there are no statistics either, unless other ranks have some.
  if (of_all_ranks || input.numel() > 0) count_batch();
  return y;
}

// In two rounds of sums, like a variance about the mean of all batches. The first round also sums the counts, so that a
// captured step can hold it. 16 bits are computed in float32, and statistics with twice the digits of that, as in
// batch_norm.
Tensor BatchNorm::synchronized(const Tensor& input, double momentum, const NormFusion& behind) const {
  Dims axes;
  for (std::int64_t axis = 0; axis < input.dim(); ++axis) {
    if (axis != 1) axes.push_back(axis);
  }
  const std::int64_t channels = num_features(), own = input.numel() / channels;
  Shape along = Dims::filled(input.shape().size(), 1);
  along[1] = channels;
  const DType computed = input.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const Tensor x = input.to(computed);
  const auto wide = [&](const Tensor& t) { return is_reduced(input.dtype()) ? t : t.to(kFloat64); };
  const Tensor sum = wide(x).sum(axes);
  const Tensor both =
      distributed::all_reduce(cat({sum, Tensor::full({1}, static_cast<double>(own), sum.options())}, 0));
  const Tensor count = both.narrow(0, channels, 1).detach();
  // Other ranks can only add to this rank's count, so only a small count must be queried, which waits for the device.
  const bool captured = adjoint::detail::StepCapture::current() != nullptr;
  ADJOINT_CHECK(own > 1 || captured || count.item<double>() > 1.0,
                "{}: in training each channel needs more than one value; got {} on all ranks", type(), input.shape());
  const Tensor mean = both.narrow(0, 0, channels) / count;
  const Tensor centred = x - mean.to(computed).reshape(along);
  const Tensor variance = distributed::all_reduce(wide(centred.square()).sum(axes)) / count;
  Tensor y = centred * rsqrt(variance + options().eps).to(computed).reshape(along);
  if (Tensor(weight).defined()) y = y * weight.tensor().to(computed).reshape(along);
  if (Tensor(bias).defined()) y = y + bias.tensor().to(computed).reshape(along);
  if (behind.residual.defined()) y = y + behind.residual.to(computed);
  if (running_mean.defined()) {
    const PauseTape pause;
    const auto follow = [&](Tensor running, const Tensor& batch) {
      const Tensor next = running.to(kFloat64) * (1.0 - momentum) + batch.to(kFloat64) * momentum;
      running.copy_(next);
    };
    follow(running_mean, mean.detach());
    follow(running_var, variance.detach() * (count / (count - 1.0)));
  }
  return activate(y, behind.activation).to(input.dtype());
}

InstanceNorm::InstanceNorm(const char* type, std::int64_t num_features, const InstanceNormOptions& options)
    : RunningNorm(type, num_features,
                  {.eps = options.eps,
                   .momentum = options.momentum,
                   .affine = options.affine,
                   .track_running_stats = options.track_running_stats}) {}

Tensor InstanceNorm::normalized(const Tensor& input, std::int64_t rank, const NormFusion& behind) const {
  const OpScope scope(type().c_str());
  check_defined(type().c_str(), "input", input);
  const bool batched = input.dim() == rank;
  check(input, rank - 1, rank, batched ? 1 : 0);
  const auto batch = [&](const Tensor& x) { return batched || !x.defined() ? x : x.unsqueeze(0); };
  const Tensor y = instance_norm(batch(input), running_mean, running_var, weight, bias, uses_input(), share(),
                                 options().eps, {.activation = behind.activation, .residual = batch(behind.residual)});
  if (!options().momentum && input.numel() > 0) count_batch();
  return batched ? y : y.squeeze(0);
}

}  // namespace detail

LayerNorm::LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options)
    : Module("LayerNorm"), normalized_shape_(normalized_shape), eps_(options.eps) {
  const OpScope scope("LayerNorm");
  check_extents("LayerNorm", normalized_shape);
  set_description(fmt::format("{}, eps={}, elementwise_affine={}", normalized_shape, options.eps,
                              python(options.elementwise_affine)));
  make_affine(*this, options.elementwise_affine, options.elementwise_affine && options.bias, normalized_shape);
}

Tensor LayerNorm::operator()(const Tensor& input, const NormFusion& behind) const {
  return hooked(input, [&](const Tensor& x) {
    const OpScope scope("LayerNorm");
    check_not_moved_from("LayerNorm");
    return layer_norm(x, normalized_shape_, weight, bias, eps_, behind);
  });
}

GroupNorm::GroupNorm(std::int64_t num_groups, std::int64_t num_channels, const GroupNormOptions& options)
    : Module("GroupNorm"), num_groups_(num_groups), eps_(options.eps) {
  const OpScope scope("GroupNorm");
  ADJOINT_CHECK(num_groups >= 1 && num_channels >= 1 && num_channels % num_groups == 0,
                "GroupNorm: num_groups must be at least 1 and divide num_channels; got {} groups, {} channels",
                num_groups, num_channels);
  set_description(
      fmt::format("{}, {}, eps={}, affine={}", num_groups, num_channels, options.eps, python(options.affine)));
  make_affine(*this, options.affine, options.affine, {num_channels});
}

Tensor GroupNorm::operator()(const Tensor& input, const NormFusion& behind) const {
  return hooked(input, [&](const Tensor& x) {
    const OpScope scope("GroupNorm");
    check_not_moved_from("GroupNorm");
    return group_norm(x, num_groups_, weight, bias, eps_, behind);
  });
}

RMSNorm::RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options)
    : Module("RMSNorm"), normalized_shape_(normalized_shape), eps_(options.eps) {
  const OpScope scope("RMSNorm");
  check_extents("RMSNorm", normalized_shape);
  set_description(fmt::format("{}, eps={}, elementwise_affine={}", normalized_shape, python(options.eps),
                              python(options.elementwise_affine)));
  weight = register_parameter("weight", ones_if(options.elementwise_affine, normalized_shape), {.optional = true});
}

Tensor RMSNorm::operator()(const Tensor& input, const NormFusion& behind) const {
  return hooked(input, [&](const Tensor& x) {
    const OpScope scope("RMSNorm");
    check_not_moved_from("RMSNorm");
    return rms_norm(x, normalized_shape_, weight, eps_, behind);
  });
}

namespace {

// norm(conv(x)) = s conv(x) + (norm's bias - s mean), s = norm's weight / sqrt(variance + eps): s goes into the filters
// and, with the added term, into the bias. channel_axis: the axis of the weight with the results' channels, or those of
// one group if it is 1.
template <class Conv, class Norm>
Conv folded(const Conv& conv, const Norm& norm, std::size_t channel_axis) {
  constexpr const char* kOp = "fold_batch_norm";
  const OpScope scope(kOp);
  const PauseTape pause;
  const Tensor filter = conv.weight.tensor().detach();
  auto options = conv.options();
  const std::int64_t groups = options.groups, taken = channel_axis == 0 ? 1 : groups,
                     given = channel_axis == 0 ? groups : 1;
  const std::int64_t out = filter.shape()[channel_axis] * taken, in = filter.shape()[1 - channel_axis] * given;
  ADJOINT_CHECK(norm.running_mean.defined(), "{}: the norm must track running statistics; got one that does not", kOp);
  ADJOINT_CHECK(norm.num_features() == out, "{}: the norm must have the convolution's out_channels; got {} and {}", kOp,
                norm.num_features(), out);
  const auto wide = [&](const Tensor& t, double none) {
    return t.defined() ? t.detach().to(kFloat64)
                       : Tensor::full({out}, none, {.dtype = kFloat64, .device = filter.device()});
  };
  const Tensor scale = wide(norm.weight, 1.0) * rsqrt(wide(norm.running_var, 1.0) + norm.options().eps);
  const Tensor bias = (wide(conv.bias, 0.0) - wide(norm.running_mean, 0.0)) * scale + wide(norm.bias, 0.0);

  // Groups' channels are separate: in a transposed filter (groups * in, out, ...) they are part of the first axis.
  Shape seen = filter.shape(), along = Dims::filled(filter.shape().size(), 1);
  along[channel_axis] = seen[channel_axis];
  if (channel_axis == 1) {
    seen[0] /= groups;
    seen.insert(0, groups);
    along.insert(0, groups);
  }
  const Tensor scaled = (filter.to(kFloat64).reshape(seen) * scale.reshape(along)).reshape(filter.shape());

  options.bias = true;
  const GeneratorGuard guard{
      Generator()};  // the new parameters' initial values do not use the program's random numbers
  Conv made(in, out, options);
  made.weight = scaled.to(filter.dtype());
  made.bias = bias.to(filter.dtype());
  made.eval();
  return made;
}

}  // namespace

Conv1d fold_batch_norm(const Conv1d& conv, const BatchNorm1d& norm) { return folded(conv, norm, 0); }
Conv2d fold_batch_norm(const Conv2d& conv, const BatchNorm2d& norm) { return folded(conv, norm, 0); }
Conv3d fold_batch_norm(const Conv3d& conv, const BatchNorm3d& norm) { return folded(conv, norm, 0); }
ConvTranspose1d fold_batch_norm(const ConvTranspose1d& conv, const BatchNorm1d& norm) { return folded(conv, norm, 1); }
ConvTranspose2d fold_batch_norm(const ConvTranspose2d& conv, const BatchNorm2d& norm) { return folded(conv, norm, 1); }
ConvTranspose3d fold_batch_norm(const ConvTranspose3d& conv, const BatchNorm3d& norm) { return folded(conv, norm, 1); }

}  // namespace adjoint::nn
