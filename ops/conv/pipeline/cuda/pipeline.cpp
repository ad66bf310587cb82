// Calls the pipeline's kernel for an arithmetic; each has its own translation unit.
#include <adjoint/ops/conv/pipeline/cuda/pipeline.h>

#include <adjoint/core/base/check.h>

namespace adjoint::cuda {

void run_pipeline(const PipelinePlan& plan, Arithmetic arithmetic, const PipelineCall& call, int device) {
  switch (arithmetic) {
    case Arithmetic::kBFloat16: return run_pipeline_in<Arithmetic::kBFloat16>(plan, call, device);
    case Arithmetic::kFloat16: return run_pipeline_in<Arithmetic::kFloat16>(plan, call, device);
    case Arithmetic::kTF32: return run_pipeline_in<Arithmetic::kTF32>(plan, call, device);
    case Arithmetic::kFloat32: break;
  }
  ADJOINT_ASSERT(false, "float32 has no pipeline");
}

void run_pipeline_weight(const PipelineWeightPlan& plan, Arithmetic arithmetic, const PipelineWeightCall& call,
                         int device) {
  ADJOINT_ASSERT(element_bytes(arithmetic) == 2, "the pipeline's weight gradient is of halves");
  arithmetic == Arithmetic::kBFloat16 ? run_pipeline_weight_in<Arithmetic::kBFloat16>(plan, call, device)
                                      : run_pipeline_weight_in<Arithmetic::kFloat16>(plan, call, device);
}

}  // namespace adjoint::cuda
