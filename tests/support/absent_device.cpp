#include <adjoint/tests/support/absent_device.h>

#include <adjoint/core/tensor/tensor_impl.h>

#include <memory>
#include <utility>

namespace adjoint::testing {

Tensor on_absent_device(const Shape& shape) {
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = std::make_shared<Storage>(nullptr, 0, kCUDA);
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->numel = shape.numel();
  return Tensor(std::move(impl));
}

}  // namespace adjoint::testing
