// Launches the kernels for few products a result. Each dtype is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/short_sums/cuda/short_sums.h>
#include <adjoint/ops/conv/short_sums/cuda/kernel.cuh>

#include <cstddef>

namespace adjoint::cuda {

template <DType kDType>
void run_short_sums(const ShortSumsPlan& plan, const ConvProblem& problem) {
  using T = FloatElement<kDType>;
  launch(short_sums::select_kernel<T>(plan),
         {dim3(static_cast<unsigned>(plan.blocks())), dim3(kShortThreads), static_cast<std::size_t>(plan.smem_bytes())},
         problem.device, plan, short_sums::operands_of<T>(plan, problem));
}

}  // namespace adjoint::cuda
