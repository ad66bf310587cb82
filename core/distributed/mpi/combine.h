// Combines several ranks' elements on the CPU, in the order of ranks: ((x0 + x1) + x2) + ... Float16 and bfloat16 are
// combined in float32 and rounded once; other dtypes are combined directly. Internal.
#pragma once

#include <adjoint/core/distributed/world.h>
#include <adjoint/core/tensor/dtype.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

namespace adjoint::distributed {

template <class A>
A combined(ReduceOp op, A a, A b) {
  using Wide = std::conditional_t<std::is_integral_v<A>, std::uint64_t, A>;  // integers wrap around
  if constexpr (std::is_floating_point_v<A>) {
    if ((op == ReduceOp::kMin || op == ReduceOp::kMax) && (std::isnan(a) || std::isnan(b))) return a + b;
  }
  switch (op) {
    case ReduceOp::kProduct: return static_cast<A>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case ReduceOp::kMin: return std::min(a, b);
    case ReduceOp::kMax: return std::max(a, b);
    default: return static_cast<A>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

/// out[i] = op of parts[r * stride + i] over the ranks r.
inline void combine(DType dtype, ReduceOp op, const void* parts, std::size_t stride, int ranks, void* out,
                    std::size_t count) {
  visit(dtype, [&]<class T>() {
    using A = std::conditional_t<is_reduced_float<T>, float, T>;
    const T* const from = static_cast<const T*>(parts);
    T* const to = static_cast<T*>(out);
    for (std::size_t i = 0; i < count; ++i) {
      A sum = static_cast<A>(from[i]);
      for (int r = 1; r < ranks; ++r) {
        sum = combined<A>(op, sum, static_cast<A>(from[static_cast<std::size_t>(r) * stride + i]));
      }
      if (op == ReduceOp::kAvg) sum = static_cast<A>(sum / static_cast<A>(ranks));
      to[i] = static_cast<T>(sum);
    }
  });
}

}  // namespace adjoint::distributed
