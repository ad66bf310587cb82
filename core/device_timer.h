// What measures the work of GPUs for a Profiler. CUDA events do where nothing else is given; the component
// Adjoint::profile has one on CUPTI (core/cupti/cupti_timer.h).
#pragma once

#include <adjoint/core/device.h>
#include <adjoint/core/export.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace adjoint {

/// What a GPU did between two points of time, on the clock of std::chrono::steady_clock.
struct DeviceSpan {
  std::uint32_t row = 0;  // whose work it was, as it was given to begin()
  std::string name;       // a kernel's or a copy's; empty where the timer sees calls alone
  Device device;
  std::uint64_t stream = 0;
  std::int64_t start_ns = 0, end_ns = 0;
};

struct DeviceTimes {
  /// By row: of what was given to the GPU between its begin() and end(), less what belongs to rows that began inside.
  std::vector<double> seconds;
  /// In no order.
  std::vector<DeviceSpan> spans;
};

/// Several threads begin and end at once; on each thread what begins last ends first.
class ADJOINT_API DeviceTimer {
 public:
  DeviceTimer() = default;
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;
  virtual ~DeviceTimer();

  /// Forgets what was measured, and keeps up to `max_spans` spans from here on; seconds are of everything.
  virtual void start(std::size_t max_spans) = 0;
  /// What this thread gives to a GPU from here on belongs to `row`.
  virtual void begin(std::uint32_t row, Device device) = 0;
  virtual void end() noexcept = 0;
  /// Hands over what was measured. The GPUs have done by then what was given to them.
  virtual DeviceTimes stop() = 0;
};

}  // namespace adjoint
