// Which CUDA kernel computes a convolution. Each of the trio has a list of kernels; of those that take the problem the
// one runs it whose estimated time is the least, and the last one, `plain`, takes every problem.
//
// A new kernel is a folder, one ConvKernel in it, the terms of its time (terms.h), their coefficients
// (calibration.inc) and one line in dispatch.cpp. It must give the same bits from run to run whatever the grid, and NaN
// and infinity wherever `plain` does.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/choose/cuda/terms.h>

#include <span>
#include <string_view>

namespace adjoint::cuda {

/// The kernels of a role; `plain` last.
ADJOINT_API std::span<const ConvKernel* const> conv_kernels(ConvRole role);
/// The one whose estimated time is the least, of those that take `problem`.
ADJOINT_API const ConvKernel& best_conv_kernel(const ConvProblem& problem);
/// Likewise of those that compute the problem as it is, in no other order of its operands.
const ConvKernel& best_conv_kernel_in_place(const ConvProblem& problem);
/// The estimates, from start to end: of that one, and of any; infinity where a kernel is not to be chosen.
double best_conv_microseconds_in_place(const ConvProblem& problem);
ADJOINT_API double conv_kernel_microseconds(const ConvKernel& kernel, const ConvProblem& problem);
/// What the estimate is made of, in `terms`: none where the kernel is not to be chosen. For its calibration.
ADJOINT_API std::span<const double> conv_kernel_terms(const ConvKernel& kernel, const ConvProblem& problem,
                                                      Terms& terms);
/// Whether it is one that puts operands into another order, and chooses what computes what is left.
ADJOINT_API bool rearranges(const ConvKernel& kernel);
/// The kernel that tests and benchmarks run by its name, whether it is the quickest or not: the role's whose name
/// begins so ("channelwise": of any role), which may not take every problem. Null where there is none.
ADJOINT_API const ConvKernel* find_conv_kernel(ConvRole role, std::string_view name);

}  // namespace adjoint::cuda
