// Networks as functions of lists of tensors (save_onnx, Plan).
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <concepts>
#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint::nn {

class Module;

namespace detail {

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Throw Error, naming `op`: for a call with so many inputs, and for a module in training mode.
[[noreturn]] ADJOINT_API void wrong_number_of_inputs(const char* op, std::size_t inputs);
ADJOINT_API void check_evaluated(const char* op, const Module& module);

inline std::vector<Tensor> listed(Tensor result) { return {std::move(result)}; }
inline std::vector<Tensor> listed(std::vector<Tensor> results) { return results; }
template <class... T>
requires(std::convertible_to<T, Tensor>&&...) std::vector<Tensor> listed(const std::tuple<T...>& results) {
  return std::apply([](const auto&... result) { return std::vector<Tensor>{result...}; }, results);
}
inline std::vector<Tensor> listed(const std::pair<Tensor, Tensor>& results) { return {results.first, results.second}; }

/// f(inputs[0], ..., inputs[n - 1]) if f has n tensor parameters.
template <class F, std::size_t... kIndex>
std::vector<Tensor> call_with(const char* op, const F& f, const std::vector<Tensor>& inputs,
                              std::index_sequence<kIndex...>) {
  if constexpr (std::is_invocable_v<const F&, decltype(inputs[kIndex])...>) {
    return listed(std::invoke(f, inputs[kIndex]...));
  } else {
    wrong_number_of_inputs(op, inputs.size());
  }
}
template <class F>
std::vector<Tensor> call_with(const char* op, const F& f, const std::vector<Tensor>& inputs) {
  switch (inputs.size()) {
    case 1: return call_with(op, f, inputs, std::make_index_sequence<1>());
    case 2: return call_with(op, f, inputs, std::make_index_sequence<2>());
    case 3: return call_with(op, f, inputs, std::make_index_sequence<3>());
    case 4: return call_with(op, f, inputs, std::make_index_sequence<4>());
    default: wrong_number_of_inputs(op, inputs.size());
  }
}

}  // namespace detail
}  // namespace adjoint::nn
