// The kernels for few products a result: float32 products on the ordinary cores, without tensor cores.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/short_sums/plan.h>

namespace adjoint::cuda {

extern const ConvKernel short_sums_conv;
extern const ConvKernel short_sums_conv_transpose;

/// The problem's plan, or null if no plan fits.
const ShortSumsPlan* find_short_sums_plan(const ConvProblem& problem);

/// Enqueues the plan's kernel for the problem on the device's current stream. There is one translation unit for each
/// dtype.
template <DType kDType>
void run_short_sums(const ShortSumsPlan& plan, const ConvProblem& problem);

}  // namespace adjoint::cuda
