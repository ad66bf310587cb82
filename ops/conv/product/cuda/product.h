// The kernels for convolutions that are products of matrices, 1 x 1 taps and one position a sample, in half precision
// and TF32 on sm_90: wgmma with both factors in shared memory as they lie in global memory, or floats' positions in
// registers (product/plan.h). NaN and infinity go where they go in the plain kernels.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/product/plan.h>

namespace adjoint::cuda {

extern const ConvKernel product_conv;
extern const ConvKernel product_conv_transpose;
extern const ConvKernel product_conv_weight;

/// The problem's plan, null where there is none.
const ProductPlan* find_product_plan(const ConvProblem& problem);

/// Enqueues the plan's kernel on the device's current stream. The factors are aligned and `pitch` apart; `partial` gets
/// the sums of slices, where there are some.
void run_product(const ProductPlan& plan, const ConvProblem& problem, const void* rows, const void* columns,
                 float* partial);
/// One translation unit an arithmetic.
template <Arithmetic kArithmetic>
void run_product_in(const ProductPlan& plan, const ConvProblem& problem, const void* rows, const void* columns,
                    float* partial);

}  // namespace adjoint::cuda
