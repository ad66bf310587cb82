// Kernels for few channels a group, depthwise above all: no tensor cores, registers blocked along columns of the
// result. Every product is one that the definition has: NaN and infinity go where they go in the plain kernels.
#pragma once

#include <adjoint/ops/conv/cuda/dispatch.h>

namespace adjoint::cuda {

extern const ConvKernel channelwise_conv;
extern const ConvKernel channelwise_conv_transpose;
extern const ConvKernel channelwise_conv_weight;

}  // namespace adjoint::cuda
