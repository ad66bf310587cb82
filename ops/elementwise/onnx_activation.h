// Activations that other operators fuse, in ONNX. Internal to ops.
#pragma once

#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/elementwise/activation.h>

namespace adjoint {

/// The nodes of `activation` behind x, which has result 0's dtype; x itself for no activation.
OnnxValue activation_onnx(OnnxCall& call, OnnxValue x, const Activation& activation);

}  // namespace adjoint
