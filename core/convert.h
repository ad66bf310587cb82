// One element from one dtype to another, for host and device alike.
#pragma once

#include <adjoint/core/dtype.h>

#include <type_traits>

namespace adjoint {

/// As static_cast; to bool: not equal to 0; to a 16-bit float: rounded once from float (from double: twice, like
/// PyTorch's).
template <class To, class From>
ADJOINT_HD constexpr To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_reduced_float<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (is_reduced_float<To>) {
    return To(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

/// The type that arithmetic on T happens in: float for the 16-bit floats, else T itself.
template <class T>
using compute_t = std::conditional_t<is_reduced_float<T>, float, T>;

}  // namespace adjoint
