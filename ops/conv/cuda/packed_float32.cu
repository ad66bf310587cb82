#include <adjoint/ops/conv/cuda/packed_launch.cuh>

namespace adjoint::cuda {
template void run_packed<Arithmetic::kFloat32>(const PackedPlan&, const ConvProblem&);
}  // namespace adjoint::cuda
