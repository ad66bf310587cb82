// Launches the kernel for few results a position. Each dtype is one translation unit.
#pragma once

#include <adjoint/ops/conv/line/narrow/cuda/narrow.h>
#include <adjoint/ops/conv/line/cuda/launch.cuh>
#include <adjoint/ops/conv/line/narrow/cuda/kernel.cuh>

namespace adjoint::cuda {

template <DType kDType>
void run_narrow(const NarrowPlan& plan, const ConvProblem& problem) {
  using T = FloatElement<kDType>;
  launch_line(narrow::select<T>(plan), plan, plan.blocks(), kNarrowThreads, problem.device,
              line_operands<T>(plan, problem));
}

}  // namespace adjoint::cuda
