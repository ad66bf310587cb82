#include <adjoint/ops/conv/choose/cuda/rearranged.h>

#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/channelwise/cuda/channelwise.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/choose/cuda/terms.h>
#include <adjoint/ops/conv/choose/orders.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/cuda/sliced.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/ops/conv/rearranged/cuda/rearranged.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {
namespace {

struct Order {
  Rearrangement how;
  bool for_boxes = false;  // whether it is for conv_weight by the copy engine
  bool is_sure = false;    // whether it pays on every GPU
};

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

/// Rows are of several columns in each such order, so that simplified() leaves taps as weight_order() has them.
bool boxes_take(const ConvProblem& problem, Order& order) {
  order.for_boxes = boxes_conv_weight.takes(inner_problem(order.how.plan, problem));
  order.how.filter_is_put_in_order = !order.for_boxes;
  return order.for_boxes;
}

/// Whether conv_weight is large enough for copies of its operands, and not one for ordinary cores.
bool weight_copies_may_pay(const ConvProblem& problem) {
  constexpr std::int64_t kFewestProducts = std::int64_t{1} << 27;  // fewer take no longer than copies
  constexpr std::int64_t kFewSums = 128;                           // channels times channels of a group, times taps
  const ConvGeometry& g = problem.geometry;
  if (g.batch * g.feature_plane() * g.filter_numel() < kFewestProducts) return false;
  if (!channelwise_conv_weight.takes(problem)) return true;
  // Of as many sums as fill a tile, tensor cores that the copy engine feeds take half of the time in half precision.
  const bool fills = g.image_channels_per_group() * g.feature_channels_per_group() * g.taps() > kFewSums &&
                     arithmetic_of(problem) != Arithmetic::kFloat32;
  return fills && boxes_conv_weight.takes(problem);
}

/// The order of conv_weight's operands that models call quicker than any kernel's for the problem as it is.
bool plan_quicker_order(const ConvProblem& problem, Order& order) {
  constexpr std::int64_t kFewestChannels = 8;  // of a group: for fewer no model of tiles holds
  const ConvGeometry& g = problem.geometry;
  if (!weight_copies_may_pay(problem)) return false;
  if (g.groups > 1 && std::min(g.image_channels_per_group(), g.feature_channels_per_group()) < kFewestChannels)
    return false;
  return plan_weight_order(g, arithmetic_of(problem), problem.machine, order.how.plan) && boxes_take(problem, order);
}

/// Whether a tensor-core kernel would compute conv or conv_transpose as it is, and sooner in another order.
bool plan_quicker_conv(const ConvProblem& problem, RearrangedPlan& plan) {
  if (problem.role == ConvRole::kFilter || problem.dtype == kFloat64 || !runs_wgmma(problem.device)) return false;
  const bool transposed = problem.role == ConvRole::kImage;
  const ConvKernel* otherwise = &best_conv_kernel_in_place(problem);
  const auto multiplies = {&sliced_conv,           &blocked_conv,           &correlation_conv,
                           &sliced_conv_transpose, &blocked_conv_transpose, &correlation_conv_transpose};
  if (std::find(multiplies.begin(), multiplies.end(), otherwise) == multiplies.end()) return false;
  return plan_conv_order(problem.geometry, transposed, arithmetic_of(problem), problem.machine, plan);
}

/// Null where the problem has no other order.
const Order* find_order(const ConvProblem& problem) {
  return keep_plan<Order>(problem, [&](Order& order) {
    RearrangedPlan& plan = order.how.plan;
    const ConvGeometry& g = problem.geometry;
    const std::int64_t size = element_size(problem.dtype);
    const bool strides = strides_pay(problem), rows = g.feature_plane() == 1 && rows_pay(problem);
    const bool may_have_boxes = problem.role == ConvRole::kFilter && !strides && runs_wgmma(problem.device);
    const bool has_order =
        (may_have_boxes && plan_quicker_order(problem, order)) ||
        (may_have_boxes && !rows && plan_batch_as_columns(g, size, plan) && boxes_take(problem, order)) ||
        (!strides && !rows && plan_quicker_conv(problem, plan)) ||
        plan_strides_as_channels(g, problem.role == ConvRole::kImage, size, plan) || plan_batch_as_rows(g, size, plan);
    if (!has_order) return false;
    order.is_sure = strides || rows;
    for (const std::int64_t copied : {plan.image.numel(), plan.feature.numel(), plan.filter.numel(),
                                      plan.image_samples.numel(), plan.feature_samples.numel()}) {
      if (copied * size > kMostCopyBytes) return false;
    }
    return true;
  });
}

/// Asked before most kernels, in every call: what has no other order is not looked up.
bool takes(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  if (problem.dtype == kFloat64) return false;
  if (g.stride == Extent2{1, 1} && g.feature_plane() != 1 && problem.role != ConvRole::kFilter) return false;
  return find_order(problem) != nullptr;
}

void run_best(const ConvProblem& inner, const RearrangedPlan&) {
  best_conv_kernel(inner).run(inner);  // all of conv and conv_transpose activate
}
void run_boxes(const ConvProblem& inner, const RearrangedPlan& plan) {
  run_boxes_conv_weight(inner, weight_order(plan.filter));
}

void run(const ConvProblem& problem) {
  const Order& order = *find_order(problem);
  run_rearranged(order.how, problem, order.for_boxes ? run_boxes : run_best);
}

std::size_t workspace_bytes(const ConvProblem& problem) {
  const Order& order = *find_order(problem);
  const ConvProblem inner = inner_problem(order.how.plan, problem);
  const ConvKernel& kernel = order.for_boxes ? boxes_conv_weight : best_conv_kernel(inner);
  return rearranged_bytes(order.how, problem) + (kernel.workspace_bytes == nullptr ? 0 : kernel.workspace_bytes(inner));
}

}  // namespace

namespace {

double copies_microseconds(const Order& order, const ConvProblem& problem) {
  const RearrangedPlan& plan = order.how.plan;
  const std::int64_t size = element_size(problem.dtype);
  return clocks_as_microseconds(unshuffle_clocks(plan.image, size) + unshuffle_clocks(plan.feature, size) +
                                (order.how.filter_is_put_in_order ? unshuffle_clocks(plan.filter, size) : 0) +
                                samples_last_clocks(plan.image_samples, size) +
                                samples_last_clocks(plan.feature_samples, size));
}

}  // namespace

/// Its copies, and what computes what is left.
Terms rearranged_terms(const ConvProblem& problem) {
  const Order& order = *find_order(problem);
  // What is left was measured where wgmma's kernels compute it.
  if (!order.is_sure && !runs_wgmma(problem.device)) return {};
  const ConvProblem inner = inner_problem(order.how.plan, problem);
  return {problem,
          {copies_microseconds(order, problem),
           order.for_boxes ? conv_kernel_microseconds(boxes_conv_weight, inner) : best_conv_microseconds(inner)}};
}

Terms rearranged_least_terms(const ConvProblem& problem) {
  constexpr double kLeast = 5;  // microseconds, of any kernel
  return {problem, {copies_microseconds(*find_order(problem), problem), kLeast}};
}

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
