// conv and conv_transpose on tensor cores by mma.sync, sm_80 and later: float32 (three tf32 products), TF32, bfloat16,
// float16. Non-finite values spread as in correlation.h.
#pragma once

#include <adjoint/ops/conv/correlation/cuda/correlation.h>

#include <cstdint>

namespace adjoint::cuda {

extern const ConvKernel mma_conv;
extern const ConvKernel mma_conv_transpose;

/// The limits for which plans are made: sm_80 and GPUs with at least as much shared memory; sm_86, sm_89 and sm_120.
inline constexpr CorrelationLimits kMmaLimits{164 * 1024, 128, 1};
inline constexpr CorrelationLimits kSmallMmaLimits{100 * 1024, 128, 1, 1};

/// plan_correlation() for these kernels, whose blocks share nothing.
inline bool plan_correlation_mma(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic,
                                 const CorrelationLimits& limits, const Machine& machine, CorrelationPlan& plan) {
  return plan_correlation(geometry, transposed, arithmetic, limits, machine, plan);
}

/// Elements of any row of x that one copy can move: 16 bytes' worth, two, or one.
inline std::int32_t mma_load_vector(const CorrelationPlan& plan, const void* x, std::int64_t element_size) {
  // With a stride, neighbours in a row belong to different planes.
  return plan.in_stride_w == 1 ? row_vector(x, plan.in_w, element_size) : 1;
}

/// Packs the filter into a workspace, then computes, on the device's current stream. One translation unit each.
template <Arithmetic kArithmetic>
void run_correlation_mma(const CorrelationPlan& plan, const ConvProblem& problem);

}  // namespace adjoint::cuda
