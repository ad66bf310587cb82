#include <adjoint/ops/conv/cuda/channelwise_launch.cuh>

namespace adjoint::cuda {
template void run_channelwise_gather<kBFloat16>(const ChannelwisePlan&, const ConvProblem&);
template void run_channelwise_weight<kBFloat16>(const ChannelwiseWeightPlan&, const ConvProblem&);
}  // namespace adjoint::cuda
