// Which CUDA kernel the library chooses, asked without a GPU.
#pragma once

#ifdef ADJOINT_WITH_CUDA
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/tests/support/conv_mode.h>

#include <string>

namespace adjoint::testing {

using bench::kHopper;
using bench::unplaced_problem;

/// The driver's properties of an A100.
inline constexpr cuda::Gpu kAmpere{.architecture = 80,
                                   .runs_wgmma = false,
                                   .smem_bytes = 167936,
                                   .smem_bytes_a_block = 166912};

/// The name of the kernel that runs it on `gpu`.
std::string chosen_kernel(const cuda::ConvProblem& problem, const cuda::Gpu& gpu);

}  // namespace adjoint::testing
#endif
