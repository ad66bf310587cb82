#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/cuda/sliced.h>
#include <adjoint/ops/conv/cuda/add_slices.cuh>

namespace adjoint::cuda {
namespace {

template <class T>
void add(const ConvProblem& problem, const float* partial, int slices) {
  const sliced::Addition<T> addition = sliced::addition_of<T>(problem, partial, slices);
  const auto blocks = static_cast<unsigned>(sliced::addition_blocks(addition));
  launch_early(addition.vector == 1 ? sliced::add_slices_kernel<1, T>
                                    : sliced::add_slices_kernel<sliced::kAddVector, T>,
               {dim3(blocks), dim3(sliced::kAddThreads)}, 1, problem.device, addition);
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
