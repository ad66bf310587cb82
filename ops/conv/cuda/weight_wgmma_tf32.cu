#include <adjoint/ops/conv/cuda/weight_wgmma_launch.cuh>

namespace adjoint::cuda {

template void run_wgmma_weight<Arithmetic::kTF32>(const WeightPlan&, const ConvProblem&);

}  // namespace adjoint::cuda
