// The trio of image and feature in channels_last: read as they lie, or copied to the contiguous order of all other
// kernels, whichever is predicted to be faster.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/cuda/problem.h>

namespace adjoint::cuda {

/// Runs `problem`, whose image and feature are in channels_last, (N, H, W, C) in memory, and whose filter is
/// contiguous. Channels that do not fill multiples of 16 bytes are padded in a copy of that operand or result. Returns
/// false, and does nothing, if no kernel reads them so, if the others do not begin at multiples of 16 bytes, and if
/// copies around the fastest other kernel are predicted to take less time. The problem has no `linear`.
ADJOINT_API bool run_channels_last(const ConvProblem& problem);

}  // namespace adjoint::cuda
