#include <adjoint/ops/conv/choose/cuda/channels_last.h>

#include <adjoint/core/copy.h>
#include <adjoint/core/tensor.h>
#include <adjoint/ops/conv/base/cuda/filter_space.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/pipeline/cuda/pipeline.h>

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

/// Null if no plan exists or copies are faster.
const PipelinePlan* plan_of(const ConvProblem& problem) {
  return keep_plan<PipelinePlan>(problem, [&](PipelinePlan& plan) {
    const PipelineGeometry geometry = pipeline_geometry(problem.geometry, problem.role == ConvRole::kImage);
    if (!plan_pipeline(geometry, arithmetic_of(problem), problem.machine, plan)) return false;
    const double clocks = pipeline_clocks(plan, problem.machine);
    return clocks / kClocksPerMicrosecond + kLaunchMicroseconds < microseconds_by_copies(problem);
  });
}

/// The contiguous filter (Cf, Ci, taps) as (results, taps, source's channels).
void put_in_order(const ConvProblem& problem, void* to) {
  const ConvGeometry& g = problem.geometry;
  const TensorOptions options{.dtype = problem.dtype, .device = Device(DeviceType::kCUDA, problem.device)};
  const Tensor filter = Tensor::from_blob(const_cast<void*>(problem.second),
                                          {g.feature_channels, g.image_channels, g.taps()}, options);
  const Tensor ordered = filter.permute(problem.role == ConvRole::kImage ? Dims{1, 2, 0} : Dims{0, 2, 1});
  Tensor copy = Tensor::from_blob(to, ordered.shape(), options);
  copy_into(ordered, copy);
}

}  // namespace

bool run_channels_last(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  if (problem.dtype == kFloat64 || g.groups != 1 || !runs_wgmma(problem.device)) return false;
  if (!is_aligned(problem.first) || !is_aligned(problem.out)) return false;
  const PipelinePlan* const plan = plan_of(problem);
  if (plan == nullptr) return false;
  const auto bytes = static_cast<std::size_t>(g.filter_numel() * element_size(problem.dtype));
  FilterSpace filter(problem, "channels_last", 0, bytes);
  if (!filter.is_filled()) {
    put_in_order(problem, filter.data());
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

}  // namespace adjoint::cuda
