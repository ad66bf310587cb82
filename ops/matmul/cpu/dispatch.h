// The inner kernels of the instruction set in use, and their scratch memory.
#pragma once

#include <adjoint/core/base/cpu_isa.h>
#include <adjoint/core/memory/scratch.h>
#include <adjoint/ops/matmul/cpu/kernels.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace adjoint::cpu {

/// Selects the entry of the instruction set in use from a table with one for each.
template <class Table>
const Table& in_use(const Table& baseline, const Table& avx2, const Table& avx512) {
  switch (cpu_isa()) {
    case CpuIsa::kAvx512: return avx512;
    case CpuIsa::kAvx2: return avx2;
    case CpuIsa::kBaseline: break;
  }
  return baseline;
}

template <class T>
const ProductKernels<T>& product_kernels() {
  return in_use(baseline::product_table, avx2::product_table, avx512::product_table).template of<T>();
}

/// Uninitialised memory, aligned to a cache line. Throws OutOfMemoryError.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t bytes);

  std::int64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(storage_);
  }

 private:
  std::shared_ptr<void> owner_;
  void* storage_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// This thread's scratch memory, of at least this size; kept for its next task.
template <class T>
T* thread_scratch(std::int64_t elements) {
  thread_local Buffer buffer;
  const std::int64_t bytes = elements * static_cast<std::int64_t>(sizeof(T));
  if (buffer.bytes() < bytes) {
    const adjoint::detail::ScratchScope none(nullptr);  // it outlives a planned call
    buffer = Buffer(bytes);
  }
  return buffer.as<T>();
}

/// Scratch memory of a loop's tasks, which run on several threads. On the thread of a planned call it is the plan's.
template <class T>
class TaskScratch {
 public:
  explicit TaskScratch(std::int64_t elements) : elements_(elements) {
    if (auto* const planned = adjoint::detail::Scratch::current()) [[unlikely]]
      own_ = static_cast<T*>(planned->allocate(static_cast<std::size_t>(elements) * sizeof(T)));
  }
  T* data() const { return adjoint::detail::Scratch::current() != nullptr ? own_ : thread_scratch<T>(elements_); }

 private:
  std::int64_t elements_;
  T* own_ = nullptr;
};

}  // namespace adjoint::cpu
