#include <adjoint/ops/conv/choose/weight_pays.h>

#include <adjoint/ops/conv/choose/orders.h>

namespace adjoint::cuda {

bool tapwise_pays(const ConvGeometry& g, const TapwisePlan& plan) {
  constexpr double kLonger = 1.3;  // measured: what the others take, of what their models say (bench/lab/LOG.md)
  const Arithmetic arithmetic = plan.product.element_bytes == 2 ? Arithmetic::kBFloat16 : Arithmetic::kTF32;
  return tapwise_clocks(plan) < kLonger * conv_weight_clocks(g, arithmetic).clocks;
}

bool blocked_weight_pays(const ConvGeometry& g, const BlockedWeightPlan& p) {
  // What this kernel and the others take of what their models say, and the copies' rate, read and written, in bytes a
  // clock: fitted to the times of 100 layers in bfloat16 (bench/lab/LOG.md).
  constexpr double kThis = .85, kTapwise = .85, kInPlace = 1.45, kCopied = 1.05, kCopiedBytes = 2200, kLaunch = 2000;
  const double copies = 2.0 * static_cast<double>(p.image.bytes() + p.feature.bytes()) / kCopiedBytes;
  const double clocks = copies + kLaunch + kThis * blocked_weight_clocks(p);
  TapwisePlan tapwise;
  if (plan_tapwise(g, 2, tapwise) && tapwise_pays(g, tapwise)) return clocks < kTapwise * tapwise_clocks(tapwise);
  const WeightOrderClocks others = conv_weight_clocks(g, Arithmetic::kBFloat16);
  return clocks < (others.copies ? kCopied : kInPlace) * others.clocks;
}

}  // namespace adjoint::cuda
