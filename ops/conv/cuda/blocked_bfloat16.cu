#include <adjoint/ops/conv/cuda/blocked_launch.cuh>

namespace adjoint::cuda {
template void run_blocked<Arithmetic::kBFloat16>(const CorrelationPlan&, const CorrelationOperands&, const void*, int);
}  // namespace adjoint::cuda
