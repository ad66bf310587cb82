// Which CUDA kernel computes a convolution. Each of the trio has a list of kernels, best first; the first one that
// takes the problem, and pays, runs it, and the last one, `plain`, takes every problem.
//
// A new kernel is a folder, one ConvKernel in it and one line in dispatch.cpp. It must give the same bits from run
// to run whatever the grid, and NaN and infinity wherever `plain` does.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/cuda/problem.h>

#include <span>

namespace adjoint::cuda {

/// The kernels of a role, best first.
ADJOINT_API std::span<const ConvKernel* const> conv_kernels(ConvRole role);
/// The first that takes `problem` and pays, other than `except`.
ADJOINT_API const ConvKernel& best_conv_kernel(const ConvProblem& problem, const ConvKernel* except = nullptr);
/// The one that runs `problem`: the best, or the one that is forced.
ADJOINT_API const ConvKernel& select_conv_kernel(const ConvProblem& problem);

/// While it lives, this thread's convolutions run on the kernel of that name, whether it pays or not, and one that
/// it does not take throws Error. For tests and benchmarks. Throws Error for a name that no role has.
class ADJOINT_API ForceConvKernel {
 public:
  explicit ForceConvKernel(const char* name);
  ~ForceConvKernel();
  ForceConvKernel(const ForceConvKernel&) = delete;
  ForceConvKernel& operator=(const ForceConvKernel&) = delete;

 private:
  const char* before_;
};

}  // namespace adjoint::cuda
