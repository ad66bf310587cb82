// The run of a network under a trace of its calls (save_onnx, Plan). Internal.
#pragma once

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/context.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/nn/tensor_function.h>

#include <utility>
#include <vector>

namespace adjoint::nn::detail {

/// Throws Error, naming `op`, without inputs and for an undefined one.
ADJOINT_API void check_inputs(const char* op, const std::vector<Tensor>& inputs);
/// Calls f(inputs) under `trace`, without a tape. Errors name the modules that threw them.
ADJOINT_API std::vector<Tensor> run_traced(adjoint::detail::CallTrace& trace, const TensorFunction& f,
                                           const std::vector<Tensor>& inputs);
/// The function that the program called, for an error, to which modules add their paths.
ADJOINT_API const char* called_function();
/// Throws an Error that begins with its own text inside an operator's scope, too; the scopes that it ends restore their
/// names.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  adjoint::detail::context().op = nullptr;
  fail(format, std::forward<Args>(args)...);
}

}  // namespace adjoint::nn::detail
