// A recorded graph as a model of ONNX's protocol. Internal to this folder.
#pragma once

#include <adjoint/nn/onnx/save/graph.h>

#include <filesystem>

namespace adjoint::nn::detail {

/// Writes the graph, whose values all have names. Throws Error if ONNX's checker or its inference of shapes refuses it,
/// and if writing fails.
void write_onnx(const std::filesystem::path& path, const OnnxGraph& graph, bool external_data);

}  // namespace adjoint::nn::detail
