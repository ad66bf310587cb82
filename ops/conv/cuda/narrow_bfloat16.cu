#include <adjoint/ops/conv/cuda/narrow_launch.cuh>

namespace adjoint::cuda {
template void run_narrow<kBFloat16>(const NarrowPlan&, const ConvProblem&);
}  // namespace adjoint::cuda
