// The kernels for convolutions that are products of matrices (1 x 1 taps, or one position a sample) in half precision
// and TF32 on sm_90: wgmma with both factors in shared memory in their global order, or with floats' positions in
// registers (product/plan.h). NaN and infinity spread as in the plain kernels.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/product/plan.h>

namespace adjoint::cuda {

extern const ConvKernel product_conv;
extern const ConvKernel product_conv_transpose;
extern const ConvKernel product_conv_weight;

/// The problem's plan, or null if no plan fits.
const ProductPlan* find_product_plan(const ConvProblem& problem);

/// Enqueues the plan's kernel on the device's current stream. The factors are aligned and `pitch` apart; `partial`
/// receives the sums of slices, if there are several.
void run_product(const ProductPlan& plan, const ConvProblem& problem, const void* rows, const void* columns,
                 float* partial);
/// There is one translation unit for each arithmetic.
template <Arithmetic kArithmetic>
void run_product_in(const ProductPlan& plan, const ConvProblem& problem, const void* rows, const void* columns,
                    float* partial);

}  // namespace adjoint::cuda
