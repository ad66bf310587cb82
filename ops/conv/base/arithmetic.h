// The arithmetics of the trio's kernels.
#pragma once

#include <adjoint/core/base/precision.h>
#include <adjoint/core/tensor/dtype.h>

namespace adjoint::cuda {

enum class Arithmetic { kTF32, kFloat32, kBFloat16, kFloat16 };  // kFloat32: three tf32 products

/// The arithmetic for operands in bfloat16, float16, or float32 with this precision.
constexpr Arithmetic arithmetic_of(DType dtype, Precision precision) {
  switch (dtype) {
    case kBFloat16: return Arithmetic::kBFloat16;
    case kFloat16: return Arithmetic::kFloat16;
    default: return precision == Precision::kTF32 ? Arithmetic::kTF32 : Arithmetic::kFloat32;
  }
}

/// Elements of a 32-bit unit.
constexpr int unit_elements(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kBFloat16 || arithmetic == Arithmetic::kFloat16 ? 2 : 1;
}
/// Bytes of an operand's element.
constexpr int element_bytes(Arithmetic arithmetic) { return 4 / unit_elements(arithmetic); }
/// Returns true if each product is three products of tf32 parts.
constexpr bool is_split(Arithmetic arithmetic) { return arithmetic == Arithmetic::kFloat32; }

}  // namespace adjoint::cuda
