// Whether a copy of the image with longer rows serves conv best: models of its kernels, and of the copy.
#include <adjoint/ops/conv/correlation_clocks.h>
#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/rearranged_plan.h>

#include <algorithm>
#include <limits>

namespace adjoint::cuda {
namespace {

/// Of the quickest tensor-core kernel that takes conv of half precision.
double conv_clocks(const ConvGeometry& geometry) {
  double best = std::numeric_limits<double>::infinity();
  CorrelationPlan plan;
  for (const CorrelationLimits& limits : {kCorrelationLimits, kBlockedLimits}) {
    if (plan_correlation(geometry, false, 2, false, limits, plan))
      best = std::min(best, correlation_clocks(plan, false));
  }
  return best;
}

}  // namespace

bool plan_conv_order(const ConvGeometry& g, RearrangedPlan& plan) {
  constexpr double kMargin = 1.1;  // models are off by so much
  if (!pad_image_rows(g, 2, plan)) return false;
  return conv_clocks(g) > kMargin * (conv_clocks(plan.geometry) + unshuffle_clocks(plan.image, 2));
}

}  // namespace adjoint::cuda
