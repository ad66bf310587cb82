// wgmma's names for an arithmetic's operands.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/core/cuda/wgmma.cuh>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
inline constexpr wgmma::Operand kWgmmaOperand = kArithmetic == Arithmetic::kBFloat16  ? wgmma::Operand::kBFloat16
                                                : kArithmetic == Arithmetic::kFloat16 ? wgmma::Operand::kFloat16
                                                                                      : wgmma::Operand::kTF32;

}  // namespace adjoint::cuda
