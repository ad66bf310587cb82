// The convolutions' inner kernels of the instruction set in use.
#pragma once

#include <adjoint/ops/conv/cpu/kernels.h>
#include <adjoint/ops/matmul/cpu/dispatch.h>

namespace adjoint::cpu {

template <class T>
const ConvKernels<T>& conv_kernels() {
  return in_use(baseline::conv_table, avx2::conv_table, avx512::conv_table).template of<T>();
}

}  // namespace adjoint::cpu
