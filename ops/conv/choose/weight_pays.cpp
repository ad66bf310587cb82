#include <adjoint/ops/conv/choose/weight_pays.h>

namespace adjoint::cuda {

bool tapwise_pays(const TapwisePlan& plan, const WeightOrderChoice& others) {
  constexpr double kLonger = 1.3;  // measured: what the others take, of what their models say (bench/lab/LOG.md)
  return tapwise_clocks(plan) < kLonger * others.clocks;
}

bool blocked_weight_pays(const BlockedWeightPlan& p, const TapwisePlan* tapwise, const WeightOrderChoice& others) {
  // What this kernel and the others take of what their models say, and the copies' rate, read and written, in bytes a
  // clock: fitted to the times of 100 layers in bfloat16 (bench/lab/LOG.md).
  constexpr double kThis = .85, kTapwise = .85, kInPlace = 1.45, kCopied = 1.05, kCopiedBytes = 2200, kLaunch = 2000;
  const double copies = 2.0 * static_cast<double>(p.image.bytes() + p.feature.bytes()) / kCopiedBytes;
  const double clocks = copies + kLaunch + kThis * blocked_weight_clocks(p);
  if (tapwise != nullptr && tapwise_pays(*tapwise, others)) return clocks < kTapwise * tapwise_clocks(*tapwise);
  return clocks < (others.copies ? kCopied : kInPlace) * others.clocks;
}

}  // namespace adjoint::cuda
