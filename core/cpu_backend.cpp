#include <adjoint/core/cpu_backend.h>

#include <adjoint/core/check.h>

namespace adjoint {
namespace {

#if defined(__x86_64__)
constexpr CpuBackend kDefault = CpuBackend::kVector;
#else
constexpr CpuBackend kDefault = CpuBackend::kEigen;
#endif

thread_local CpuBackend current = kDefault;

}  // namespace

CpuBackend cpu_backend() { return current; }

CpuBackendGuard::CpuBackendGuard(CpuBackend backend) : before_(current) {
  check_enumerator("CpuBackendGuard", "CpuBackend", backend, CpuBackend::kEigen);
  current = backend;
}
CpuBackendGuard::~CpuBackendGuard() { current = before_; }

}  // namespace adjoint
