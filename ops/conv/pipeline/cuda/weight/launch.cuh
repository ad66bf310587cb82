// Launches the pipeline's kernels of conv_weight. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/pipeline/cuda/pipeline.h>
#include <adjoint/ops/conv/pipeline/cuda/weight/kernel.cuh>

#include <algorithm>
#include <cstddef>

namespace adjoint::cuda {

template <Arithmetic kArithmetic, int kTaps, int kSharedRows = 0>
auto pipeline_weight_kernel_of(const PipelineWeightPlan& plan) {
  const auto narrow = pipeline_weight::pipeline_weight_kernel<kArithmetic, 3, 64, kTaps, kSharedRows>;
  if constexpr (kArithmetic == Arithmetic::kTF32 && kTaps == 3) {
    return narrow;  // the only form that is planned
  } else {
    return plan.columns == 128 ? pipeline_weight::pipeline_weight_kernel<kArithmetic, 2, 128, kTaps, kSharedRows>
                               : narrow;
  }
}

template <class Encode>
pipeline_weight::Operands pipeline_weight_operands(const PipelineWeightPlan& plan, const PipelineWeightCall& call,
                                                   DType dtype, const Encode& encode) {
  pipeline_weight::Operands operands{.image = {},
                                     .feature = encode(weight_feature_layout(plan, call.feature, dtype)),
                                     .sums = call.sums};
  for (std::uint32_t i = 0; i < plan.sets_divider.divisor(); ++i) {
    const int phase = plan.set_list[i].box.phase;
    operands.image[phase] = encode(weight_image_layout(plan, phase, call.image, dtype));
  }
  return operands;
}

template <Arithmetic kArithmetic>
void run_pipeline_weight_in(const PipelineWeightPlan& plan, const PipelineWeightCall& call, int device) {
  auto kernel = plan.team_taps == 1   ? pipeline_weight_kernel_of<kArithmetic, 1>(plan)
                : plan.team_taps == 2 ? pipeline_weight_kernel_of<kArithmetic, 2>(plan)
                                      : pipeline_weight_kernel_of<kArithmetic, 3>(plan);
  if constexpr (kArithmetic == Arithmetic::kTF32) {
    if (plan.shares_rows) {
      kernel = plan.strip_rows == 8 ? pipeline_weight_kernel_of<kArithmetic, kRowTaps, 8>(plan)
                                    : pipeline_weight_kernel_of<kArithmetic, kRowTaps, 4>(plan);
    }
  }
  const DeviceGuard guard(device);
  const auto smem_bytes = static_cast<std::size_t>(plan.smem_bytes());
  allow_smem(kernel, smem_bytes);
  const auto blocks = static_cast<unsigned>(std::min(plan.tiles, multiprocessor_count(device)));
  const auto threads = static_cast<unsigned>((plan.teams + 1) * pipeline_weight::kTeam);
  launch_early(kernel, {dim3(blocks), dim3(threads), smem_bytes}, 1, device, plan,
               pipeline_weight_operands(plan, call, kPipelineDType<kArithmetic>, encode_tensor_map));
}

}  // namespace adjoint::cuda
