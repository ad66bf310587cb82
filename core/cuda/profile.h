// What a Profiler asks of CUDA.
#pragma once

#include <adjoint/core/device_timer.h>
#include <adjoint/core/dtype.h>

#include <memory>

namespace adjoint::cuda {

/// Times calls by an event before and one after what they give to their stream.
std::shared_ptr<DeviceTimer> make_event_timer();

/// Waits for everything that was given to the device.
void wait_for_device(int device);

/// Ranges of this thread for NVIDIA's tools.
void push_range(const char* name);
void pop_range();

/// What the memory's clock and width give, in both directions together.
double peak_bytes_per_second(int device);
/// Of dense products in a dtype, on tensor cores where they have it, at the clock that the device says it can reach. 0
/// for architectures that are not in the table.
double peak_flop_per_second(int device, DType dtype, bool tf32);

}  // namespace adjoint::cuda
