// Models run by ONNX Runtime's package for Node (run_models), which checks files that this library did not read back
// itself.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <filesystem>
#include <string>
#include <vector>

namespace adjoint::testing {

/// A model to run, and its expected outputs.
struct OnnxRun {
  std::filesystem::path model;
  std::vector<Tensor> inputs;    // contiguous, on the CPU
  std::vector<Tensor> expected;  // by ONNX's names "output" or "output_0", ...
  std::string name;              // for messages
};
struct OnnxResult {
  std::vector<Tensor> outputs;
  std::string error;  // ONNX Runtime's; empty if the model ran
};

/// Returns a message if the package, or node, is not installed; otherwise an empty string.
std::string no_onnx_runtime();

/// Runs all models in one process, which keeps its files in `folder`.
std::vector<OnnxResult> run_onnx(const std::vector<OnnxRun>& runs, const std::filesystem::path& folder);

}  // namespace adjoint::testing
