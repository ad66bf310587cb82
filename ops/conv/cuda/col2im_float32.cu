#include <adjoint/ops/conv/cuda/col2im_launch.cuh>

namespace adjoint::cuda {
template void run_col2im<Arithmetic::kFloat32>(const Col2imPlan&, const ConvProblem&);
}  // namespace adjoint::cuda
