#include <adjoint/ops/conv/cuda/correlation_launch.cuh>

namespace adjoint::cuda {

template void pack_correlation_filter<Arithmetic::kTF32>(const CorrelationPlan&, const void*, void*, int);
template void run_correlation<Arithmetic::kTF32>(const CorrelationPlan&, const CorrelationOperands&, const void*, int);

}  // namespace adjoint::cuda
