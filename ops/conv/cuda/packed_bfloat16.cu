#include <adjoint/ops/conv/cuda/packed_launch.cuh>

namespace adjoint::cuda {
template void run_packed<Arithmetic::kBFloat16>(const PackedPlan&, const ConvProblem&);
}  // namespace adjoint::cuda
