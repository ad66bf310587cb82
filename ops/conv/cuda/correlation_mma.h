// conv and conv_transpose on tensor cores by mma.sync, sm_80 and later: float32 (three tf32 products), TF32, bfloat16,
// float16. Values that are not finite spread as correlation.h says.
#pragma once

#include <adjoint/ops/conv/cuda/correlation.h>

#include <cstdint>

namespace adjoint::cuda {

extern const ConvKernel mma_conv;
extern const ConvKernel mma_conv_transpose;

/// What plans are made for: sm_80 and what has as much shared memory or more; sm_86, sm_89 and sm_120.
inline constexpr CorrelationLimits kMmaLimits{164 * 1024, 128};
inline constexpr CorrelationLimits kSmallMmaLimits{100 * 1024, 128};

/// Packs the filter into a workspace, then computes, on the device's current stream. One translation unit each.
template <Arithmetic kArithmetic>
void run_correlation_mma(const CorrelationPlan& plan, const ConvProblem& problem);

}  // namespace adjoint::cuda
