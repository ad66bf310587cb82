// What test_dlpack.py calls through ctypes: tensors of Adjoint's, out and in.
#include <adjoint/core/dlpack.h>
#include <adjoint/core/tensor.h>

#include <cstdint>
#include <memory>

using adjoint::Tensor;

extern "C" {

/// 0, 1, 2, ... as rows of a transposed matrix, of the dtype in this place of the enumeration.
adjoint::dlpack::ManagedTensor* bridge_make(int dtype) {
  const Tensor x = Tensor::arange(0, 6, 1, {.dtype = static_cast<adjoint::DType>(dtype)}).reshape({2, 3});
  return adjoint::to_dlpack(x.permute({1, 0}));
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
