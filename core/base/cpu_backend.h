// The code that computes convolutions, and large matrix products, on the CPU.
#pragma once

#include <adjoint/core/base/export.h>

#include <cstdint>

namespace adjoint {

enum class CpuBackend : std::uint8_t {
  kVector,  ///< Loops that are compiled for each instruction set of x86-64: fast. The default on x86-64.
  kEigen,   ///< Eigen, over strided maps (ops/conv/cpu/eigen.cpp): short, on any processor. The default elsewhere.
};

/// This thread's backend.
ADJOINT_API CpuBackend cpu_backend();

/// Sets the backend of this thread while it lives.
class ADJOINT_API CpuBackendGuard {
 public:
  /// Throws Error for a value outside the enumeration.
  explicit CpuBackendGuard(CpuBackend backend);
  ~CpuBackendGuard();
  CpuBackendGuard(const CpuBackendGuard&) = delete;
  CpuBackendGuard& operator=(const CpuBackendGuard&) = delete;

 private:
  CpuBackend before_;
};

}  // namespace adjoint
