#include <adjoint/ops/conv/cuda/packed_launch.cuh>

namespace adjoint::cuda {
template void run_packed<Arithmetic::kTF32>(const PackedPlan&, const ConvProblem&);
}  // namespace adjoint::cuda
