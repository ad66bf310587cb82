#include <adjoint/ops/conv/cuda/blocked_weight_launch.cuh>

namespace adjoint::cuda {
template void run_blocked_weight<Arithmetic::kBFloat16>(const BlockedWeightPlan&, const ConvProblem&,
                                                        const BlockedWeightSpaces&);
}  // namespace adjoint::cuda
