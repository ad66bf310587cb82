// The functions that launches of convolution's kernels call, on the emulator, as in core.cpp.
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/tests/support/emulation/tensor_map.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/sums/cuda/slices.cu>
#include <adjoint/ops/conv/sums/cuda/taps.cu>

namespace adjoint::cuda {

Gpu gpu_of(int /*device*/) {
  return {.architecture = 90, .runs_wgmma = true, .smem_bytes = 228 * 1024, .smem_bytes_a_block = 227 * 1024};
}

TensorMap encode_tensor_map(const TensorMapLayout& layout) { return emulation::encode_tensor_map(layout); }

}  // namespace adjoint::cuda
