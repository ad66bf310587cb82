// Calls the pipeline's kernels for an arithmetic; each has its own translation unit.
#include <adjoint/ops/conv/pipeline/cuda/pipeline.h>

#include <adjoint/core/base/check.h>

namespace adjoint::cuda {

namespace {

/// run.operator()<kArithmetic>()
template <class Run>
void in_arithmetic(Arithmetic arithmetic, const Run& run) {
  switch (arithmetic) {
    case Arithmetic::kBFloat16: return run.template operator()<Arithmetic::kBFloat16>();
    case Arithmetic::kFloat16: return run.template operator()<Arithmetic::kFloat16>();
    case Arithmetic::kTF32: return run.template operator()<Arithmetic::kTF32>();
    case Arithmetic::kFloat32: break;
  }
  ADJOINT_ASSERT(false, "float32 has no pipeline");
}

}  // namespace

void run_pipeline(const PipelinePlan& plan, Arithmetic arithmetic, const PipelineCall& call, int device) {
  in_arithmetic(arithmetic, [&]<Arithmetic kIn>() { run_pipeline_in<kIn>(plan, call, device); });
}

void run_few_sources(const FewSourcesPlan& plan, Arithmetic arithmetic, const PipelineCall& call, int device) {
  in_arithmetic(arithmetic, [&]<Arithmetic kIn>() { run_few_sources_in<kIn>(plan, call, device); });
}

void run_pipeline_weight(const PipelineWeightPlan& plan, Arithmetic arithmetic, const PipelineWeightCall& call,
                         int device) {
  in_arithmetic(arithmetic, [&]<Arithmetic kIn>() { run_pipeline_weight_in<kIn>(plan, call, device); });
}

}  // namespace adjoint::cuda
