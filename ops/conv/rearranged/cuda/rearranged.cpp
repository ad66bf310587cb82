#include <adjoint/ops/conv/rearranged/cuda/rearranged.h>

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/filter_space.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/choose/cuda/pays.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/cuda/sliced.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/ops/conv/layouts/cuda/rearrange.h>
#include <adjoint/ops/conv/rearranged/plan.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {
namespace {

/// Whether channels before samples are worth the copies: in large products.
bool rows_pay(const ConvProblem& problem) {
  const bool wide =
      problem.role == ConvRole::kFeature || (problem.role == ConvRole::kFilter && element_size(problem.dtype) == 2);
  return problem.geometry.batch * problem.geometry.filter_numel() >= std::int64_t{1} << (wide ? 27 : 28);
}

/// Measured (bench/lab/LOG.md): two more passes over the image pay where no tensor-core kernel takes so many taps or
/// rows of phases, and where it has few channels, whose units of sums a stride fills.
bool strides_pay(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t phases = g.stride[0] * g.stride[1], channels = g.image_channels_per_group();
  if (phases < 16) return false;
  // Of few channels a group, which other cores do at once, large ones alone are worth the launches.
  if (g.groups > 1 && g.image_numel() < std::int64_t{1} << 22) return false;
  if (g.taps() > kMaxSteps || g.stride[0] > kMaxClasses) return true;
  if (channels >= 32) return false;
  const bool planes = g.stride[0] > 1, half = element_size(problem.dtype) == 2;
  switch (problem.role) {
    case ConvRole::kFeature: return phases >= 64 || g.taps() >= 100 || (planes && half && channels <= 16);
    case ConvRole::kImage: return planes && phases >= 128;
    case ConvRole::kFilter: break;
  }
  if (g.taps() < 256 || channels % 16 == 0) return false;
  // What the copy engine brings as it is takes TF32 half of the time.
  return arithmetic_of(problem) != Arithmetic::kTF32 || !boxes_conv_weight.takes(problem);
}

/// The problem that is left. Its operands are still the caller's.
ConvProblem inner_problem(const RearrangedPlan& plan, const ConvProblem& problem) {
  ConvProblem inner = problem;
  inner.geometry = simplified(plan.geometry, problem.role == ConvRole::kImage && problem.bias != nullptr);
  return inner;
}

/// Rows are of several columns in each such order, so that simplified() leaves taps as weight_order() has them.
bool boxes_take(const ConvProblem& problem, RearrangedPlan& plan) {
  plan.for_boxes = boxes_conv_weight.takes(inner_problem(plan, problem));
  return plan.for_boxes;
}

/// The order of conv_weight's operands that models call quicker than any kernel's for the problem as it is.
bool plan_quicker_order(const ConvProblem& problem, RearrangedPlan& plan) {
  constexpr std::int64_t kFewestChannels = 8;  // of a group: for fewer no model of tiles holds
  const ConvGeometry& g = problem.geometry;
  if (!weight_copies_may_pay(problem)) return false;
  if (g.groups > 1 && std::min(g.image_channels_per_group(), g.feature_channels_per_group()) < kFewestChannels)
    return false;
  const Arithmetic arithmetic = arithmetic_of(problem);
  return plan_conv_weight_order(g, unit_elements(arithmetic), arithmetic == Arithmetic::kFloat32, plan) &&
         boxes_take(problem, plan);
}

/// Whether a tensor-core kernel would compute conv or conv_transpose as it is, and sooner in another order.
bool plan_quicker_conv(const ConvProblem& problem, RearrangedPlan& plan) {
  if (problem.role == ConvRole::kFilter || problem.dtype == kFloat64 || !runs_wgmma(problem.device)) return false;
  const bool transposed = problem.role == ConvRole::kImage;
  const ConvKernel* otherwise = &best_conv_kernel(problem, transposed ? &rearranged_conv_transpose : &rearranged_conv);
  const auto multiplies = {&sliced_conv,           &blocked_conv,           &correlation_conv,
                           &sliced_conv_transpose, &blocked_conv_transpose, &correlation_conv_transpose};
  if (std::find(multiplies.begin(), multiplies.end(), otherwise) == multiplies.end()) return false;
  return plan_conv_order(problem.geometry, transposed, unit_elements(arithmetic_of(problem)), is_split(problem), plan);
}

}  // namespace

const RearrangedPlan* find_rearranged_plan(const ConvProblem& problem) {
  return keep_plan<RearrangedPlan>(problem, [&](RearrangedPlan& plan) {
    const ConvGeometry& g = problem.geometry;
    const std::int64_t size = element_size(problem.dtype);
    const bool strides = strides_pay(problem), rows = g.feature_plane() == 1 && rows_pay(problem);
    const bool may_have_boxes = problem.role == ConvRole::kFilter && !strides && runs_wgmma(problem.device);
    if (may_have_boxes && plan_quicker_order(problem, plan)) {
      plan.pays = true;
    } else if (may_have_boxes && !rows && plan_batch_as_columns(g, size, plan) && boxes_take(problem, plan)) {
      plan.pays = false;
    } else if (!strides && !rows && plan_quicker_conv(problem, plan)) {
      plan.pays = true;
    } else if (plan_strides_as_channels(g, problem.role == ConvRole::kImage, size, plan)) {
      plan.pays = strides;
    } else if (plan_batch_as_rows(g, size, plan)) {
      plan.pays = rows;
    } else {
      return false;
    }
    for (const std::int64_t copied : {plan.image.numel(), plan.feature.numel(), plan.filter.numel(),
                                      plan.image_samples.numel(), plan.feature_samples.numel()}) {
      if (copied * size > kMostCopyBytes) return false;
    }
    return true;
  });
}

namespace {

/// How each of a role's tensors is moved.
struct Moves {
  const Unshuffle &first, &second, &out;
};

Moves moves_of(const RearrangedPlan& plan, ConvRole role) {
  static const Unshuffle none;
  switch (role) {
    case ConvRole::kFeature: return {plan.image, plan.filter, plan.feature};
    case ConvRole::kImage: return {plan.feature, plan.filter, plan.image};
    case ConvRole::kFilter: break;
  }
  return {plan.image, plan.feature, plan.for_boxes ? none : plan.filter};
}

/// Bytes of copies. 0 for those that are not made.
struct CopyBytes {
  std::size_t first, second, out, linear, bias;
  std::size_t sum() const { return first + second + out + linear + bias; }
};

CopyBytes copy_bytes(const RearrangedPlan& plan, const ConvProblem& problem) {
  const std::int64_t size = element_size(problem.dtype);
  const auto bytes = [size](std::int64_t elements) { return static_cast<std::size_t>(elements * size); };
  const Moves moves = moves_of(plan, problem.role);
  const bool repeats = problem.role == ConvRole::kImage && problem.bias != nullptr && plan.bias_repetitions > 1;
  const std::size_t out = bytes(moves.out.numel());
  CopyBytes sizes{bytes(moves.first.numel()), bytes(moves.second.numel()), out, problem.linear == nullptr ? 0 : out,
                  repeats ? bytes(plan.geometry.image_channels) : 0};
  if (plan.image_samples.samples != 0) {
    sizes.first = bytes(plan.image_samples.numel());
    sizes.second = bytes(plan.feature_samples.numel());
  }
  return sizes;
}

/// Asked before most kernels, in every call: what has no other order is not looked up.
bool takes(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  if (problem.dtype == kFloat64) return false;
  if (g.stride == Extent2{1, 1} && g.feature_plane() != 1 && problem.role != ConvRole::kFilter) return false;
  return find_rearranged_plan(problem) != nullptr;
}

/// `from` moved into `to`, which it then is.
void bring(const Unshuffle& how, std::int64_t element_size, void* to, int device, const void*& from) {
  if (how.planes == 0) return;
  unshuffle(how, element_size, from, to, device);
  from = to;
}
void bring(const SamplesLast& how, std::int64_t element_size, void* to, int device, const void*& from) {
  if (how.samples == 0) return;
  put_samples_last(how, element_size, from, to, device);
  from = to;
}

void run(const ConvProblem& problem) {
  const RearrangedPlan& plan = *find_rearranged_plan(problem);
  const Moves moves = moves_of(plan, problem.role);
  const CopyBytes bytes = copy_bytes(plan, problem);
  const std::int64_t size = element_size(problem.dtype);
  const int device = problem.device;
  const Workspace first(bytes.first, device), out(bytes.out, device), linear(bytes.linear, device),
      bias(bytes.bias, device);
  FilterSpace second(problem, "rearranged", 0, bytes.second);
  ConvProblem inner = inner_problem(plan, problem);
  bring(moves.first, size, first.data(), device, inner.first);
  if (bytes.second != 0) {
    if (!second.is_filled()) {
      bring(moves.second, size, second.data(), device, inner.second);
      bring(plan.feature_samples, size, second.data(), device, inner.second);
      second.fill();
    }
    inner.second = second.data();
    if (!second.is_kept()) inner.forms = nullptr;  // at this address there is another filter soon
  }
  if (plan.for_boxes) {
    bring(plan.image_samples, size, first.data(), device, inner.first);
    return run_boxes_conv_weight(inner, weight_order(plan.filter));
  }
  if (bytes.bias != 0) {
    repeat(problem.geometry.image_channels, plan.bias_repetitions, size, problem.bias, bias.data(), device);
    inner.bias = bias.data();
  }
  if (bytes.out != 0) {
    inner.out = out.data();
    inner.read_again = true;
  }
  if (bytes.linear != 0) inner.linear = linear.data();
  best_conv_kernel(inner).run(inner);  // all of conv and conv_transpose activate
  if (bytes.out != 0) shuffle(moves.out, size, out.data(), problem.out, device);
  if (bytes.linear != 0) shuffle(moves.out, size, linear.data(), problem.linear, device);
}

std::size_t workspace_bytes(const ConvProblem& problem) {
  const RearrangedPlan& plan = *find_rearranged_plan(problem);
  const CopyBytes bytes = copy_bytes(plan, problem);
  const ConvProblem inner = inner_problem(plan, problem);
  const ConvKernel& kernel = plan.for_boxes ? boxes_conv_weight : best_conv_kernel(inner);
  return bytes.sum() + (kernel.workspace_bytes == nullptr ? 0 : kernel.workspace_bytes(inner));
}

}  // namespace

const ConvKernel rearranged_conv{
    .name = "rearranged_conv", .takes = takes, .run = run, .activates = true, .workspace_bytes = workspace_bytes};
const ConvKernel rearranged_conv_transpose{.name = "rearranged_conv_transpose",
                                           .takes = takes,
                                           .run = run,
                                           .activates = true,
                                           .workspace_bytes = workspace_bytes};
const ConvKernel rearranged_conv_weight{.name = "rearranged_conv_weight",
                                        .takes = takes,
                                        .run = run,
                                        .workspace_bytes = workspace_bytes};

}  // namespace adjoint::cuda
