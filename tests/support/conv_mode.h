// The arithmetics of the tensor-core kernels, for tests with and without a GPU.
#pragma once

#include <adjoint/core/dtype.h>
#include <adjoint/core/precision.h>

namespace adjoint::testing {

struct ConvMode {
  const char* name;
  DType dtype;
  Precision precision;

  /// Elements of a 32-bit unit.
  int unit_elements() const { return element_size(dtype) == 2 ? 2 : 1; }
  /// Whether it is three products of tf32 parts.
  bool splits() const { return dtype == kFloat32 && precision == Precision::kFull; }
};
inline constexpr ConvMode kConvModes[] = {{"float32", kFloat32, Precision::kFull},
                                          {"tf32", kFloat32, Precision::kTF32},
                                          {"bfloat16", kBFloat16, Precision::kFull},
                                          {"float16", kFloat16, Precision::kFull}};

}  // namespace adjoint::testing
