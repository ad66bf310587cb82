#ifdef ADJOINT_WITH_CUDA
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/tests/support/conv_choices.h>

namespace adjoint::testing {

std::string chosen_kernel(const cuda::ConvProblem& problem, const cuda::Gpu& gpu) {
  const cuda::PretendGpu pretend(gpu);
  return cuda::best_conv_kernel(problem).name;
}

}  // namespace adjoint::testing
#endif
