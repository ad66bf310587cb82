// Extents that may change from call to call. Internal to this folder.
#pragma once

#include <adjoint/nn/onnx/save/graph.h>

namespace adjoint::nn::detail {

/// Frees `graph` of the extents in which it differs from `other`, a record of the same function on inputs with other
/// extents: numbers that differ are computed from the extents of values that are there before. Inputs have the names of
/// their axes; outputs get theirs. Throws Error, naming the operator, if a size is fixed.
void make_dynamic(OnnxGraph& graph, const OnnxGraph& other);

}  // namespace adjoint::nn::detail
