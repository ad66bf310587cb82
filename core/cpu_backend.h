// Whose code computes convolutions, and large matrix products, on the CPU.
#pragma once

#include <adjoint/core/export.h>

#include <cstdint>

namespace adjoint {

enum class CpuBackend : std::uint8_t {
  kVector,  ///< Loops that are compiled for each instruction set of x86-64: fast. The default there.
  kEigen,   ///< Eigen, over strided maps (ops/conv/cpu/eigen.cpp): short, on any processor. The default elsewhere.
};

/// Of this thread.
ADJOINT_API CpuBackend cpu_backend();

/// Sets the backend of this thread while it lives.
class ADJOINT_API CpuBackendGuard {
 public:
  /// Throws Error for a value that is none of these.
  explicit CpuBackendGuard(CpuBackend backend);
  ~CpuBackendGuard();
  CpuBackendGuard(const CpuBackendGuard&) = delete;
  CpuBackendGuard& operator=(const CpuBackendGuard&) = delete;

 private:
  CpuBackend before_;
};

}  // namespace adjoint
