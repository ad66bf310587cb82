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

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
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
};

namespace detail {

using OnnxFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

ADJOINT_API void save_onnx(const std::filesystem::path& path, const OnnxFunction& f, const std::vector<Tensor>& inputs,
                           const SaveOnnxOptions& options, const NamedTensors& weights);
[[noreturn]] ADJOINT_API void wrong_number_of_inputs(std::size_t inputs);
ADJOINT_API void check_evaluated(const Module& module);

inline std::vector<Tensor> listed(Tensor result) { return {std::move(result)}; }
inline std::vector<Tensor> listed(std::vector<Tensor> results) { return results; }
template <class... T>
requires(std::convertible_to<T, Tensor>&&...) std::vector<Tensor> listed(const std::tuple<T...>& results) {
  return std::apply([](const auto&... result) { return std::vector<Tensor>{result...}; }, results);
}
inline std::vector<Tensor> listed(const std::pair<Tensor, Tensor>& results) { return {results.first, results.second}; }

/// f(inputs[0], ..., inputs[n - 1]), where f takes so many.
template <class F, std::size_t... kIndex>
std::vector<Tensor> call_with(const F& f, const std::vector<Tensor>& inputs, std::index_sequence<kIndex...>) {
  if constexpr (std::is_invocable_v<const F&, decltype(inputs[kIndex])...>) {
    return listed(std::invoke(f, inputs[kIndex]...));
  } else {
    wrong_number_of_inputs(inputs.size());
  }
}
template <class F>
std::vector<Tensor> call_with(const F& f, const std::vector<Tensor>& inputs) {
  switch (inputs.size()) {
    case 1: return call_with(f, inputs, std::make_index_sequence<1>());
    case 2: return call_with(f, inputs, std::make_index_sequence<2>());
    case 3: return call_with(f, inputs, std::make_index_sequence<3>());
    case 4: return call_with(f, inputs, std::make_index_sequence<4>());
    default: wrong_number_of_inputs(inputs.size());
  }
}

}  // namespace detail

/// Writes the computation that f runs on `inputs`, completely or not at all. Parameters, and everything else that does
/// not depend on the inputs, are stored as constants: weight normalisation and such become plain weights. ONNX's
/// checker has then read the model. The elements of `inputs` matter only where they decide what f does.
///
/// Throws Error, naming the operator and the module, if f uses an operator that ONNX does not have, random numbers, or
/// elements of a tensor that depends on an input (item(), data()); if a fixed size or another course of f contradicts
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
  detail::check_evaluated(module);
  NamedTensors weights = module.named_parameters();
  for (auto& buffer : module.named_buffers()) weights.push_back(std::move(buffer));
  detail::save_onnx(
      path, [&](const std::vector<Tensor>& x) { return detail::call_with(module, x); }, inputs, options, weights);
}

}  // namespace adjoint::nn
