// Profiler: measures a program's time by operator, module and shape.
//
//   adjoint::Profiler profiler;
//   for (int step = 0; step < 10; ++step) train_step();
//   std::cout << profiler.table({.rows = 20});
//   profiler.write_trace("trace.json");  // for chrome://tracing or ui.perfetto.dev
//
// A call of an operator counts under its name, the function or gradient that called it, the path of the calling module,
// and the shapes of its operands. Calls from a sweep count for the module of the forward call.
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/profile/device_timer.h>
#include <adjoint/core/profile/profiled_call.h>
#include <adjoint/core/tensor/dtype.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace adjoint {

struct ProfilerOptions {
  /// The largest number of calls in write_trace(), about 32 bytes each; the table counts all calls. 0: no calls.
  std::size_t max_trace_calls = 1'000'000;
  /// Ranges for NVIDIA's tools, named like the rows, in builds with CUDA. They have no effect outside those tools.
  bool nvtx = false;
  /// Times GPUs; null: CUDA events. One timer serves one Profiler at a time.
  std::shared_ptr<DeviceTimer> device_timer = nullptr;
  /// The rates of the floor. 0: for a GPU derived from its properties; for the CPU the measured rate of a copy, and no
  /// FLOP rate, so that the floor counts only bytes.
  double bytes_per_second = 0.0;
  double flop_per_second = 0.0;
};

/// The properties that distinguish rows, besides the device.
struct ProfileGrouping {
  bool by_operator = true;  // and its caller
  bool by_module = true;
  bool by_shape = true;  // and by dtype
};

/// A group of similar calls.
struct ProfileRow {
  std::string op;  // "conv_transpose", or the name of a ProfileScope
  std::string
      caller;  // "linear" for a matmul in it, "conv_transpose2d backward" for a gradient's call; empty if there is none
  std::string
      module;  // "Generator.up.0", starting with the outermost module's type, after scopes: "fake/Generator.up.0"
  std::string
      shapes;  // of the operands, each dtype before the first operand that has it: "float32 (8, 3, 12, 12), (3,)"
  Device device;
  std::int64_t calls = 0;
  double host_seconds = 0.0;       // including inner calls
  double host_self_seconds = 0.0;  // excluding inner calls
  double device_seconds = 0.0;     // of a GPU, excluding inner calls
  double bytes = 0.0;              // moved
  double flop = 0.0;
  /// The least time for the bytes or the FLOP at the options' rates; 0 if unknown.
  double floor_seconds = 0.0;

  /// device_seconds on a GPU if they were measured, else host_self_seconds.
  double seconds() const { return device_seconds > 0.0 || device.is_cuda() ? device_seconds : host_self_seconds; }
  /// floor_seconds / seconds(); above 1 if caches serve bytes that the floor counts for memory.
  double floor_share() const { return seconds() > 0.0 ? floor_seconds / seconds() : 0.0; }
};

struct ProfileTable {
  ProfileGrouping grouping = {};
  std::size_t rows = std::numeric_limits<std::size_t>::max();
};

/// Collects the calls of all threads while it lives, one Profiler per process at a time. It costs a few hundred
/// nanoseconds a call, plus the timer's cost on a GPU; results keep the same bits. Calls during the capture of a CUDA
/// graph, and its replays, have no device time unless the timer is CUPTI's.
class ADJOINT_API Profiler {
 public:
  /// Throws Error while another Profiler collects, and for negative rates.
  explicit Profiler(const ProfilerOptions& options = {});
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Stops collecting and waits for the GPUs. Running calls do not count. The functions below stop first.
  void stop();
  /// Sorted by time, the longest first.
  std::vector<ProfileRow> rows(const ProfileGrouping& grouping = {});
  /// The rows, and a total. Times in milliseconds, bytes in 10^9, FLOP in 10^9.
  std::string table(const ProfileTable& options = {});
  /// A file in Chrome's trace format: calls, modules and scopes by thread, and the GPUs' work by stream. It is written
  /// completely or not at all. Throws Error, naming the path, if it cannot be written.
  void write_trace(const std::filesystem::path& path);
  /// Calls that are in the table but, for lack of room (max_trace_calls), not in the trace.
  std::int64_t untraced_calls();

 private:
  std::shared_ptr<detail::ProfileSession> session_;
};

/// Names a piece of a program: it has its own row, and is the first part of the path of its calls. Costs nothing while
/// no Profiler collects.
class ProfileScope {
 public:
  /// `device`: the device of its row.
  explicit ProfileScope(std::string_view name, Device device = kCPU)
      : call_(detail::ProfiledKind::kScope, name, device) {}
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  detail::ProfiledCall call_;
};

}  // namespace adjoint
