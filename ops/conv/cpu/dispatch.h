// The table of inner kernels for the instruction set in use, and the scratch memory they work in.
#pragma once

#include <adjoint/core/cpu_isa.h>
#include <adjoint/ops/conv/cpu/kernels.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace adjoint::cpu {

template <class T>
const Kernels<T>& kernels() {
  constexpr bool is_float = std::is_same_v<T, float>;
  static_assert(is_float || std::is_same_v<T, double>);
  const auto pick = [](const Kernels<float>& f32, const Kernels<double>& f64) -> const Kernels<T>& {
    if constexpr (is_float) {
      return f32;
    } else {
      return f64;
    }
  };
#if defined(__x86_64__)
  switch (cpu_isa()) {
    case CpuIsa::kAvx512: return pick(avx512::float_kernels, avx512::double_kernels);
    case CpuIsa::kAvx2: return pick(avx2::float_kernels, avx2::double_kernels);
    default: break;
  }
#endif
  return pick(baseline::float_kernels, baseline::double_kernels);
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

/// This thread's own scratch memory, at least so large; kept for its next task.
template <class T>
T* thread_scratch(std::int64_t elements) {
  thread_local Buffer buffer;
  const std::int64_t bytes = elements * static_cast<std::int64_t>(sizeof(T));
  if (buffer.bytes() < bytes) buffer = Buffer(bytes);
  return buffer.as<T>();
}

}  // namespace adjoint::cpu
