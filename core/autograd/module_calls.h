// Who wants to know of modules' calls. Internal to core and nn.
#pragma once

#include <adjoint/core/base/context.h>
#include <adjoint/core/base/export.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace adjoint::detail {

/// A Profiler that collects; anomaly mode, which names the module of each call; modules with hooks, which must run.
enum class ModuleWatcher : std::uint8_t { kProfiler = 1, kAnomaly = 2, kHooks = 4 };

class ADJOINT_API ModuleCalls {
 public:
  /// Somebody watches. One relaxed load.
  static bool watched() { return watchers_.load(std::memory_order_relaxed) != 0; }
  static bool watched_by(ModuleWatcher watcher) {
    return (watchers_.load(std::memory_order_relaxed) & static_cast<std::uint8_t>(watcher)) != 0;
  }
  static void watch(ModuleWatcher watcher, bool on) {
    const auto bit = static_cast<std::uint8_t>(watcher);
    on ? watchers_.fetch_or(bit, std::memory_order_relaxed)
       : watchers_.fetch_and(static_cast<std::uint8_t>(~bit), std::memory_order_relaxed);
  }

  /// The innermost module whose call is under way on this thread, in anomaly mode: "'decoder.up' (Conv2d)". Null if
  /// there is no module.
  static const std::string* innermost() { return context().module; }
  static void set_innermost(const std::string* module) { context().module = module; }

 private:
  static constinit std::atomic<std::uint8_t> watchers_;
};

}  // namespace adjoint::detail
