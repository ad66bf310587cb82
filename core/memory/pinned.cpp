#include <adjoint/core/memory/pinned.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <memory>
#include <utility>

#if defined(ADJOINT_WITH_CUDA)
#include <adjoint/core/cuda/backend.h>
#endif

namespace adjoint {

Tensor empty_pinned(const Shape& shape, DType dtype) {
  const OpScope scope("empty_pinned");
  // A tensor without memory provides shape and strides, and the checks of both.
  Tensor tensor = make_tensor({Shape{0}, dtype}, kCPU);
  TensorImpl& impl = *tensor.impl();
  impl.shape = shape;
  impl.strides = contiguous_strides(shape);
  impl.numel = shape.numel();
  std::int64_t nbytes = 0;
  ADJOINT_CHECK(!__builtin_mul_overflow(impl.numel, element_size(dtype), &nbytes),
                "empty_pinned: the number of bytes must fit in 63 bits; got {} elements of {}", impl.numel, dtype);
  impl.storage = Storage::allocate_pinned(static_cast<std::size_t>(nbytes));
  return tensor;
}

Tensor pin_memory(const Tensor& x) {
  const OpScope scope("pin_memory");
  check_defined("pin_memory", "x", x);
  ADJOINT_CHECK(x.device().is_cpu(), "pin_memory: the tensor must be on the CPU; got shape {} on {}", x.shape(),
                x.device());
  const PauseTape pause;
  if (is_pinned(x) && x.is_contiguous()) return x.detach();
  Tensor pinned = empty_pinned(x.shape(), x.dtype());
  copy_into(x, pinned);
  return pinned;
}

bool is_pinned(const Tensor& x) {
  check_defined("is_pinned", "x", x);
  return x.impl()->storage->pinned();
}

void copy_async(const Tensor& source, Tensor& target) {
  const OpScope scope("copy_async");
  check_defined("copy_async", "source", source);
  check_writable("copy_async", target, {&source, 1});
#if defined(ADJOINT_WITH_CUDA)
  const bool to_device = target.device().is_cuda();
  const Tensor& host = to_device ? source : target;
  const bool fits = source.device().is_cuda() != to_device && host.impl()->storage->pinned() &&
                    source.is_contiguous() && target.is_contiguous() && source.shape() == target.shape() &&
                    source.dtype() == target.dtype();
  if (fits) {
    const auto nbytes = static_cast<std::size_t>(source.numel() * element_size(source.dtype()));
    return cuda::copy_async(target.raw_mutable_data(), source.raw_data(), to_device ? target.device() : source.device(),
                            to_device, host.impl()->storage->data(), nbytes);
  }
#endif
  target.copy_(source);
}

Tensor to_async(const Tensor& x, Device device) {
  const OpScope scope("to_async");
  check_defined("to_async", "x", x);
  const PauseTape pause;
  if (x.device() == device) return x.detach();
  Tensor moved = make_tensor({x.shape(), x.dtype()}, device);
  copy_async(x, moved);
  return moved;
}

std::size_t detail::pinned_bytes_held() {
#if defined(ADJOINT_WITH_CUDA)
  return cuda::pinned_bytes_held();
#else
  return 0;
#endif
}

}  // namespace adjoint
