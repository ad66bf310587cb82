// Launches the kernels that treat a convolution as one line of positions.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/line/cuda/line.cuh>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {

template <class T>
line::Operands<T> line_operands(const LinePlan& plan, const ConvProblem& problem) {
  constexpr std::int64_t kSize = sizeof(T);
  return {static_cast<const T*>(problem.first),
          static_cast<const T*>(problem.second),
          static_cast<const T*>(problem.bias),
          static_cast<T*>(problem.out),
          static_cast<T*>(problem.linear),
          Activate<float>(problem.activation),
          rows_aligned(problem.first, plan.w.source * kSize, 16)};
}

template <class Plan, class Operands>
void launch_line(void (*kernel)(Plan, Operands), const Plan& plan, std::int64_t blocks, int threads, int device,
                 const Operands& operands) {
  const DeviceGuard guard(device);
  const auto smem_bytes = static_cast<std::size_t>(plan.smem_bytes());
  allow_smem(kernel, smem_bytes);
  launch(kernel, {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), smem_bytes}, device, plan,
         operands);
}

}  // namespace adjoint::cuda
