// The trio with operands in another order (layouts/orders.h): copies of operands or results around the computation of
// the remaining problem, which the caller passes. Infinity and NaN spread as in that computation; zeros that replace
// taps are multiplied as in correlation.h.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/layouts/orders.h>

#include <cstddef>

namespace adjoint::cuda {

struct Rearrangement {
  RearrangedPlan plan;
  bool filter_is_put_in_order = true;  // conv_weight: by a copy, not by the kernel itself
};

/// The remaining problem. Its operands are still the caller's.
ConvProblem inner_problem(const RearrangedPlan& plan, const ConvProblem& problem);

/// Bytes of the copies.
std::size_t rearranged_bytes(const Rearrangement& how, const ConvProblem& problem);

/// Enqueues the copies, and run_inner(inner problem, plan) between them. run_inner activates results.
void run_rearranged(const Rearrangement& how, const ConvProblem& problem,
                    void (*run_inner)(const ConvProblem& inner, const RearrangedPlan& plan));

}  // namespace adjoint::cuda
