#include <adjoint/ops/matmul/cpu/dispatch.h>

#include <adjoint/core/tensor/storage.h>

namespace adjoint::cpu {

Buffer::Buffer(std::int64_t bytes) : bytes_(bytes) {
  const auto storage = Storage::allocate(static_cast<std::size_t>(bytes), kCPU);
  storage_ = storage->data();
  owner_ = storage;
}

}  // namespace adjoint::cpu
