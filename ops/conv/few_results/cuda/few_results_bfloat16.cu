#include <adjoint/ops/conv/few_results/cuda/few_results_launch.cuh>

namespace adjoint::cuda {
template void run_few_results<kBFloat16>(const FewResultsPlan&, const ConvProblem&, float*);
template void run_few_weight<kBFloat16>(const FewWeightPlan&, const ConvProblem&, float*);
}  // namespace adjoint::cuda
