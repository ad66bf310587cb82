#include <adjoint/core/base/cpu_backend.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/context.h>

namespace adjoint {

CpuBackend cpu_backend() { return detail::context().cpu_backend; }

CpuBackendGuard::CpuBackendGuard(CpuBackend backend) : before_(detail::context().cpu_backend) {
  check_enumerator("CpuBackendGuard", "CpuBackend", backend, CpuBackend::kEigen);
  detail::context().cpu_backend = backend;
}
CpuBackendGuard::~CpuBackendGuard() { detail::context().cpu_backend = before_; }

}  // namespace adjoint
