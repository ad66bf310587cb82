// What the tensor-core kernels of the trio compute with.
#pragma once

namespace adjoint::cuda {

enum class Arithmetic { kTF32, kFloat32, kBFloat16, kFloat16 };  // kFloat32: three tf32 products

/// Elements of a 32-bit unit.
inline int unit_elements(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kBFloat16 || arithmetic == Arithmetic::kFloat16 ? 2 : 1;
}

}  // namespace adjoint::cuda
