// Launches the pipeline's kernels. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/pipeline/cuda/pipeline.h>
#include <adjoint/ops/conv/pipeline/cuda/few_sources.cuh>
#include <adjoint/ops/conv/pipeline/cuda/kernel.cuh>

#include <algorithm>
#include <cstddef>

namespace adjoint::cuda {

template <Arithmetic kArithmetic, wgmma::Major kFilter, bool kSliced, bool kSkips>
auto pipeline_kernel_in(const PipelinePlan& plan) {
  return plan.columns == 128 ? pipeline::pipeline_kernel<kArithmetic, 128, kFilter, kSliced, kSkips>
                             : pipeline::pipeline_kernel<kArithmetic, 64, kFilter, kSliced, kSkips>;
}
template <Arithmetic kArithmetic, wgmma::Major kFilter>
auto pipeline_kernel_of(const PipelinePlan& plan) {
  return plan.slices > 1 ? pipeline_kernel_in<kArithmetic, kFilter, true, false>(plan)
         : plan.skips    ? pipeline_kernel_in<kArithmetic, kFilter, false, true>(plan)
                         : pipeline_kernel_in<kArithmetic, kFilter, false, false>(plan);
}

template <class T, class Encode>
pipeline::Operands<T> pipeline_operands(const PipelinePlan& plan, const PipelineCall& call, DType dtype,
                                        const Encode& encode) {
  pipeline::Operands<T> operands{.source = {},
                                 .result = {},
                                 .filter =
                                     encode(pipeline_filter_layout(plan, call.results_innermost, call.filter, dtype)),
                                 .bias = static_cast<const T*>(call.bias),
                                 .activate = Activate<float>(call.activation)};
  for (int phase = 0; phase < plan.source.phases(); ++phase) {
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
  auto kernel = pipeline_kernel_of<kArithmetic, wgmma::Major::kK>(plan);
  if constexpr (kArithmetic != Arithmetic::kTF32) {
    if (call.results_innermost) kernel = pipeline_kernel_of<kArithmetic, wgmma::Major::kMN>(plan);
  }
  const DeviceGuard guard(device);
  const auto smem_bytes = static_cast<std::size_t>(plan.smem_bytes());
  allow_smem(kernel, smem_bytes);
  const int blocks = plan.slices > 1 ? plan.tiles * plan.slices : std::min(plan.tiles, multiprocessor_count(device));
  launch_early(kernel, {dim3(static_cast<unsigned>(blocks)), dim3(kPipelineThreads), smem_bytes}, plan.slices, device,
               plan, pipeline_operands<T>(plan, call, kPipelineDType<kArithmetic>, encode_tensor_map));
}

template <Arithmetic kArithmetic>
void run_few_sources_in(const FewSourcesPlan& plan, const PipelineCall& call, int device) {
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  const few_sources::Operands<T> operands{static_cast<const T*>(call.source), static_cast<const T*>(call.filter),
                                          static_cast<const T*>(call.bias), static_cast<T*>(call.result),
                                          Activate<float>(call.activation)};
  const auto kernel = few_sources::few_sources_kernel<kArithmetic>;
  const DeviceGuard guard(device);
  const auto smem_bytes = static_cast<std::size_t>(plan.smem_bytes(sizeof(T)));
  allow_smem(kernel, smem_bytes);
  constexpr int kBlocksOfMultiprocessor = 2;
  const int columns = plan.result_blocks(), most = kBlocksOfMultiprocessor * multiprocessor_count(device) / columns;
  const int blocks = std::min((plan.tiles() + kFewSourcesWarps - 1) / kFewSourcesWarps, std::max(most, 1));
  launch_early(kernel,
               {dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(columns)), dim3(kFewSourcesThreads),
                smem_bytes},
               1, device, plan, operands);
}

}  // namespace adjoint::cuda
