// Launches the tensor-core kernel of conv_weight that reads copies in channel blocks. Each arithmetic is one
// translation unit.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/weight/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/weight/cuda/blocks/kernel.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
void run_blocked_weight(const BlockedWeightPlan& plan, const ConvProblem& problem, const BlockedWeightSpaces& spaces) {
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  const int device = problem.device;
  const blocked_weight::Copies copies{channel_blocks::copy_grid(plan.image), channel_blocks::copy_grid(plan.feature)};
  launch(blocked_weight::copy_operands_kernel<kArithmetic>,
         {dim3(static_cast<unsigned>(copies.image.blocks + copies.feature.blocks)), dim3(channel_blocks::kCopyThreads)},
         device, plan.image, plan.feature, copies, static_cast<const T*>(problem.first),
         static_cast<const T*>(problem.second), static_cast<uint4*>(spaces.image), static_cast<uint4*>(spaces.feature));
  const auto kernel = blocked_weight::blocked_weight_kernel<kArithmetic>;
  const auto smem_bytes = static_cast<std::size_t>(plan.smem_bytes());
  const int blocks = std::min(multiprocessor_count(device), static_cast<int>(plan.tiles()));
  const DeviceGuard guard(device);
  allow_smem(kernel, smem_bytes);
  const blocked_weight::Maps maps = blocked_weight::maps_of(plan, spaces.image, spaces.feature, encode_tensor_map);
  launch_early(kernel, {dim3(static_cast<unsigned>(blocks)), dim3(blocked_weight::kThreads), smem_bytes}, 1, device,
               plan, maps.rows, maps.columns, spaces.sums);
}

}  // namespace adjoint::cuda
