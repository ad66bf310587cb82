// argsort by device: in: x (rows, extent), contiguous; out: of the same shape, int64: for each row its places in the
// order of their elements, equal ones in their own order.
//
// Elements are compared by keys, unsigned integers of their size in the same order, so that both devices and all dtypes
// sort alike.
#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <adjoint/core/tensor/tensor.h>

#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>

namespace adjoint {

struct SortAttr {
  std::int64_t extent;
  bool descending;
};

namespace sorting {

template <std::size_t kBytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = std::uint8_t;
};
template <>
struct UnsignedOf<2> {
  using type = std::uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = std::uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = std::uint64_t;
};
template <class T>
using Key = typename UnsignedOf<sizeof(T)>::type;

/// The bits of infinity.
template <class T>
ADJOINT_HD constexpr Key<T> infinity_bits() {
  if constexpr (std::is_same_v<T, float16>) return 0x7c00U;
  if constexpr (std::is_same_v<T, bfloat16>) return 0x7f80U;
  if constexpr (std::is_same_v<T, float>) return 0x7f800000U;
  if constexpr (std::is_same_v<T, double>) return 0x7ff0000000000000U;
  return 0;
}

/// Keys are in the elements' order: NaN is above all, and -0 is 0.
template <class T>
ADJOINT_HD constexpr Key<T> key(T value) {
  using K = Key<T>;
  constexpr K kSign = static_cast<K>(K{1} << (8 * sizeof(T) - 1));
  if constexpr (std::is_same_v<T, bool> || std::is_unsigned_v<T>) {
    return static_cast<K>(value);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<K>(static_cast<K>(value) ^ kSign);
  } else {
    const K bits = std::bit_cast<K>(value), magnitude = static_cast<K>(bits & static_cast<K>(~kSign));
    if (magnitude > infinity_bits<T>()) return static_cast<K>(~K{0});
    if (magnitude == 0 || bits == magnitude) return static_cast<K>(magnitude | kSign);
    return static_cast<K>(~bits);
  }
}

}  // namespace sorting
}  // namespace adjoint

namespace adjoint::cpu {
void argsort(std::span<const Tensor> in, Tensor& out, const SortAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void argsort(std::span<const Tensor> in, Tensor& out, const SortAttr& attr);
}  // namespace adjoint::cuda
