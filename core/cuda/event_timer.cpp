// Device times by CUDA events: one before and one after the work that a call submits to its stream. The work between
// them belongs to the call, including inner calls, whose time is subtracted. Gaps in which the GPU waited for the host
// inside a call count as the call's.
#include <adjoint/core/cuda/profile.h>
#include <adjoint/core/cuda/runtime.h>

#include <adjoint/core/profile/profile_session.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace adjoint::cuda {
namespace {

struct Open {
  const void* timer;
  std::uint64_t generation;
  std::uint32_t row;
  int device;
  cudaStream_t stream;
  cudaEvent_t before;  // null: not measured
};
thread_local std::vector<Open> open_calls;

struct Measured {
  std::uint32_t row;
  std::optional<std::uint32_t> outer;
  int device;
  cudaStream_t stream;
  cudaEvent_t before, after;
};

// The time origin of a device's events.
struct Origin {
  cudaEvent_t event = nullptr;
  std::int64_t clock_ns = 0;
};

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) {
    cudaGetLastError();  // the legacy stream, while another stream captures
    return true;
  }
  return status != cudaStreamCaptureStatusNone;
}

// Events of a device are reused: creating one is slower than recording it.
class EventTimer final : public DeviceTimer {
 public:
  EventTimer() = default;
  ~EventTimer() override {
    for (const Measured& call : measured_) give_back(call);
    for (auto& [device, events] : idle_) {
      for (const cudaEvent_t event : events) cudaEventDestroy(event);
    }
    for (auto& [device, origin] : origins_) cudaEventDestroy(origin.event);
    cudaGetLastError();  // at the process's end the driver may be gone
  }

  void start(std::size_t max_spans) override {
    const std::lock_guard lock(mutex_);
    ++generation_;
    max_spans_ = max_spans;
    for (const Measured& call : measured_) give_back(call);
    measured_.clear();
    times_ = {};
  }

  void begin(std::uint32_t row, Device device) override {
    const DeviceGuard guard(device.index);
    Open call{this, generation_.load(), row, device.index, current_stream(device.index), nullptr};
    open_calls.reserve(open_calls.size() + 1);
    if (!is_capturing(call.stream)) {
      call.before = take(device.index, call.stream);
      ADJOINT_CUDA(cudaEventRecord(call.before, call.stream));
    }
    open_calls.push_back(call);
  }

  void end() noexcept override {
    const Open call = open_calls.back();
    open_calls.pop_back();
    if (call.before == nullptr) return;
    try {
      const DeviceGuard guard(call.device);
      const std::lock_guard lock(mutex_);
      cudaEvent_t after = nullptr;
      if (call.generation == generation_ && !is_capturing(call.stream)) after = take_locked(call.device);
      if (after == nullptr || cudaEventRecord(after, call.stream) != cudaSuccess) {
        idle_[call.device].push_back(call.before);
        if (after != nullptr) idle_[call.device].push_back(after);
        return;
      }
      measured_.push_back({call.row, outer_of(call), call.device, call.stream, call.before, after});
      if (measured_.size() > kPending) read_finished();
    } catch (const std::exception&) {
      return;  // not measured; an event that is lost leaks
    }
  }

  DeviceTimes stop() override {
    const std::lock_guard lock(mutex_);
    for (; !measured_.empty(); measured_.pop_front()) {
      const DeviceGuard guard(measured_.front().device);
      read(measured_.front());
    }
    ++generation_;
    return std::exchange(times_, {});
  }

 private:
  static constexpr std::size_t kPending = 1024;  // calls waiting to be read

  static std::optional<std::uint32_t> outer_of(const Open& call) {
    const auto outer = std::find_if(open_calls.rbegin(), open_calls.rend(), [&](const Open& open) {
      return open.timer == call.timer && open.before != nullptr && open.device == call.device;
    });
    if (outer == open_calls.rend()) return {};
    return outer->row;
  }

  cudaEvent_t take(int device, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    Origin& origin = origins_[device];
    if (origin.event == nullptr) {
      cudaEvent_t event = nullptr;
      ADJOINT_CUDA(cudaEventCreate(&event));
      origin.event = event;
      ADJOINT_CUDA(cudaEventRecord(event, stream));
      ADJOINT_CUDA(cudaEventSynchronize(event));
      origin.clock_ns = adjoint::detail::profile_clock();
    }
    return take_locked(device);
  }
  cudaEvent_t take_locked(int device) {
    std::vector<cudaEvent_t>& idle = idle_[device];
    if (!idle.empty()) {
      const cudaEvent_t event = idle.back();
      idle.pop_back();
      return event;
    }
    cudaEvent_t event = nullptr;
    ADJOINT_CUDA(cudaEventCreate(&event));
    return event;
  }
  void give_back(const Measured& call) {
    idle_[call.device].push_back(call.before);
    idle_[call.device].push_back(call.after);
  }

  void read_finished() {
    while (!measured_.empty()) {
      const DeviceGuard guard(measured_.front().device);
      if (cudaEventQuery(measured_.front().after) != cudaSuccess) {
        cudaGetLastError();
        return;
      }
      read(measured_.front());
      measured_.pop_front();
    }
  }

  // Reads both events of a completed call.
  void read(const Measured& call) {
    constexpr double kSeconds = 1e-3, kNanoseconds = 1e6;  // of CUDA's milliseconds
    float milliseconds = 0.0F, from_origin = 0.0F;
    ADJOINT_CUDA(cudaEventElapsedTime(&milliseconds, call.before, call.after));
    const std::size_t rows = std::max(call.row, call.outer.value_or(0)) + std::size_t{1};
    if (times_.seconds.size() < rows) times_.seconds.resize(rows);
    times_.seconds[call.row] += kSeconds * static_cast<double>(milliseconds);
    if (call.outer) times_.seconds[*call.outer] -= kSeconds * static_cast<double>(milliseconds);
    if (times_.spans.size() < max_spans_) {
      const Origin& origin = origins_[call.device];
      ADJOINT_CUDA(cudaEventElapsedTime(&from_origin, origin.event, call.before));
      const std::int64_t start =
          origin.clock_ns + static_cast<std::int64_t>(kNanoseconds * static_cast<double>(from_origin));
      times_.spans.push_back(
          {.row = call.row,
           .device = Device(DeviceType::kCUDA, call.device),
           .stream = reinterpret_cast<std::uintptr_t>(call.stream),
           .start_ns = start,
           .end_ns = start + static_cast<std::int64_t>(kNanoseconds * static_cast<double>(milliseconds))});
    }
    give_back(call);
  }

  std::mutex mutex_;
  std::atomic<std::uint64_t> generation_{0};
  std::size_t max_spans_ = 0;
  std::map<int, std::vector<cudaEvent_t>> idle_;
  std::map<int, Origin> origins_;
  std::deque<Measured> measured_;  // in the order in which they ended
  DeviceTimes times_;
};

}  // namespace

std::shared_ptr<DeviceTimer> make_event_timer() { return std::make_shared<EventTimer>(); }

}  // namespace adjoint::cuda
