#include <adjoint/ops/conv/cuda/channelwise_launch.cuh>

namespace adjoint::cuda {
template void run_channelwise_gather<kFloat32>(const ChannelwisePlan&, const ConvProblem&);
template void run_channelwise_weight<kFloat32>(const ChannelwiseWeightPlan&, const ConvProblem&);
}  // namespace adjoint::cuda
