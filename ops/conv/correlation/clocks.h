// The costs of the tensor-core kernels' plans for conv and conv_transpose, by which plans are compared.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/correlation/plan.h>

#include <cstdint>

namespace adjoint::cuda {

/// The clocks of a plan on the machine, including its copy of the input but not the packing of the filter. `split`:
/// float32 in three products. Plans of any kind are comparable: blocked, boxed, neither.
ADJOINT_API double correlation_clocks(const CorrelationPlan& plan, bool split, const Machine& machine);

/// The cost of reading eight positions' four units, relative to a read whose lanes use 32 different banks, if
/// neighbouring positions are `stride` columns of a stage apart.
double correlation_bank_conflicts(const CorrelationPlan& plan, std::int32_t stride);

}  // namespace adjoint::cuda
