#include <adjoint/ops/conv/cuda/weight_launch.cuh>

namespace adjoint::cuda {
template void run_weight<Arithmetic::kBFloat16>(const WeightPlan&, const ConvProblem&);
}  // namespace adjoint::cuda
