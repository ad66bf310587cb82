// Functions of several operators here for which ONNX has one operator. Internal.
#pragma once

#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/tensor/tensor.h>

#include <array>
#include <concepts>
#include <span>
#include <type_traits>

namespace adjoint::detail {

template <class Attr>
using RuleFor = OnnxRule<std::type_identity_t<Attr>>;

/// Returns compute(), a function of the operands `in`. A trace records it as one call of an operator `name`, which
/// `rule` translates, in place of the calls of which it consists.
template <class Attr, class F>
Tensor as_one_call(const char* name, const RuleFor<Attr>& rule, const Attr& attr, const F& compute,
                   std::span<const Tensor> in) {
  CallTrace* const trace = CallTrace::of_functions();
  if (trace == nullptr) [[likely]]
    return compute();
  Tensor out;
  {
    const TraceScope inside(nullptr);
    out = compute();
  }
  trace->called(OperatorCallOf<Attr>(name, rule, in, std::span<const Tensor>(&out, 1), attr, false));
  return out;
}
template <class Attr, class F, std::same_as<Tensor>... T>
Tensor as_one_call(const char* name, const RuleFor<Attr>& rule, const Attr& attr, const F& compute, const T&... in) {
  if (CallTrace::of_functions() == nullptr) [[likely]]
    return compute();
  const std::array<Tensor, sizeof...(in)> operands{in...};
  return as_one_call(name, rule, attr, compute, std::span<const Tensor>(operands));
}

}  // namespace adjoint::detail
