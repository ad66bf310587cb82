// The graph of a function, recorded from its calls of operators. Internal to this folder.
#pragma once

#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/nn/onnx/onnx.h>
#include <adjoint/nn/onnx/save/graph.h>

#include <functional>
#include <vector>

namespace adjoint::nn::detail {

/// Runs f on `inputs` and records it. Calls that do not depend on the inputs are not recorded: their results are
/// constants, named as in `weights` if listed there. Throws Error, naming the operator and the module, for an operator
/// without a rule, for elements that the program reads or writes itself, and for random numbers.
OnnxGraph trace_onnx(const TensorFunction& f, const std::vector<Tensor>& inputs, const NamedTensors& weights);

}  // namespace adjoint::nn::detail
