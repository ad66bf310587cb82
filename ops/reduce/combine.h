// What reductions do with two values, for host and device alike, and the types that they do it in.
#pragma once

#include <adjoint/core/convert.h>
#include <adjoint/ops/elementwise/scalar_math.h>

#include <limits>
#include <type_traits>

namespace adjoint::reduce {

/// Sums of floats are kept in compute_t, those of integers and bool in int64.
template <class T>
using sum_t = std::conditional_t<std::is_integral_v<T>, std::int64_t, compute_t<T>>;

struct Sum {
  template <class A>
  ADJOINT_HD static constexpr A identity() {
    return A{};
  }
  template <class A>
  ADJOINT_HD static constexpr A combine(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));  // wraps around
    } else {
      return a + b;
    }
  }
};

/// NaN wins.
struct Max {
  template <class A>
  ADJOINT_HD static constexpr A identity() {
    if constexpr (std::numeric_limits<A>::has_infinity) {
      return -std::numeric_limits<A>::infinity();
    } else {
      return std::numeric_limits<A>::lowest();
    }
  }
  template <class A>
  ADJOINT_HD static constexpr A combine(A a, A b) {
    return scalar::select((a > b) | (a != a), a, b);
  }
};

/// The finished value of one result.
template <class Out, class A>
ADJOINT_HD constexpr Out finish(A value, double divisor) {
  if constexpr (std::is_floating_point_v<A>) {
    return convert<Out>(divisor == 1.0 ? value : value / static_cast<A>(divisor));
  } else {
    return convert<Out>(value);
  }
}

}  // namespace adjoint::reduce
