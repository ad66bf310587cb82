// The reports of calls to a Profiler. Internal to core, ops and nn.
#pragma once

#include <adjoint/core/base/context.h>
#include <adjoint/core/base/device.h>
#include <adjoint/core/base/export.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace adjoint {

class Tensor;

namespace detail {

struct ProfileSession;
struct ProfiledRow;
struct ProfiledThread;

/// Tells if a Profiler collects, with one relaxed load.
class ADJOINT_API Profiling {
 public:
  static bool on() { return on_.load(std::memory_order_relaxed); }
  static ProfilePlace place() { return context().place; }
  static void set_place(ProfilePlace place) { context().place = place; }

 private:
  friend struct ProfileSession;
  static constinit std::atomic<bool> on_;
};

enum class ProfiledKind : std::uint8_t { kOperator, kScope, kModule };

/// A call while it lives; does nothing if no Profiler collects.
class ADJOINT_API ProfiledCall {
 public:
  /// A call of an operator.
  ProfiledCall(const char* op, std::span<const Tensor> in) {
    if (Profiling::on()) [[unlikely]]
      begin_operator(op, in);
  }
  /// A scope or a module.
  ProfiledCall(ProfiledKind kind, std::string_view name, Device device) {
    if (Profiling::on()) [[unlikely]]
      begin_named(kind, name, device);
  }
  ProfiledCall() = default;
  ~ProfiledCall() {
    if (thread_ != nullptr) [[unlikely]]
      end();
  }
  ProfiledCall(const ProfiledCall&) = delete;
  ProfiledCall& operator=(const ProfiledCall&) = delete;

  explicit operator bool() const { return thread_ != nullptr; }
  void begin_named(ProfiledKind kind, std::string_view name, Device device);
  /// Records the bytes that the call moves and the FLOP that it computes.
  void cost(double bytes, double flop) {
    bytes_ = bytes;
    flop_ = flop;
  }

 private:
  void begin_operator(const char* op, std::span<const Tensor> in);
  void begin(ProfiledThread& thread, const ProfiledRow& row, Device device);
  void end() noexcept;

  ProfiledThread* thread_ = nullptr;
  ProfiledCall* outer_;
  ProfilePlace before_;
  std::int64_t start_ns_, inside_ns_;
  double bytes_, flop_;
  std::uint32_t row_;
  bool timed_, module_;
};

/// Bytes of the operands and results, with each stored element counted once; undefined tensors count as 0.
ADJOINT_API double moved_bytes(std::span<const Tensor> in, std::span<const Tensor> out);

/// The position of the call that is being recorded, and the name of its gradient.
ADJOINT_API ProfilePlace gradient_place(const char* op);

/// Sets this thread's position while it lives: in a gradient, or in a task of another thread.
class AtPlace {
 public:
  explicit AtPlace(const ProfilePlace* place) : there_(place != nullptr) {
    if (!there_) return;
    before_ = Profiling::place();
    Profiling::set_place(*place);
  }
  ~AtPlace() {
    if (there_) Profiling::set_place(before_);
  }
  AtPlace(const AtPlace&) = delete;
  AtPlace& operator=(const AtPlace&) = delete;

 private:
  bool there_;
  ProfilePlace before_;
};

}  // namespace detail
}  // namespace adjoint
