// Which CUDA kernel the library chooses, asked without a GPU.
#pragma once

#ifdef ADJOINT_WITH_CUDA
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/tests/support/conv_mode.h>

#include <string>

namespace adjoint::testing {

/// What the driver says of an H100 and an H200, and of an A100.
inline constexpr cuda::Gpu kHopper{.architecture = 90,
                                   .runs_wgmma = true,
                                   .smem_bytes = 233472,
                                   .smem_bytes_a_block = 232448};
inline constexpr cuda::Gpu kAmpere{.architecture = 80,
                                   .runs_wgmma = false,
                                   .smem_bytes = 167936,
                                   .smem_bytes_a_block = 166912};

/// A call without bias, in the form in which kernels get it, whose operands begin at multiples of 16 bytes.
cuda::ConvProblem unplaced_problem(cuda::ConvRole role, const ConvGeometry& geometry, const ConvMode& mode);

/// The name of the kernel that runs it on `gpu`.
std::string chosen_kernel(const cuda::ConvProblem& problem, const cuda::Gpu& gpu);

}  // namespace adjoint::testing
#endif
