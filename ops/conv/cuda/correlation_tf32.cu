#include <adjoint/ops/conv/cuda/correlation_launch.cuh>

namespace adjoint::cuda {

template void pack_correlation_filter<Arithmetic::kTF32>(const CorrelationPlan&, const void*, void*, int);
template void run_correlation<Arithmetic::kTF32>(const CorrelationPlan&, CorrelationOperands, const void*, int);

bool has_correlation_code(int device) {
  const DeviceGuard guard(device);
  cudaFuncAttributes attributes{};
  ADJOINT_CUDA(
      cudaFuncGetAttributes(&attributes,
                            correlation::correlation_kernel<Arithmetic::kTF32, 128, false, true, false, 2, 2, 1>));
  return attributes.binaryVersion == 90;
}

}  // namespace adjoint::cuda
