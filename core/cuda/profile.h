// The functions that a Profiler needs from CUDA.
#pragma once

#include <adjoint/core/profile/device_timer.h>
#include <adjoint/core/tensor/dtype.h>

#include <memory>

namespace adjoint::cuda {

/// Times calls by events before and after the work that they submit to their stream.
std::shared_ptr<DeviceTimer> make_event_timer();

/// Waits for all work of the device.
void wait_for_device(int device);

/// Ranges of this thread for NVIDIA's tools.
void push_range(const char* name);
void pop_range();

/// From the memory's clock and width, in both directions together.
double peak_bytes_per_second(int device);
/// For dense products in a dtype, on tensor cores if they support it, at the highest clock that the device reports. 0
/// for architectures outside the table.
double peak_flop_per_second(int device, DType dtype, bool tf32);

}  // namespace adjoint::cuda
