#include <adjoint/ops/conv/cuda/narrow_launch.cuh>

namespace adjoint::cuda {
template void run_narrow<kFloat32>(const NarrowPlan&, const ConvProblem&);
}  // namespace adjoint::cuda
