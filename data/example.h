// Example: what a dataset holds and a network takes, one or a batch of them.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/named_tensors.h>
#include <adjoint/core/tensor.h>

#include <cstddef>
#include <functional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace adjoint::data {

/// An input, what is wanted for it, and whatever else belongs to it, by name; or, stacked along a new first axis, a
/// batch of them. `target` may be undefined, and `input` where there are fields.
///     for (const auto& [low, high] : loader) ...                  // input and target
///     for (const auto& batch : loader) net(batch["waveform"]) ... // by name
struct Example {
  Tensor input;
  Tensor target;
  /// Further tensors. Their names are distinct, and neither "input" nor "target".
  NamedTensors fields = {};

  /// The field of that name; "input" and "target" name these two. Throws Error where there is none.
  ADJOINT_API const Tensor& operator[](std::string_view name) const;
};

/// Makes a batch of its examples, of which there is at least one. Called from several threads at once.
using Collate = std::function<Example(const std::vector<Example>& examples)>;

/// Stacks inputs, targets and fields, each along a new first axis, on the CPU; what the loader does where it is told
/// nothing else. Throws Error where shapes, dtypes or names of fields differ, or a tensor is defined in some alone.
ADJOINT_API Example stack_examples(const std::vector<Example>& examples);

struct PadOptions {
  /// What is padded: "input", "target" or names of fields.
  std::vector<std::string> names = {"input"};
  /// The axis of one example's tensor whose extent differs; -1 is the last.
  std::int64_t axis = 0;
  /// Stands behind the shorter ones.
  double value = 0.0;
};

/// As stack_examples, but tensors of options.names are padded at their ends to the longest of the batch. Their own
/// lengths, int64 (N), become fields: "input_lengths", "target_lengths", "<name>_lengths". Throws Error for options
/// without a name; then, at each batch, where another axis differs, a dtype cannot hold the value or an example has
/// no such tensor or axis.
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
