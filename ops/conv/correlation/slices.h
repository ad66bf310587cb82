// Slices let conv and conv_transpose fill a GPU with few tiles, as in deep layers of small planes and at batch 1: they
// divide the summed channels. A slice is a separate group to a tensor-core kernel, which computes partial results in
// float32, [image][group][slice][channel][position]; another kernel adds them up. The geometry alone determines the
// number of slices, and so the bits.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/correlation/plan.h>

#include <cstdint>

namespace adjoint::cuda {

/// The size of the partial results in bytes.
ADJOINT_API std::int64_t slices_bytes(const CorrelationPlan& sliced);
/// The fastest plan with at least two slices, by the model; returns false if channels cannot be cut without much
/// padding. Arguments as in plan_correlation(), with the `limits` of one of the two kernels.
ADJOINT_API bool plan_slices(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic,
                             const CorrelationLimits& limits, const Machine& machine, CorrelationPlan& plan);
/// The model's clocks of the slices and of their addition.
ADJOINT_API double slices_clocks(const CorrelationPlan& sliced, bool split, const Machine& machine);
/// Returns true if tiles of the plan leave multiprocessors of an H200 idle, so that slices may pay. It does not depend
/// on the plan's machine. Tests with one multiprocessor, which is never idle, therefore reach the slices of large
/// tiles.
ADJOINT_API bool has_few_tiles(const CorrelationPlan& whole);

}  // namespace adjoint::cuda
