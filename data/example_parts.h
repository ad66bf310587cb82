// Functions over the tensors of an Example, under any names. Internal.
#pragma once

#include <adjoint/data/example.h>

#include <cstdint>
#include <string>

namespace adjoint::data {

/// f(name, tensor) for input, target and every field, in this order, defined or not.
template <class E, class F>
void for_each_tensor(E& example, F f) {
  static const std::string kInput = "input", kTarget = "target";
  f(kInput, example.input);
  f(kTarget, example.target);
  for (auto& [name, tensor] : example.fields) f(name, tensor);
}

/// Throws Error, naming `op`, if a field's name is empty, repeated, "input" or "target".
void check_field_names(const char* op, const Example& example);
/// An uninitialised batch of `count` tensors like `part`; page-locked if `pinned`.
Tensor empty_batch(const Tensor& part, std::int64_t count, bool pinned);
/// stack_examples(), into page-locked memory if `pinned`. Tensors that are already in their place in the tensor of
/// `places` with their name are not copied: its memory is the batch's.
Example stack_examples(const std::vector<Example>& examples, bool pinned, const NamedTensors& places = {});

}  // namespace adjoint::data
