// Where the kernels for few channels a group are worth estimating beside those of tensor cores.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/channelwise/plan.h>

namespace adjoint::cuda {

/// Whether they may be faster than tensor-core kernels: than those whose steps do not gather.
ADJOINT_API bool channelwise_pays(const ChannelwisePlan& plan, Arithmetic arithmetic);

}  // namespace adjoint::cuda
