// conv and conv_transpose on Hopper's tensor cores from a copy of the input in channel blocks, for many channels and
// results: float32 (three tf32 products), TF32, bfloat16, float16. Infinity and NaN spread as in correlation.h.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/plan.h>

namespace adjoint::cuda {

extern const ConvKernel blocked_conv;
extern const ConvKernel blocked_conv_transpose;

/// The problem's plan, or null if no plan fits.
const CorrelationPlan* find_blocked_plan(const ConvProblem& problem);

/// Computes by a blocked plan, on the device's current stream; with float32 results if they are partial.
void run_blocked(const CorrelationPlan& plan, const ConvProblem& problem, bool partial = false);

/// Copies the input and packs the problem's filter, then computes, on the device's current stream. One translation unit
/// each.
template <Arithmetic kArithmetic>
void run_blocked(const CorrelationPlan& plan, const CorrelationOperands& operands, const ConvProblem& problem);

}  // namespace adjoint::cuda
