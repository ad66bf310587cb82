// The verb `export`, which writes a model as an ONNX file:
//
//   examples::add_export(program, [](const std::string& model, const std::string& to) {
//     examples::save_onnx(to, load_model(model), {.example = Tensor::zeros({1, 3, 32, 32}), .axes = {{0, "batch"}}});
//   });
#pragma once

#include "common/output.h"
#include "common/program.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/tensor.h>
#if EXAMPLES_WITH_ONNX
#include <adjoint/nn/onnx/onnx.h>
#endif

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace examples {

/// write(the model's file, the file to write).
void add_export(Program& program, std::function<void(const std::string& model, const std::string& to)> write);

struct Exported {
  /// An input of the network.
  adjoint::Tensor example;
  /// Names of the file's input and output.
  std::string input = "input", output = "output";
  /// Axes of the input whose extents may change, and their names.
  std::vector<std::pair<std::int64_t, std::string>> axes = {};
};

/// adjoint::nn::save_onnx of a network in eval mode. Throws its errors, and Error in a build without Adjoint::onnx.
template <class M>
void save_onnx(const std::string& to, M network, const Exported& exported) {
#if EXAMPLES_WITH_ONNX
  network.eval();
  std::vector<adjoint::nn::DynamicAxis> axes;
  for (const auto& [axis, name] : exported.axes) axes.push_back({.axis = axis, .name = name});
  adjoint::nn::save_onnx(to, network, {exported.example},
                         {.input_names = {exported.input},
                          .output_names = {exported.output},
                          .dynamic_axes = std::move(axes)});
#else
  static_cast<void>(network);
  static_cast<void>(exported);
  throw adjoint::Error("export: the program must be built with Adjoint::onnx (libonnx-dev); cannot write '" + to + "'");
#endif
}

}  // namespace examples
