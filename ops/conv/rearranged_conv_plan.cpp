// Whether another order of operands serves conv or conv_transpose best: models of their kernels, and of the copies.
#include <adjoint/ops/conv/correlation_clocks.h>
#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/product_plan.h>
#include <adjoint/ops/conv/rearranged_plan.h>

#include <algorithm>
#include <limits>

namespace adjoint::cuda {
namespace {

/// Of the quickest tensor-core kernel that takes conv, or conv_transpose, as it is.
double tensor_core_clocks(const ConvGeometry& geometry, bool transposed, int unit_elements, bool split) {
  double best = std::numeric_limits<double>::infinity();
  CorrelationPlan plan;
  for (const CorrelationLimits& limits : {kCorrelationLimits, kBlockedLimits}) {
    if (plan_correlation(geometry, transposed, unit_elements, split, limits, plan))
      best = std::min(best, correlation_clocks(plan, split));
  }
  return best;
}

}  // namespace

bool plan_conv_order(const ConvGeometry& g, RearrangedPlan& plan) {
  constexpr double kMargin = 1.1;  // models are off by so much
  if (!pad_image_rows(g, 2, plan)) return false;
  const double padded = tensor_core_clocks(plan.geometry, false, 2, false) + unshuffle_clocks(plan.image, 2);
  return tensor_core_clocks(g, false, 2, false) > kMargin * padded;
}

bool plan_strides_order(const ConvGeometry& g, bool image_is_result, int unit_elements, bool split,
                        RearrangedPlan& plan) {
  constexpr double kShare = .75;  // models are off by so much
  const std::int64_t size = 4 / unit_elements;
  if (!plan_strides_as_channels(g, image_is_result, size, plan)) return false;
  const ConvGeometry inner = simplified(plan.geometry, false);
  double clocks = tensor_core_clocks(inner, image_is_result, unit_elements, split);
  if (is_pointwise(inner)) {
    if (image_is_result) return false;  // no model of a product knows what its result takes to be put in order
    ProductPlan product;
    if (!split && plan_product(inner, ProductOf::kFeature, size, product))
      clocks = std::min(clocks, product_clocks(product));
  }
  clocks +=
      unshuffle_clocks(plan.image, size) + unshuffle_clocks(plan.feature, size) + unshuffle_clocks(plan.filter, size);
  return clocks < kShare * tensor_core_clocks(g, image_is_result, unit_elements, split);
}

}  // namespace adjoint::cuda
