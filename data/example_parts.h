// What goes through the tensors of an Example, whatever they are called. Internal.
#pragma once

#include <adjoint/data/example.h>

#include <cstdint>
#include <string>

namespace adjoint::data {

/// f(name, tensor) of input, target and every field, in this order, defined or not.
template <class E, class F>
void for_each_tensor(E& example, F f) {
  static const std::string kInput = "input", kTarget = "target";
  f(kInput, example.input);
  f(kTarget, example.target);
  for (auto& [name, tensor] : example.fields) f(name, tensor);
}

/// Throws Error, in the name of `op`, where a field's name is empty, given twice, "input" or "target".
void check_field_names(const char* op, const Example& example);
/// An uninitialised batch of `count` tensors like `part`; page-locked where `pinned` says so.
Tensor empty_batch(const Tensor& part, std::int64_t count, bool pinned);
/// stack_examples(), into page-locked memory where `pinned` says so. Tensors that lie where they belong in that of
/// `places` which has their name are not copied: it is the batch's.
Example stack_examples(const std::vector<Example>& examples, bool pinned, const NamedTensors& places = {});

}  // namespace adjoint::data
