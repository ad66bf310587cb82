// The data that a Profiler collects, and to which threads write meanwhile. Internal to core.
#pragma once

#include <adjoint/core/profile/device_timer.h>
#include <adjoint/core/profile/profiler.h>
#include <adjoint/core/tensor/dtype.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace adjoint::detail {

/// The common properties of similar calls.
struct ProfiledRow {
  std::uint32_t id = 0;
  ProfiledKind kind = ProfiledKind::kOperator;
  std::string op, caller, module, shapes;
  Device device;
  DType dtype = kFloat32;  // of the first operand
  bool tf32 = false;       // float32's products may round as TF32

  /// "linear/matmul", or the module.
  std::string label() const;
};

struct ProfiledSums {
  std::int64_t calls = 0, host_ns = 0, self_ns = 0;
  double bytes = 0.0, flop = 0.0;

  void add(const ProfiledSums& other) {
    calls += other.calls;
    host_ns += other.host_ns;
    self_ns += other.self_ns;
    bytes += other.bytes;
    flop += other.flop;
  }
};

struct TracedCall {
  std::uint32_t row;
  std::uint32_t thread;  // its index among the session's threads
  std::int64_t start_ns, duration_ns;
};

struct KeyHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
};
using RowsByKey = std::unordered_map<std::string, const ProfiledRow*, KeyHash, std::equal_to<>>;

/// One thread's share. Only its own thread looks rows up; the mutex guards sums and calls.
struct ProfiledThread {
  std::uint32_t index = 0;
  std::int64_t system_id = 0;
  std::string key;  // scratch
  RowsByKey rows;

  std::mutex mutex;
  bool stopped = false;
  std::vector<ProfiledSums> sums;  // by row
  std::vector<TracedCall> calls;
  std::int64_t untraced = 0;
};

/// The data after it has stopped.
struct ProfileResult {
  std::vector<ProfiledSums> sums;     // by row
  std::vector<TracedCall> calls;      // by thread, in the order of their ends
  std::vector<std::int64_t> threads;  // the system's ids
  std::int64_t untraced = 0;
  DeviceTimes device;
};

struct ProfileSession {
  ProfilerOptions options;
  std::int64_t start_ns = 0;
  std::atomic<std::int64_t> room{0};  // for traced calls

  std::mutex mutex;
  std::deque<ProfiledRow> rows;  // their addresses are stable
  RowsByKey rows_by_key;
  std::vector<std::unique_ptr<ProfiledThread>> threads;
  std::unique_ptr<ProfileResult> result;

  /// The row under thread.key, created by `make()` if it is new.
  template <class Make>
  const ProfiledRow& row(ProfiledThread& thread, const Make& make) {
    const auto known = thread.rows.find(std::string_view(thread.key));
    if (known != thread.rows.end()) return *known->second;
    return add_row(thread, make());
  }
  const ProfiledRow& add_row(ProfiledThread& thread, ProfiledRow row);

  /// Makes it the collecting session. Throws Error if a session exists.
  static void start(const std::shared_ptr<ProfileSession>& session);
  void stop();
};

/// Nanoseconds of std::chrono::steady_clock.
std::int64_t profile_clock();

}  // namespace adjoint::detail
