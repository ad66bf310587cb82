// Context: a thread's state that changes the meaning of its calls. Each thread has one, and every thread-local variable
// of core that changes the meaning of a call is a field of it. A guard sets a field while it lives and then restores
// the previous value, so no other code writes to them. Caches, handles and the thread's own random numbers do not
// belong here: without them a call has the same meaning. Internal.
#pragma once

#include <adjoint/core/base/cpu_backend.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/base/precision.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

struct CUstream_st;

namespace adjoint {

class Generator;
class Tape;
enum class MemoryCategory : std::uint8_t;

namespace detail {

class CallTrace;
class GradientPlaces;
class StateLog;
class StepCapture;
class SweptCall;
struct AutocastRegion;

/// Device::index is 8 bits wide.
inline constexpr std::size_t kMaxDevices = std::numeric_limits<std::int8_t>::max() + std::size_t{1};

/// A thread's position in the program, for a profile. The strings are never freed.
struct ProfilePlace {
  const std::string* path = nullptr;    // of scopes and module
  const std::string* caller = nullptr;  // for a gradient
  std::size_t scopes = 0;               // characters of the path that belong to scopes, including slashes
};

// No field has a destructor, so that a thread's last calls, from destructors of its other variables, find all of them.
struct ADJOINT_API Context {
  /// Records operators. Set by Tape, PauseTape, HiddenTape and InheritTape; the list of a thread's tapes is in
  /// tape_scope.cpp. Atomic because a tape may end on another thread.
  std::atomic<Tape*> tape{nullptr};
  /// Chooses the dtypes in which operators compute. Set by AutocastGuard and PauseAutocast.
  AutocastRegion* autocast = nullptr;
  /// The function that errors name. Set by OpScope.
  const char* op = nullptr;
  /// The module that errors name in anomaly mode. Set by nn's ModuleCall.
  const std::string* module = nullptr;
  /// Captures the step for a CUDA graph: it hands out memory, and hears of the tensors that kernels use. Set by
  /// StepCapture.
  StepCapture* capture = nullptr;
  /// Keeps the elements that checkpoint() restores, before they are written to. Set by StateLog.
  StateLog* state_log = nullptr;
  /// Hears of calls, to write a network to a file. Set by TraceScope.
  CallTrace* trace = nullptr;
  /// The memory in which operators compute the gradients of leaves. Set by GradientPlaces.
  GradientPlaces* gradient_places = nullptr;
  /// The innermost rule or hook that a sweep runs; bounds recursion. Set by SweptCall.
  const SweptCall* swept_call = nullptr;
  /// Random numbers are drawn from it; null: the thread's own generator. Set by GeneratorGuard.
  Generator* generator = nullptr;
  /// The place of profiled calls. Set by AtPlace and ProfiledCall.
  ProfilePlace place = {};
  /// The task of parallel_for that runs: another task must not use its tapes. Set by parallel_for.
  const void* task = nullptr;
  /// True on a pool thread, and inside parallel_for: nested loops run serially. Set by parallel_for and Plan.
  bool inside_task = false;
  /// The category of new tensors' memory, initially kOther. Set by MemoryScope.
  MemoryCategory memory_category = {};
  /// The rounding of float32 products on a GPU. Set by PrecisionGuard and set_float32_precision().
  Precision float32_precision = Precision::kFull;
  /// The code that computes convolutions on the CPU. Set by CpuBackendGuard.
#if defined(__x86_64__)
  CpuBackend cpu_backend = CpuBackend::kVector;
#else
  CpuBackend cpu_backend = CpuBackend::kEigen;
#endif
  /// The multiprocessors that kernels size their grids for. Set by cuda::LimitMultiprocessors.
  int most_multiprocessors = std::numeric_limits<int>::max();
  /// Kernels run on these streams, one of each GPU. Set by StreamGuard.
  std::array<CUstream_st*, kMaxDevices> streams = {};

 private:
  friend Context& context();
  static constinit thread_local Context of_this_thread_;
};

/// This thread's. Reading a field costs as much as reading a thread-local variable: it is constinit, so that no call
/// checks that it is initialised.
inline Context& context() { return Context::of_this_thread_; }

}  // namespace detail
}  // namespace adjoint
