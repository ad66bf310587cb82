// What the plans of the tensor-core kernels for conv and conv_transpose cost, to compare them by.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/correlation/plan.h>

#include <cstdint>

namespace adjoint::cuda {

/// Clocks of the machine that a plan takes, its copy of the input included, what packs the filter aside. `split`:
/// float32 in three products. Plans may be compared whatever their kind: blocked, boxed, neither.
ADJOINT_API double correlation_clocks(const CorrelationPlan& plan, bool split, const Machine& machine);

/// What a read of eight positions' four units takes, beside one whose lanes meet 32 banks, where neighbouring positions
/// are `stride` columns of a stage apart.
double correlation_bank_conflicts(const CorrelationPlan& plan, std::int32_t stride);

}  // namespace adjoint::cuda
