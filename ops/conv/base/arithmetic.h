// What the kernels of the trio compute with.
#pragma once

namespace adjoint::cuda {

enum class Arithmetic { kTF32, kFloat32, kBFloat16, kFloat16 };  // kFloat32: three tf32 products

/// Elements of a 32-bit unit.
constexpr int unit_elements(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kBFloat16 || arithmetic == Arithmetic::kFloat16 ? 2 : 1;
}
/// Bytes of an operand's element.
constexpr int element_bytes(Arithmetic arithmetic) { return 4 / unit_elements(arithmetic); }
/// Whether each product is three of tf32 parts.
constexpr bool is_split(Arithmetic arithmetic) { return arithmetic == Arithmetic::kFloat32; }

}  // namespace adjoint::cuda
