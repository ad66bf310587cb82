// The timers of GPU work for a Profiler. CUDA events are the default; the component Adjoint::profile has one on CUPTI
// (core/profile/cupti/cupti_timer.h).
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/base/export.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace adjoint {

/// The GPU's work between two points of time, on the clock of std::chrono::steady_clock.
struct DeviceSpan {
  std::uint32_t row = 0;  // the row passed to begin()
  std::string name;       // of a kernel or a copy; empty if the timer sees only calls
  Device device;
  std::uint64_t stream = 0;
  std::int64_t start_ns = 0, end_ns = 0;
};

struct DeviceTimes {
  /// By row: the time of the work submitted between its begin() and end(), minus that of rows that began inside.
  std::vector<double> seconds;
  /// In any order.
  std::vector<DeviceSpan> spans;
};

/// Several threads may begin and end concurrently; on each thread the last to begin ends first.
class ADJOINT_API DeviceTimer {
 public:
  DeviceTimer() = default;
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;
  virtual ~DeviceTimer();

  /// Drops earlier measurements, and keeps up to `max_spans` spans from here on; seconds cover everything.
  virtual void start(std::size_t max_spans) = 0;
  /// GPU work that this thread submits from now on counts for `row`.
  virtual void begin(std::uint32_t row, Device device) = 0;
  virtual void end() noexcept = 0;
  /// Returns the measurements. The GPUs must have finished all work by then.
  virtual DeviceTimes stop() = 0;
};

}  // namespace adjoint
