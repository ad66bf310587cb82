// The instruction set of the CPU's inner kernels. Internal: operators choose among objects compiled for each.
#pragma once

#include <adjoint/core/base/export.h>

namespace adjoint {

/// In order: each includes those before it. kBaseline is the common subset of x86-64 (SSE2).
enum class CpuIsa { kBaseline, kAvx2, kAvx512 };

/// The best that this CPU has, or the one that ADJOINT_CPU_ISA names (baseline, avx2 or avx512). Results of different
/// instruction sets differ only by rounding; those of one set never differ. Throws Error, when called, for an unknown
/// name or one that this CPU does not have.
ADJOINT_API CpuIsa cpu_isa();
/// The best that this CPU has.
ADJOINT_API CpuIsa best_cpu_isa();

/// Overrides cpu_isa() while it lives: for tests and benchmarks. Not for use while other threads run operators.
class ADJOINT_API CpuIsaGuard {
 public:
  /// Throws Error if this CPU does not have `isa`.
  explicit CpuIsaGuard(CpuIsa isa);
  ~CpuIsaGuard();
  CpuIsaGuard(const CpuIsaGuard&) = delete;
  CpuIsaGuard& operator=(const CpuIsaGuard&) = delete;

 private:
  CpuIsa before_;
};

}  // namespace adjoint
