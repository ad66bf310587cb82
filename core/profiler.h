// Profiler: where a program's time goes, by operator, module and shape.
//
//   adjoint::Profiler profiler;
//   for (int step = 0; step < 10; ++step) train_step();
//   std::cout << profiler.table({.rows = 20});
//   profiler.write_trace("trace.json");  // for chrome://tracing or ui.perfetto.dev
//
// A call of an operator counts under its name, the function or gradient that called it, the path of the module that it
// was called in, and the shapes of its operands. What a sweep calls belongs to the module of the forward call.
#pragma once

#include <adjoint/core/device.h>
#include <adjoint/core/device_timer.h>
#include <adjoint/core/dtype.h>
#include <adjoint/core/export.h>
#include <adjoint/core/profiled_call.h>

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
  /// The calls that write_trace() can tell, about 32 bytes each; the table counts those beyond too. 0: none.
  std::size_t max_trace_calls = 1'000'000;
  /// Ranges for NVIDIA's tools, named as the rows are, in builds with CUDA. Nothing sees them outside those tools.
  bool nvtx = false;
  /// Measures GPUs; null: CUDA events. One timer serves one Profiler at a time.
  std::shared_ptr<DeviceTimer> device_timer = nullptr;
  /// Rates that the floor is computed with. 0: of a GPU what its properties give; of the CPU the rate of a copy, which
  /// is measured, and no rate of computing, so that the floor is of bytes alone.
  double bytes_per_second = 0.0;
  double flop_per_second = 0.0;
};

/// What rows are told apart by, beside the device.
struct ProfileGrouping {
  bool by_operator = true;  // and what called it
  bool by_module = true;
  bool by_shape = true;  // and dtype
};

/// Calls that are alike.
struct ProfileRow {
  std::string op;      // "conv_transpose"; the name of a ProfileScope
  std::string caller;  // "linear" for a matmul in it, "conv_transpose2d backward" for a gradient's; empty for none
  std::string module;  // "Generator.up.0", from the outermost module's type on, behind scopes: "fake/Generator.up.0"
  std::string shapes;  // of the operands, each dtype before the first that has it: "float32 (8, 3, 12, 12), (3,)"
  Device device;
  std::int64_t calls = 0;
  double host_seconds = 0.0;       // with the calls inside these
  double host_self_seconds = 0.0;  // without
  double device_seconds = 0.0;     // of a GPU, without the calls inside
  double bytes = 0.0;              // moved
  double flop = 0.0;
  /// The least time that the bytes or the FLOP need at the options' rates; 0 where that is not known.
  double floor_seconds = 0.0;

  /// device_seconds on a GPU where they were measured, else host_self_seconds.
  double seconds() const { return device_seconds > 0.0 || device.is_cuda() ? device_seconds : host_self_seconds; }
  /// floor_seconds / seconds(); more than 1 where caches give what memory would have to.
  double floor_share() const { return seconds() > 0.0 ? floor_seconds / seconds() : 0.0; }
};

struct ProfileTable {
  ProfileGrouping grouping = {};
  std::size_t rows = std::numeric_limits<std::size_t>::max();
};

/// Collects the calls of all threads while it lives, one Profiler of a process at a time. It costs a few hundred
/// nanoseconds a call, and on a GPU what the timer takes; results are the same bits. Calls while a CUDA graph is
/// captured, and its replays, have no device time unless the timer is CUPTI's.
class ADJOINT_API Profiler {
 public:
  /// Throws Error while another Profiler collects, and for negative rates.
  explicit Profiler(const ProfilerOptions& options = {});
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Ends collecting and waits for the GPUs. Calls that are under way do not count. The functions below stop first.
  void stop();
  /// Those that took longest first.
  std::vector<ProfileRow> rows(const ProfileGrouping& grouping = {});
  /// The rows, and a line for all of them. Times in milliseconds, bytes in 10^9, FLOP in 10^9.
  std::string table(const ProfileTable& options = {});
  /// A file in Chrome's trace format: calls, modules and scopes by thread, and what the GPUs did by stream. It appears
  /// whole or not at all. Throws Error, naming the path, where it cannot be written.
  void write_trace(const std::filesystem::path& path);
  /// Calls that are in the table and, for want of room (max_trace_calls), not in the trace.
  std::int64_t untraced_calls();

 private:
  std::shared_ptr<detail::ProfileSession> session_;
};

/// A name for what a piece of a program does: a row of its own, and the first part of the path of what it calls.
/// Costs nothing while no Profiler collects.
class ProfileScope {
 public:
  /// `device`: whose work its row is.
  explicit ProfileScope(std::string_view name, Device device = kCPU)
      : call_(detail::ProfiledKind::kScope, name, device) {}
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  detail::ProfiledCall call_;
};

}  // namespace adjoint
