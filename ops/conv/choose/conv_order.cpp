// Whether another order of operands serves conv or conv_transpose best: models of their kernels, and of the copies.
#include <adjoint/ops/conv/choose/orders.h>
#include <adjoint/ops/conv/correlation/clocks.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/ops/conv/product/plan.h>

#include <algorithm>
#include <limits>

namespace adjoint::cuda {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Of the quickest tensor-core kernel that takes conv, or conv_transpose, as it is.
double tensor_core_clocks(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic,
                          const Machine& machine) {
  double best = kNever;
  CorrelationPlan plan;
  for (const CorrelationLimits& limits : {kCorrelationLimits, kBlockedLimits}) {
    if (plan_correlation(geometry, transposed, arithmetic, limits, machine, plan))
      best = std::min(best, correlation_clocks(plan, is_split(arithmetic), machine));
  }
  return best;
}

/// Of the same with strides as channels, copies included, in `plan`; infinity where there is no such order.
double strides_clocks(const ConvGeometry& g, bool transposed, Arithmetic arithmetic, const Machine& machine,
                      RearrangedPlan& plan) {
  const std::int64_t size = element_bytes(arithmetic);
  if (!plan_strides_as_channels(g, transposed, size, plan)) return kNever;
  const ConvGeometry inner = simplified(plan.geometry, false);
  double clocks = tensor_core_clocks(inner, transposed, arithmetic, machine);
  if (is_pointwise(inner)) {
    if (transposed) return kNever;  // no model of a product knows what its result takes to be put in order
    ProductPlan product;
    if (!is_split(arithmetic) && plan_product(inner, ProductOf::kFeature, arithmetic, machine, product))
      clocks = std::min(clocks, product_clocks(product, machine));
  }
  return clocks + unshuffle_clocks(plan.image, size) + unshuffle_clocks(plan.feature, size) +
         unshuffle_clocks(plan.filter, size);
}

}  // namespace

bool plan_conv_order(const ConvGeometry& g, bool transposed, Arithmetic arithmetic, const Machine& machine,
                     RearrangedPlan& plan) {
  constexpr double kMarginOfPadding = 1.1, kShareOfStrides = .75;  // models are off by so much
  const std::int64_t size = element_bytes(arithmetic);
  const double as_it_is = tensor_core_clocks(g, transposed, arithmetic, machine);
  // Padded rows first: where both orders pay, theirs is the time that was measured.
  if (!transposed && size == 2 && pad_image_rows(g, size, plan)) {
    const double padded =
        tensor_core_clocks(plan.geometry, false, arithmetic, machine) + unshuffle_clocks(plan.image, size);
    if (as_it_is > kMarginOfPadding * padded) return true;
  }
  return strides_clocks(g, transposed, arithmetic, machine, plan) < kShareOfStrides * as_it_is;
}

}  // namespace adjoint::cuda
