// Functions that test_dlpack.py calls through ctypes: tensors of Adjoint's, out and in.
#include <adjoint/core/base/device.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/tensor/dlpack.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <memory>

using adjoint::Tensor;

extern "C" {

int bridge_has_cuda() { return adjoint::cuda_is_available() ? 1 : 0; }

/// 0, 1, 2, ... as rows of a transposed matrix, of the dtype at this place of the enumeration: on the CPU if `gpu` is
/// negative, otherwise on that GPU, for use on its stream `consumer`.
adjoint::dlpack::ManagedTensor* bridge_make(int dtype, int gpu, CUstream_st* consumer) {
  const adjoint::Device device = gpu < 0 ? adjoint::kCPU : adjoint::Device{adjoint::DeviceType::kCUDA, gpu};
  const Tensor x = Tensor::arange(0, 6, 1, {.dtype = static_cast<adjoint::DType>(dtype), .device = device});
  const Tensor transposed = x.reshape({2, 3}).permute({1, 0});
  if (gpu < 0) return adjoint::to_dlpack(transposed);
  const adjoint::Stream stream = adjoint::Stream::wrap(consumer, device);
  return adjoint::to_dlpack(transposed, &stream);
}

Tensor* bridge_take(adjoint::dlpack::ManagedTensor* managed) {
  return std::make_unique<Tensor>(adjoint::from_dlpack(managed)).release();
}
Tensor* bridge_take_versioned(adjoint::dlpack::ManagedTensorVersioned* managed) {
  return std::make_unique<Tensor>(adjoint::from_dlpack(managed)).release();
}
adjoint::dlpack::ManagedTensorVersioned* bridge_give_versioned(const Tensor* x) {
  return adjoint::to_dlpack_versioned(*x);
}
double bridge_sum(const Tensor* x) { return x->to(adjoint::kFloat64).sum().item<double>(); }
std::int64_t bridge_address(const Tensor* x) { return reinterpret_cast<std::int64_t>(x->raw_data()); }
void bridge_fill(Tensor* x, double value) { x->fill_(value); }
void bridge_release(Tensor* x) { delete x; }

}  // extern "C"
