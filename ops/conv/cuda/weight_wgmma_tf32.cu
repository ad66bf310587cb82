#include <adjoint/ops/conv/cuda/weight_wgmma_launch.cuh>

namespace adjoint::cuda {

template void run_wgmma_weight<Arithmetic::kTF32>(const WeightPlan&, const ConvProblem&);

bool has_wgmma_weight_code(int device) {
  const DeviceGuard guard(device);
  cudaFuncAttributes attributes{};
  ADJOINT_CUDA(cudaFuncGetAttributes(&attributes, weight::wgmma_weight_kernel<Arithmetic::kTF32, 2, 128>));
  return attributes.binaryVersion == 90;
}

}  // namespace adjoint::cuda
