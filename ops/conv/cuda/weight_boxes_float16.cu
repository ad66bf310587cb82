#include <adjoint/ops/conv/cuda/weight_boxes_launch.cuh>

namespace adjoint::cuda {
template void run_boxes_weight<Arithmetic::kFloat16>(const WeightPlan&, const ConvProblem&, const WeightOrder&);
}  // namespace adjoint::cuda
