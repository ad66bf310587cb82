// How conv and conv_transpose fill a GPU where tiles are few, as in deep layers of small planes and at batch 1: the
// channels that are summed are cut into slices. A slice is a group of its own to a tensor-core kernel, which makes
// partial results in float32, [image][group][slice][channel][position]; another kernel adds them up. How many slices
// there are follows from the geometry alone, and so do the bits.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/correlation/plan.h>

#include <cstdint>

namespace adjoint::cuda {

/// Of the partial results, in bytes.
ADJOINT_API std::int64_t slices_bytes(const CorrelationPlan& sliced);
/// The quickest plan of two slices or more, in the model; false where channels cannot be cut without much padding.
/// Arguments as plan_correlation()'s, of which `limits` are one of the two kernels'.
ADJOINT_API bool plan_slices(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic,
                             const CorrelationLimits& limits, const Machine& machine, CorrelationPlan& plan);
/// What the model says of the slices and of their addition, in clocks.
ADJOINT_API double slices_clocks(const CorrelationPlan& sliced, bool split, const Machine& machine);
/// Whether tiles of the plan leave multiprocessors of an H200 idle, so that slices may pay. Whatever machine it is made
/// for: on one multiprocessor, which leaves nothing idle, tests reach the slices of large tiles.
ADJOINT_API bool has_few_tiles(const CorrelationPlan& whole);

}  // namespace adjoint::cuda
