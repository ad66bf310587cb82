#include <adjoint/ops/conv/choose/cuda/channels_last.h>

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/filter_space.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/pipeline/cuda/pipeline.h>
#include <adjoint/ops/conv/sums/cuda/taps.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr std::uintptr_t kAlignment = 16;  // of the copy engine's addresses
constexpr double kLaunchMicroseconds = 3;

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0; }

/// Image and feature copied to the other order, one before the fastest kernel and one after it.
double microseconds_by_copies(ConvProblem problem) {
  ConvGeometry& g = problem.geometry;
  g = simplified(g, problem.role == ConvRole::kImage && problem.bias != nullptr);
  const auto moved = static_cast<double>(2 * (g.image_numel() + g.feature_numel()) * element_size(problem.dtype));
  return conv_kernel_microseconds(best_conv_kernel(problem), problem) + 2 * kLaunchMicroseconds +
         moved / kBytesPerMicrosecond;
}

bool is_faster(double clocks, const ConvProblem& problem) {
  return clocks / kClocksPerMicrosecond + kLaunchMicroseconds < microseconds_by_copies(problem);
}

bool run_result(const ConvProblem& problem) {
  const auto* const plan = keep_plan<PipelinePlan>(problem, [&](PipelinePlan& made) {
    const PipelineGeometry geometry = pipeline_geometry(problem.geometry, problem.role == ConvRole::kImage);
    return plan_pipeline(geometry, arithmetic_of(problem), problem.machine, made) &&
           is_faster(pipeline_clocks(made, problem.machine), problem);
  });
  if (plan == nullptr) return false;
  const auto bytes = static_cast<std::size_t>(problem.geometry.filter_numel() * element_size(problem.dtype));
  FilterSpace filter(problem, "channels_last", 0, bytes);
  if (!filter.is_filled()) {
    order_pipeline_filter(problem.geometry, problem.role == ConvRole::kImage,
                          static_cast<std::int32_t>(element_size(problem.dtype)), problem.second, filter.data(),
                          problem.device);
    filter.fill();
  }
  run_pipeline(*plan, arithmetic_of(problem),
               {.source = problem.first,
                .filter = filter.data(),
                .bias = problem.bias,
                .result = problem.out,
                .activation = problem.activation},
               problem.device);
  return true;
}

bool run_weight(const ConvProblem& problem) {
  const auto* const plan = keep_plan<PipelineWeightPlan>(problem, [&](PipelineWeightPlan& made) {
    const PipelineGeometry geometry = pipeline_geometry(problem.geometry, false);
    return plan_pipeline_weight(geometry, arithmetic_of(problem), problem.machine, made) &&
           is_faster(pipeline_weight_clocks(made, problem.machine), problem);
  });
  if (plan == nullptr) return false;
  const Workspace sums(static_cast<std::size_t>(plan->sums_bytes()), problem.device);
  run_pipeline_weight(*plan, arithmetic_of(problem),
                      {.image = problem.first, .feature = problem.second, .sums = static_cast<float*>(sums.data())},
                      problem.device);
  gather_taps(plan->gather, problem.dtype, sums.data(), problem.out, problem.device);
  return true;
}

}  // namespace

bool run_channels_last(const ConvProblem& problem) {
  if (problem.dtype == kFloat64 || problem.geometry.groups != 1 || !runs_wgmma(problem.device)) return false;
  const bool is_weight = problem.role == ConvRole::kFilter;
  if (!is_aligned(problem.first) || !is_aligned(is_weight ? problem.second : problem.out)) return false;
  return is_weight ? run_weight(problem) : run_result(problem);
}

}  // namespace adjoint::cuda
