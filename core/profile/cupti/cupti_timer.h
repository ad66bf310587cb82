// Device times by CUPTI, CUDA's own tracing: each kernel and copy by its name, also in replayed graphs, without extra
// work on the GPU. The component Adjoint::profile.
//
//   adjoint::Profiler profiler({.device_timer = adjoint::cupti_timer()});
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/profile/device_timer.h>

#include <memory>

namespace adjoint {

/// The process's only timer on CUPTI. Profiler throws Error, naming CUPTI's call, if another tool, such as Nsight
/// Systems, already has it or the driver does not let this user trace.
ADJOINT_API std::shared_ptr<DeviceTimer> cupti_timer();

}  // namespace adjoint
