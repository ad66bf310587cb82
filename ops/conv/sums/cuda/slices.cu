#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/sums/cuda/slices.h>
#include <adjoint/ops/conv/sums/cuda/slices.cuh>

namespace adjoint::cuda {
namespace {

template <class T>
void add(const ConvProblem& problem, const float* partial, int slices) {
  const sliced::Addition<T> addition = sliced::addition_of<T>(problem, partial, slices);
  const auto kernel =
      addition.vector == 1 ? sliced::add_slices_kernel<1, T> : sliced::add_slices_kernel<sliced::kAddVector, T>;
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(sliced::addition_blocks(addition))),
                                dim3(sliced::kAddThreads)};
  if (runs_wgmma(problem.device)) {
    launch_early(kernel, geometry, 1, problem.device, addition);
  } else {
    launch(kernel, geometry, problem.device, addition);
  }
}

}  // namespace

void add_slices(const ConvProblem& problem, const float* partial, int slices) {
  switch (problem.dtype) {
    case kBFloat16: return add<FloatElement<kBFloat16>>(problem, partial, slices);
    case kFloat16: return add<FloatElement<kFloat16>>(problem, partial, slices);
    default: return add<float>(problem, partial, slices);
  }
}

}  // namespace adjoint::cuda
