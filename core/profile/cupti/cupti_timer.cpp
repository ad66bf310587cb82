// CUPTI delivers records of the GPU's work, in buffers and on its own thread. A record has a correlation id, which
// identifies the CUDA call that submitted the work; another record says which of the profiler's rows was the innermost
// at that call.
#include <adjoint/core/profile/cupti/cupti_timer.h>

#include <adjoint/core/base/check.h>

#include <cupti.h>
#include <cxxabi.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

constexpr CUpti_ExternalCorrelationKind kOurs = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,    CUPTI_ACTIVITY_KIND_MEMCPY,  CUPTI_ACTIVITY_KIND_MEMSET};
constexpr std::size_t kBufferBytes = std::size_t{1} << 20, kAlignment = 8;

void check(CUptiResult status, const char* call) {
  if (status == CUPTI_SUCCESS) return;
  const char* what = nullptr;
  cuptiGetResultString(status, &what);
  fail("cupti: {} must succeed; got {}; end other tools that trace this process, or leave out .device_timer", call,
       what == nullptr ? "an unknown error" : what);
}
#define ADJOINT_CUPTI(call) check((call), #call)

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return text != nullptr ? text.get() : name;
}

class CuptiTimer final : public DeviceTimer {
 public:
  static const std::shared_ptr<CuptiTimer>& instance() {
    // Never destroyed: CUPTI's thread may deliver buffers until the process ends.
    static const auto* const timer = new std::shared_ptr<CuptiTimer>(std::make_shared<CuptiTimer>());
    return *timer;
  }

  void start(std::size_t max_spans) override {
    if (!registered_) ADJOINT_CUPTI(cuptiActivityRegisterCallbacks(lend_buffer, take_buffer));
    registered_ = true;
    ADJOINT_CUPTI(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    std::uint64_t now = 0;
    ADJOINT_CUPTI(cuptiGetTimestamp(&now));
    const std::int64_t clock =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
    {
      const std::lock_guard lock(mutex_);
      times_ = {};
      waiting_.clear();
      rows_.clear();
      max_spans_ = max_spans;
      to_clock_ns_ = clock - static_cast<std::int64_t>(now);
    }
    for (const CUpti_ActivityKind kind : kKinds) {
      const CUptiResult status = cuptiActivityEnable(kind);
      if (status == CUPTI_SUCCESS) continue;
      disable();
      check(status, "cuptiActivityEnable");
    }
  }

  void begin(std::uint32_t row, Device) override { ADJOINT_CUPTI(cuptiActivityPushExternalCorrelationId(kOurs, row)); }
  void end() noexcept override {
    std::uint64_t row = 0;
    cuptiActivityPopExternalCorrelationId(kOurs, &row);
  }

  DeviceTimes stop() override {
    const CUptiResult flushed = cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    disable();
    check(flushed, "cuptiActivityFlushAll");
    const std::lock_guard lock(mutex_);
    for (auto& [correlation, spans] : waiting_) {
      for (DeviceSpan& span : spans) keep(std::move(span));  // of no row
    }
    waiting_.clear();
    rows_.clear();
    return std::exchange(times_, {});
  }

 private:
  static constexpr std::uint32_t kNoRow = ~std::uint32_t{0};

  static void disable() {
    for (const CUpti_ActivityKind kind : kKinds) cuptiActivityDisable(kind);
  }
  static void CUPTIAPI lend_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
    *bytes = *buffer == nullptr ? 0 : kBufferBytes;
    *most_records = 0;
  }
  static void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
    try {
      CUpti_Activity* record = nullptr;
      const std::lock_guard lock(instance()->mutex_);
      while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        instance()->take(*record);
    } catch (const std::exception&) {
      // No memory for more records: they are not counted.
    }
    std::free(buffer);
  }

  void take(const CUpti_Activity& record) {
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& own = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
        if (own.externalKind == kOurs) assign(own.correlationId, static_cast<std::uint32_t>(own.externalId));
        return;
      }
      // Later versions of these records have more fields after the same ones.
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel9&>(record);
        return add(kernel, name_of(kernel.name == nullptr ? "kernel" : kernel.name));
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: return add(reinterpret_cast<const CUpti_ActivityMemcpy5&>(record), "memcpy");
      case CUPTI_ACTIVITY_KIND_MEMSET: return add(reinterpret_cast<const CUpti_ActivityMemset4&>(record), "memset");
      default: return;  // calls of CUDA, which are traced only for their correlation
    }
  }

  const std::string& name_of(const char* mangled) {
    const auto [name, is_new] = names_.try_emplace(mangled);
    if (is_new) name->second = demangled(name->first);
    return name->second;
  }

  template <class Record>
  void add(const Record& record, std::string name) {
    DeviceSpan span{.row = kNoRow,
                    .name = std::move(name),
                    .device = Device(DeviceType::kCUDA, static_cast<int>(record.deviceId)),
                    .stream = record.streamId,
                    .start_ns = static_cast<std::int64_t>(record.start) + to_clock_ns_,
                    .end_ns = static_cast<std::int64_t>(record.end) + to_clock_ns_};
    const auto known = rows_.find(record.correlationId);
    if (known == rows_.end()) {
      waiting_[record.correlationId].push_back(std::move(span));
      return;
    }
    span.row = known->second;
    keep(std::move(span));
  }

  // The row's record may come after that of the GPU's work. A graph's launch has many records, so neither is dropped
  // before stop().
  void assign(std::uint32_t correlation, std::uint32_t row) {
    rows_[correlation] = row;
    const auto waiting = waiting_.find(correlation);
    if (waiting == waiting_.end()) return;
    for (DeviceSpan& span : waiting->second) {
      span.row = row;
      keep(std::move(span));
    }
    waiting_.erase(waiting);
  }

  void keep(DeviceSpan span) {
    if (span.row != kNoRow) {
      if (times_.seconds.size() <= span.row) times_.seconds.resize(span.row + std::size_t{1});
      times_.seconds[span.row] += 1e-9 * static_cast<double>(span.end_ns - span.start_ns);
    }
    if (times_.spans.size() < max_spans_) times_.spans.push_back(std::move(span));
  }

  bool registered_ = false;
  std::mutex mutex_;
  std::size_t max_spans_ = 0;
  std::int64_t to_clock_ns_ = 0;
  DeviceTimes times_;
  std::unordered_map<std::uint32_t, std::uint32_t> rows_;  // by correlation id
  std::unordered_map<std::uint32_t, std::vector<DeviceSpan>> waiting_;
  std::unordered_map<std::string, std::string> names_;  // mangled names of kernels to C++ names
};

}  // namespace

std::shared_ptr<DeviceTimer> cupti_timer() { return CuptiTimer::instance(); }

}  // namespace adjoint
