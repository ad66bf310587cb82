// Networks as ONNX files, which ONNX Runtime and other engines run (component Adjoint::onnx; operator set 17).
//
//   net.eval();
//   nn::save_onnx("net.onnx", net, {Tensor::zeros({1, 3, 64, 64})},
//                 {.dynamic_axes = {{.axis = 0, .name = "batch"}, {.axis = 2, .name = "height"},
//                                   {.axis = 3, .name = "width"}}});
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/tensor_function.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace adjoint::nn {

/// An axis of an input whose extent may change from call to call.
struct DynamicAxis {
  std::size_t input = 0;
  std::int64_t axis = 0;
  /// Axes of one name have the same extent.
  std::string name = "batch";
};

struct SaveOnnxOptions {
  /// Defaults: "input", or "input_0", "input_1", ...
  std::vector<std::string> input_names = {};
  /// Defaults: "output", or "output_0", "output_1", ...
  std::vector<std::string> output_names = {};
  /// A second run with twice these extents finds out how the network depends on them.
  std::vector<DynamicAxis> dynamic_axes = {};
  /// Writes constants of 1 KiB and more to a second file, <name>.data beside the first. A model of 2 GB and more needs
  /// it, because protobuf holds no more.
  bool external_data = false;
  /// Multiplies the weights of convolutions and linear layers by the factors of batch normalisations directly behind
  /// them, which then need no node. Results change by rounding.
  bool fold_batch_norm = false;
  /// Stores float32 constants of 1 KiB and more as float16, which halves the file. Engines cast them to float32 and
  /// compute in float32. Each element is rounded once: its error is at most 2^-11 of its magnitude, or 2^-25 for
  /// magnitudes below 2^-14. A constant with a finite element of 65520 or more in magnitude stays float32.
  bool float16_weights = false;
};

namespace detail {

ADJOINT_API void save_onnx(const std::filesystem::path& path, const TensorFunction& f,
                           const std::vector<Tensor>& inputs, const SaveOnnxOptions& options,
                           const NamedTensors& weights);

}  // namespace detail

/// Writes the computation that f runs on `inputs`, completely or not at all. Parameters, and everything else that does
/// not depend on the inputs, are stored as constants: weight normalisation and such become plain weights. ONNX's
/// checker has then read the model. The elements of `inputs` matter only if the course of f depends on them. Inputs,
/// outputs and weights of bfloat16 stay so; nodes between them compute in float32, which rounds less often than f
/// itself.
///
/// Throws Error, naming the operator and the module, if f uses an operator that ONNX does not have, random numbers, or
/// elements of a tensor that depends on an input (item(), data()); if a fixed size or a branch of f contradicts
/// .dynamic_axes; for options that do not fit the inputs and outputs; and if writing fails.
inline void save_onnx(const std::filesystem::path& path,
                      const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
                      const std::vector<Tensor>& inputs, const SaveOnnxOptions& options = {}) {
  detail::save_onnx(path, f, inputs, options, {});
}

/// The same for a module, called with one to four inputs. Its results are a tensor, or a pair, tuple or vector of
/// tensors. Constants have the names of its parameters and buffers. Throws Error in training mode.
template <std::derived_from<Module> M>
void save_onnx(const std::filesystem::path& path, const M& module, const std::vector<Tensor>& inputs,
               const SaveOnnxOptions& options = {}) {
  detail::check_evaluated("save_onnx", module);
  NamedTensors weights = module.named_parameters();
  for (auto& buffer : module.named_buffers()) weights.push_back(std::move(buffer));
  detail::save_onnx(
      path, [&](const std::vector<Tensor>& x) { return detail::call_with("save_onnx", module, x); }, inputs, options,
      weights);
}

}  // namespace adjoint::nn
