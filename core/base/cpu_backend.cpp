#include <adjoint/core/base/cpu_backend.h>

#include <adjoint/core/base/check.h>

namespace adjoint {
namespace {

#if defined(__x86_64__)
constexpr CpuBackend kDefault = CpuBackend::kVector;
#else
constexpr CpuBackend kDefault = CpuBackend::kEigen;
#endif

thread_local CpuBackend current_backend = kDefault;

}  // namespace

CpuBackend cpu_backend() { return current_backend; }

CpuBackendGuard::CpuBackendGuard(CpuBackend backend) : before_(current_backend) {
  check_enumerator("CpuBackendGuard", "CpuBackend", backend, CpuBackend::kEigen);
  current_backend = backend;
}
CpuBackendGuard::~CpuBackendGuard() { current_backend = before_; }

}  // namespace adjoint
