// The trio for image and feature in channels_last: read directly, or copied to the contiguous order of all other
// kernels, whichever is predicted to be faster.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/cuda/problem.h>

namespace adjoint::cuda {

/// Runs `problem`, whose image and feature are in channels_last, (N, H, W, C) in memory, and whose filter is contiguous
/// or in channels_last too. Channels that do not fill multiples of 16 bytes are padded in a copy of that operand or
/// result. Returns false, and does nothing, if no kernel reads this format, if the other operands do not begin at
/// multiples of 16 bytes, and if copies around the fastest other kernel are predicted to be faster. The problem has no
/// `linear`.
ADJOINT_API bool run_channels_last(const ConvProblem& problem);

/// Returns true if run_channels_last() would run the problem, a volume, with operands that are aligned.
bool takes_volume(const ConvProblem& problem);

}  // namespace adjoint::cuda
