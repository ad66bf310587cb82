// Launches the pipeline's kernels. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/pipeline/cuda/pipeline.h>
#include <adjoint/ops/conv/pipeline/cuda/kernel.cuh>

#include <algorithm>
#include <cstddef>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
auto pipeline_kernel_of(const PipelinePlan& plan) {
  return plan.columns == 128 ? pipeline::pipeline_kernel<kArithmetic, 128> : pipeline::pipeline_kernel<kArithmetic, 64>;
}

template <class T, class Encode>
pipeline::Operands<T> pipeline_operands(const PipelinePlan& plan, const PipelineCall& call, DType dtype,
                                        const Encode& encode) {
  pipeline::Operands<T> operands{.source = {},
                                 .result = {},
                                 .filter = encode(pipeline_filter_layout(plan, call.filter, dtype)),
                                 .bias = static_cast<const T*>(call.bias),
                                 .activate = Activate<float>(call.activation)};
  for (int i = 0; i < plan.boxes; ++i) {
    const int phase = plan.box_list[i].phase;
    operands.source[phase] = encode(pipeline_source_layout(plan, phase, call.source, dtype));
  }
  for (int phase = 0; phase < plan.result.phases(); ++phase) {
    operands.result[phase] = encode(pipeline_result_layout(plan, phase, call.result, dtype));
  }
  return operands;
}

template <Arithmetic kArithmetic>
void run_pipeline_in(const PipelinePlan& plan, const PipelineCall& call, int device) {
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  constexpr DType kDType = kArithmetic == Arithmetic::kBFloat16  ? kBFloat16
                           : kArithmetic == Arithmetic::kFloat16 ? kFloat16
                                                                 : kFloat32;
  const auto kernel = pipeline_kernel_of<kArithmetic>(plan);
  const DeviceGuard guard(device);
  const auto smem_bytes = static_cast<std::size_t>(plan.smem_bytes());
  allow_smem(kernel, smem_bytes);
  const auto blocks = static_cast<unsigned>(std::min(plan.tiles, multiprocessor_count(device)));
  launch_early(kernel, {dim3(blocks), dim3(kPipelineThreads), smem_bytes}, 1, device, plan,
               pipeline_operands<T>(plan, call, kDType, encode_tensor_map));
}

}  // namespace adjoint::cuda
