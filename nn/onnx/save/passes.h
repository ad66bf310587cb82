// Changes to a recorded graph before it becomes a file. Each may leave constants that no node reads. Internal to this
// folder.
#pragma once

#include <adjoint/nn/onnx/save/graph.h>

namespace adjoint::nn::detail {

/// Folds each batch normalisation with constant operands into the convolution or linear layer before it, if no other
/// node reads that layer's result.
void fold_batch_norm(OnnxGraph& graph);

/// Operator set 17 has few operators of bfloat16, and ONNX Runtime has fewer. Inputs, outputs and weights stay
/// bfloat16, casts surround them, and the nodes between them compute in float32.
void compute_bfloat16_in_float32(OnnxGraph& graph);

/// Stores large float32 constants as float16, with casts behind them. A constant with a finite element that float16
/// cannot hold stays float32.
void store_weights_in_float16(OnnxGraph& graph);

}  // namespace adjoint::nn::detail
