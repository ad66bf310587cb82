// Example: an element of a dataset and an input of a network, single or as a batch.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstddef>
#include <functional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace adjoint::data {

/// An input, its target, and other named tensors; or, stacked along a new first axis, a batch of them. `target` may be
/// undefined, and so may `input` if there are fields.
///     for (const auto& [low, high] : loader) ...                  // input and target
///     for (const auto& batch : loader) net(batch["waveform"]) ... // by name
struct Example {
  Tensor input;
  Tensor target;
  /// Further tensors. Their names are distinct, and differ from "input" and "target".
  NamedTensors fields = {};

  /// The field with that name; "input" and "target" name those two. Throws Error if no field has it.
  ADJOINT_API const Tensor& operator[](std::string_view name) const;
};

/// Makes a batch of one or more examples. Several threads may call it concurrently.
using Collate = std::function<Example(const std::vector<Example>& examples)>;

/// Stacks inputs, targets and fields, each along a new first axis, on the CPU; the loader's default. Throws Error if
/// shapes, dtypes or names of fields differ, or if a tensor is defined only in some examples.
ADJOINT_API Example stack_examples(const std::vector<Example>& examples);

struct PadOptions {
  /// The tensors to pad: "input", "target" or names of fields.
  std::vector<std::string> names = {"input"};
  /// The axis of one example's tensor whose extent differs; -1 is the last.
  std::int64_t axis = 0;
  /// The value that pads shorter ones.
  double value = 0.0;
};

/// Like stack_examples, but pads tensors of options.names at their ends to the longest of the batch. Their original
/// lengths, int64 (N), become fields: "input_lengths", "target_lengths", "<name>_lengths". Throws Error for options
/// without a name. Each batch throws Error if another axis differs, a dtype cannot hold the value or an example has no
/// such tensor or axis.
ADJOINT_API Collate pad_examples(const PadOptions& options = {});

namespace detail {

/// The part of a structured binding: input or target.
template <std::size_t kPart, class E>
constexpr auto&& part_of(E&& example) {
  static_assert(kPart < 2);
  if constexpr (kPart == 0) {
    return std::forward<E>(example).input;
  } else {
    return std::forward<E>(example).target;
  }
}

}  // namespace detail

template <std::size_t kPart>
constexpr const Tensor& get(const Example& example) {
  return detail::part_of<kPart>(example);
}
template <std::size_t kPart>
constexpr Tensor& get(Example& example) {
  return detail::part_of<kPart>(example);
}
template <std::size_t kPart>
constexpr Tensor&& get(Example&& example) {
  return detail::part_of<kPart>(std::move(example));
}

}  // namespace adjoint::data

template <>
struct std::tuple_size<adjoint::data::Example> : std::integral_constant<std::size_t, 2> {};
template <std::size_t kPart>
struct std::tuple_element<kPart, adjoint::data::Example> {
  using type = adjoint::Tensor;
};
