// For tests that ask which kernels ran.
#pragma once

#include <adjoint/core/export.h>

namespace adjoint::cuda {

/// Gets the driver's handle (CUfunction) of a kernel that was launched just now, on the thread that launched it.
using LaunchObserver = void (*)(void* function);

/// Calls `observer` after every successful launch() of the process from here on; null for none.
ADJOINT_API void observe_launches(LaunchObserver observer);

}  // namespace adjoint::cuda
