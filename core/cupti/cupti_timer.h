// Device times by CUPTI, CUDA's own tracing: each kernel and copy by its name, those of replayed graphs too, without
// work of its own on the GPU. The component Adjoint::profile.
//
//   adjoint::Profiler profiler({.device_timer = adjoint::cupti_timer()});
#pragma once

#include <adjoint/core/device_timer.h>
#include <adjoint/core/export.h>

#include <memory>

namespace adjoint {

/// The process's one timer on CUPTI. Profiler throws Error, naming CUPTI's call, where another tool, such as Nsight
/// Systems, has it already or the driver does not let this user trace.
ADJOINT_API std::shared_ptr<DeviceTimer> cupti_timer();

}  // namespace adjoint
