// Chooses the CUDA kernel that computes a convolution. Each operator of the trio has a list of kernels. Of the kernels
// that support the problem, the one with the lowest estimated time runs; the last one, `plain`, supports every problem.
//
// A new kernel is a folder, one ConvKernel in it, the terms of its time (terms.h), their coefficients (calibration.inc)
// and one line in dispatch.cpp. It must give the same bits in every run with any grid, and NaN and infinity wherever
// `plain` does.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/choose/cuda/terms.h>

#include <span>
#include <string_view>

namespace adjoint::cuda {

/// The kernels of a role; `plain` last.
ADJOINT_API std::span<const ConvKernel* const> conv_kernels(ConvRole role);
/// The kernel with the lowest estimated time among those that support `problem`.
ADJOINT_API const ConvKernel& best_conv_kernel(const ConvProblem& problem);
/// The same among kernels that compute the problem without reordering its operands.
const ConvKernel& best_conv_kernel_in_place(const ConvProblem& problem);
/// The estimates from start to end, of that kernel and of a given one; infinity for a kernel that must not be chosen.
double best_conv_microseconds_in_place(const ConvProblem& problem);
ADJOINT_API double conv_kernel_microseconds(const ConvKernel& kernel, const ConvProblem& problem);
/// The terms of the estimate, in `terms`: empty for a kernel that must not be chosen. For the calibration.
ADJOINT_API std::span<const double> conv_kernel_terms(const ConvKernel& kernel, const ConvProblem& problem,
                                                      Terms& terms);
/// Returns true if it reorders operands, and chooses a kernel for the inner problem.
ADJOINT_API bool rearranges(const ConvKernel& kernel);
/// The kernel that tests and benchmarks select: the role's kernel whose name begins so ("channelwise": for any role),
/// which may not support every problem. Null if no name does.
ADJOINT_API const ConvKernel* find_conv_kernel(ConvRole role, std::string_view name);

}  // namespace adjoint::cuda
