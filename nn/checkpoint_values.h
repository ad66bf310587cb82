// Checkpoint's conversion of members to named tensors and back. Internal to Checkpoint's templates.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint::nn {

/// Types that export their state by name and import it, completely or not at all: modules, optimisers, schedules,
/// averages.
template <class T>
concept HasStateDict = requires(T& object, const T& unchanged, const NamedTensors& state) {
  { unchanged.state_dict() } -> std::convertible_to<NamedTensors>;
  object.load_state_dict(state);
};

/// Types whose state is one value, such as data::DataLoader.
template <class T>
concept HasState = requires(T& object, const T& unchanged) {
  unchanged.state();
  object.load_state(unchanged.state());
};

namespace detail {

template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

/// A struct of integers, without padding between members. Pointers, and views such as string_view, cannot be
/// distinguished from integers.
template <class T>
inline constexpr bool kIsPlainStruct = std::is_aggregate_v<T> && !std::is_array_v<T> &&
                                       std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>;

}  // namespace detail

/// A program's own values that a checkpoint can keep: numbers, enumerators, text, vectors of numbers, tensors by name,
/// and structs of integers without padding, as their bytes (without pointers, because their targets are not kept).
template <class T>
concept CheckpointValue = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::same_as<T, std::string> ||
    std::same_as<T, NamedTensors> || detail::kIsVector<T> || detail::kIsPlainStruct<T>;

namespace detail {

// One tensor under the name "". All functions with a tensor parameter throw Error for another dtype or number of
// elements.

ADJOINT_API NamedTensors bytes_state(const void* data, std::size_t bytes);
ADJOINT_API std::vector<std::uint8_t> take_bytes(const NamedTensors& state);
ADJOINT_API void take_bytes(const NamedTensors& state, void* data, std::size_t bytes);
ADJOINT_API std::vector<std::int64_t> take_integers(const NamedTensors& state);
ADJOINT_API std::vector<double> take_reals(const NamedTensors& state);
ADJOINT_API void check_count(std::size_t count, std::size_t expected);
[[noreturn]] ADJOINT_API void does_not_hold(std::int64_t value, std::size_t bytes, bool is_signed);
/// Copies the elements in. Throws Error for another shape or dtype.
ADJOINT_API void take_elements(const NamedTensors& state, Tensor& tensor);

ADJOINT_API NamedTensors reals_state(const std::vector<double>& values, const Shape& shape);
ADJOINT_API NamedTensors integers_state(const std::vector<std::int64_t>& values, const Shape& shape);

/// Integers are kept as int64 (unsigned 64-bit ones by their bits), floating-point numbers as float64.
template <class T>
NamedTensors numbers_state(const std::vector<T>& values, const Shape& shape) {
  if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) <= sizeof(double), "a long double is not kept exactly");
    return reals_state(std::vector<double>(values.begin(), values.end()), shape);
  } else {
    return integers_state(std::vector<std::int64_t>(values.begin(), values.end()), shape);
  }
}

template <class T>
std::vector<T> take_numbers(const NamedTensors& state) {
  std::vector<T> values;
  if constexpr (std::is_floating_point_v<T>) {
    for (const double value : take_reals(state)) values.push_back(static_cast<T>(value));
  } else {
    for (const std::int64_t value : take_integers(state)) {
      const T narrow = static_cast<T>(value);
      if (static_cast<std::int64_t>(narrow) != value) does_not_hold(value, sizeof(T), std::is_signed_v<T>);
      values.push_back(narrow);
    }
  }
  return values;
}

template <CheckpointValue T>
NamedTensors value_state(const T& value) {
  if constexpr (std::same_as<T, NamedTensors>) {
    return value;
  } else if constexpr (std::same_as<T, bool>) {
    return numbers_state<int>({value ? 1 : 0}, {});
  } else if constexpr (std::is_arithmetic_v<T>) {
    return numbers_state<T>({value}, {});
  } else if constexpr (std::is_enum_v<T>) {
    return numbers_state<std::int64_t>({static_cast<std::int64_t>(value)}, {});
  } else if constexpr (kIsVector<T>) {
    return numbers_state(value, {static_cast<std::int64_t>(value.size())});
  } else if constexpr (std::same_as<T, std::string>) {
    return bytes_state(value.data(), value.size());
  } else {
    return bytes_state(&value, sizeof(value));
  }
}

template <CheckpointValue T>
T value_of(const NamedTensors& state) {
  if constexpr (std::same_as<T, NamedTensors>) {
    return state;
  } else if constexpr (kIsVector<T>) {
    return take_numbers<typename T::value_type>(state);
  } else if constexpr (std::same_as<T, std::string>) {
    const std::vector<std::uint8_t> bytes = take_bytes(state);
    return T(bytes.begin(), bytes.end());
  } else if constexpr (std::same_as<T, bool> || std::is_enum_v<T>) {
    const std::vector<std::int64_t> values = take_integers(state);
    check_count(values.size(), 1);
    const T value = static_cast<T>(values[0]);
    if (static_cast<std::int64_t>(value) != values[0]) does_not_hold(values[0], sizeof(T), false);
    return value;
  } else if constexpr (std::is_arithmetic_v<T>) {
    const std::vector<T> values = take_numbers<T>(state);
    check_count(values.size(), 1);
    return values[0];
  } else {
    T value{};
    take_bytes(state, &value, sizeof(value));
    return value;
  }
}

/// Seed and position; the address from which a CUDA graph reads its base does not change.
inline std::vector<std::uint64_t> generator_state(const Generator& generator) {
  return {generator.seed(), generator.offset()};
}
inline void load_generator(const std::vector<std::uint64_t>& state, Generator& generator) {
  check_count(state.size(), 2);
  const std::uint64_t* base = generator.device_base();
  generator = Generator(state[0]);
  generator.seek(state[1]);
  generator.set_device_base(base);
}

/// The state of any object that Checkpoint::add accepts.
template <class T>
NamedTensors state_of(const T& object) {
  if constexpr (HasStateDict<T>) {
    return object.state_dict();
  } else if constexpr (HasState<T>) {
    return value_state(object.state());
  } else if constexpr (std::same_as<T, Generator>) {
    return value_state(generator_state(object));
  } else if constexpr (std::same_as<T, Tensor>) {
    return {{"", object}};
  } else {
    return value_state(object);
  }
}

template <class T>
void load_state(const NamedTensors& state, T& object, const LoadStateOptions& options = {}) {
  if constexpr (HasStateDict<T>) {
    if constexpr (requires { object.load_state_dict(state, {.strict = options.strict}); }) {
      object.load_state_dict(state, {.strict = options.strict});
    } else {
      object.load_state_dict(state);
    }
  } else if constexpr (HasState<T>) {
    auto value = value_of<std::remove_cvref_t<decltype(object.state())>>(state);
    if constexpr (requires { object.load_state(value, options); }) {
      object.load_state(value, options);
    } else {
      object.load_state(value);
    }
  } else if constexpr (std::same_as<T, Generator>) {
    load_generator(value_of<std::vector<std::uint64_t>>(state), object);
  } else if constexpr (std::same_as<T, Tensor>) {
    take_elements(state, object);
  } else {
    object = value_of<T>(state);
  }
}

}  // namespace detail
}  // namespace adjoint::nn
