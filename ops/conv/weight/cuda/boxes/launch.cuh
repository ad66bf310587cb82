// Launches the kernel of conv_weight whose stages the copy engine brings. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>
#include <adjoint/ops/conv/weight/cuda/boxes/select.cuh>
#include <adjoint/ops/conv/weight/cuda/splits_launch.cuh>

#include <cstdint>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
void run_boxes_weight(const WeightPlan& plan, const ConvProblem& problem, const WeightOrder& order) {
  using T = weight::Element<kArithmetic>;
  constexpr bool kSplit = ArithmeticTraits<kArithmetic>::kSplit;
  const Workspace partial(static_cast<std::size_t>(weight_workspace_bytes(plan)), problem.device);
  const auto is_aligned = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; };
  weight::BoxOperands operands{.image_maps = {},
                               .feature_map = {},
                               .image = problem.first,
                               .feature = problem.second,
                               .partial = static_cast<float*>(partial.data()),
                               .aligned = is_aligned(problem.first) && is_aligned(problem.second)};
  if (operands.aligned) {
    for (std::int32_t residue = 0; residue < plan.residues; ++residue) {
      operands.image_maps[residue] =
          encode_tensor_map(weight_image_layout(plan, problem.first, problem.dtype, kSplit, residue));
    }
    operands.feature_map = encode_tensor_map(weight_feature_layout(plan, problem.second, problem.dtype, kSplit));
  }
  const auto kernel = weight::select_tile<weight::BoxesFamily, kArithmetic>(plan);
  const auto smem_bytes = static_cast<std::size_t>(wgmma_weight_smem_bytes(plan, kSplit));
  const DeviceGuard guard(problem.device);
  allow_smem(kernel, smem_bytes);
  launch_early(kernel,
               {dim3(static_cast<unsigned>(plan.blocks_per_split() * plan.splits)), dim3(weight::kBoxesThreads),
                smem_bytes},
               1, problem.device, plan, operands);
  weight::add_splits(plan, static_cast<const float*>(partial.data()), static_cast<T*>(problem.out), problem.device,
                     true, order);
}

}  // namespace adjoint::cuda
