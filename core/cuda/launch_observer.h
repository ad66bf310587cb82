// For tests that check which kernels ran.
#pragma once

#include <adjoint/core/base/export.h>

namespace adjoint::cuda {

/// Gets the driver's handle (CUfunction) of a kernel after its launch, on the launching thread.
using LaunchObserver = void (*)(void* function);

/// Calls `observer` after every successful launch() of the process from now on; null for no observer.
ADJOINT_API void observe_launches(LaunchObserver observer);

}  // namespace adjoint::cuda
