// The arithmetics of the tensor-core kernels, for tests with and without a GPU.
#pragma once

#include <adjoint/core/dtype.h>
#include <adjoint/core/precision.h>
#include <adjoint/ops/conv/base/arithmetic.h>

namespace adjoint::testing {

struct ConvMode {
  const char* name;
  DType dtype;
  Precision precision;

  cuda::Arithmetic arithmetic() const {
    switch (dtype) {
      case kBFloat16: return cuda::Arithmetic::kBFloat16;
      case kFloat16: return cuda::Arithmetic::kFloat16;
      default: return precision == Precision::kTF32 ? cuda::Arithmetic::kTF32 : cuda::Arithmetic::kFloat32;
    }
  }
  /// Whether it is three products of tf32 parts.
  bool splits() const { return is_split(arithmetic()); }
};
inline constexpr ConvMode kConvModes[] = {{"float32", kFloat32, Precision::kFull},
                                          {"tf32", kFloat32, Precision::kTF32},
                                          {"bfloat16", kBFloat16, Precision::kFull},
                                          {"float16", kFloat16, Precision::kFull}};

}  // namespace adjoint::testing
