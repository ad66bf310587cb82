// What the trio's operators accept and give. Internal to ops/conv.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/conv/geometry.h>

#include <span>

namespace adjoint {

// in: as in kernels.h. Throw Error, naming the operator, for operands that do not have the geometry's shapes.

TensorSpec infer_conv(std::span<const Tensor> in, const ConvGeometry& geometry);
TensorSpec infer_conv_transpose(std::span<const Tensor> in, const ConvGeometry& geometry);

}  // namespace adjoint
