#include <adjoint/ops/conv/cuda/correlation_mma_launch.cuh>

namespace adjoint::cuda {
template void run_correlation_mma<Arithmetic::kFloat32>(const CorrelationPlan&, const ConvProblem&);
}  // namespace adjoint::cuda
