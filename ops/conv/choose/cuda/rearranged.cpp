#include <adjoint/ops/conv/choose/cuda/rearranged.h>

#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/rearranged/cuda/rearranged.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr bool is_for_boxes(Order order) { return order >= Order::kPaddedBoxes; }

/// Returns true if the problem has such an order, with copies within the size limit.
bool plan_order(Order order, const ConvProblem& problem, RearrangedPlan& plan) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t size = element_size(problem.dtype);
  const bool has_order = [&] {
    switch (order) {
      case Order::kPadded: return pad_image_rows(g, size, plan);
      case Order::kPaddedBoxes: plan.geometry = g; return pad_rows(g, size, plan);
      case Order::kBatchColumnsBoxes: return plan_batch_as_columns(g, size, plan);
      case Order::kUnshuffled:
      case Order::kUnshuffledBoxes: break;
    }
    if (!plan_strides_as_channels(g, problem.role == ConvRole::kImage, size, plan)) return false;
    if (order == Order::kUnshuffledBoxes) pad_rows(g, size, plan);
    return true;
  }();
  return has_order && std::max({plan.image.numel(), plan.feature.numel(), plan.filter.numel(),
                                plan.image_samples.numel(), plan.feature_samples.numel()}) *
                              size <=
                          kMostCopyBytes;
}

/// A type per order, because plans are kept by type.
template <Order kOrder>
struct OrderPlan {
  Rearrangement how;
};

/// Null if the problem has no such order.
template <Order kOrder>
const Rearrangement* find_order(const ConvProblem& problem) {
  const auto* const found = keep_plan<OrderPlan<kOrder>>(problem, [&](OrderPlan<kOrder>& order) {
    order.how.filter_is_put_in_order = !is_for_boxes(kOrder);
    return plan_order(kOrder, problem, order.how.plan) &&
           (!is_for_boxes(kOrder) || boxes_conv_weight.takes(inner_problem(order.how.plan, problem)));
  });
  return found == nullptr ? nullptr : &found->how;
}

template <Order kOrder>
bool takes(const ConvProblem& problem) {
  return problem.dtype != kFloat64 && find_order<kOrder>(problem) != nullptr;
}

/// Orders are not nested: a kernel that supports the inner problem directly computes it.
template <Order kOrder>
const ConvKernel& inner_kernel(const ConvProblem& inner) {
  return is_for_boxes(kOrder) ? boxes_conv_weight : best_conv_kernel_in_place(inner);
}

template <Order kOrder>
void run(const ConvProblem& problem) {
  run_rearranged(*find_order<kOrder>(problem), problem, [](const ConvProblem& inner, const RearrangedPlan& plan) {
    if (is_for_boxes(kOrder)) return run_boxes_conv_weight(inner, weight_order(plan.filter));
    inner_kernel<kOrder>(inner).run(inner);
  });
}

template <Order kOrder>
std::size_t workspace_bytes(const ConvProblem& problem) {
  const Rearrangement& how = *find_order<kOrder>(problem);
  const ConvProblem inner = inner_problem(how.plan, problem);
  const ConvKernel& kernel = inner_kernel<kOrder>(inner);
  return rearranged_bytes(how, problem) + (kernel.workspace_bytes == nullptr ? 0 : kernel.workspace_bytes(inner));
}

double copies_microseconds(const Rearrangement& how, const ConvProblem& problem) {
  const RearrangedPlan& plan = how.plan;
  const std::int64_t size = element_size(problem.dtype);
  return clocks_as_microseconds(unshuffle_clocks(plan.image, size) + unshuffle_clocks(plan.feature, size) +
                                (how.filter_is_put_in_order ? unshuffle_clocks(plan.filter, size) : 0) +
                                samples_last_clocks(plan.image_samples, size) +
                                samples_last_clocks(plan.feature_samples, size));
}

template <Order kOrder>
constexpr ConvKernel kernel_of(const char* name) {
  return {.name = name, .supports = takes<kOrder>, .run = run<kOrder>, .workspace_bytes = workspace_bytes<kOrder>};
}

}  // namespace

template <Order kOrder>
Terms rearranged_terms(const ConvProblem& problem) {
  const Rearrangement& how = *find_order<kOrder>(problem);
  const ConvProblem inner = inner_problem(how.plan, problem);
  return {problem,
          {copies_microseconds(how, problem), is_for_boxes(kOrder) ? conv_kernel_microseconds(boxes_conv_weight, inner)
                                                                   : best_conv_microseconds_in_place(inner)}};
}

template <Order kOrder>
Terms rearranged_least_terms(const ConvProblem& problem) {
  constexpr double kLeast = 5;  // microseconds, for any kernel
  return {problem, {copies_microseconds(*find_order<kOrder>(problem), problem), kLeast}};
}

const ConvKernel unshuffled_conv = kernel_of<Order::kUnshuffled>("unshuffled_conv");
const ConvKernel padded_conv = kernel_of<Order::kPadded>("padded_conv");
const ConvKernel unshuffled_conv_transpose = kernel_of<Order::kUnshuffled>("unshuffled_conv_transpose");
const ConvKernel unshuffled_conv_weight = kernel_of<Order::kUnshuffled>("unshuffled_conv_weight");
const ConvKernel padded_boxes_conv_weight = kernel_of<Order::kPaddedBoxes>("padded_boxes_conv_weight");
const ConvKernel unshuffled_boxes_conv_weight = kernel_of<Order::kUnshuffledBoxes>("unshuffled_boxes_conv_weight");
const ConvKernel batch_columns_boxes_conv_weight =
    kernel_of<Order::kBatchColumnsBoxes>("batch_columns_boxes_conv_weight");

#define ADJOINT_ORDER_TERMS(order)                                   \
  template Terms rearranged_terms<Order::order>(const ConvProblem&); \
  template Terms rearranged_least_terms<Order::order>(const ConvProblem&);
ADJOINT_ORDER_TERMS(kUnshuffled)
ADJOINT_ORDER_TERMS(kPadded)
ADJOINT_ORDER_TERMS(kPaddedBoxes)
ADJOINT_ORDER_TERMS(kUnshuffledBoxes)
ADJOINT_ORDER_TERMS(kBatchColumnsBoxes)
#undef ADJOINT_ORDER_TERMS

}  // namespace adjoint::cuda
