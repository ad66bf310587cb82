#include <adjoint/core/tensor/storage.h>

#include <adjoint/core/autograd/state_log.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/memory/block_cache.h>
#include <adjoint/core/memory/large_blocks.h>
#include <adjoint/core/memory/scratch.h>

#include <unistd.h>

#include <fstream>
#include <string>

#if defined(ADJOINT_WITH_CUDA)
#include <adjoint/core/cuda/backend.h>
#endif

namespace adjoint {
namespace {

// Requests from this size on are compared with the free memory: Linux would grant them and kill the process on first
// use.
constexpr std::size_t kCheckedBytes = std::size_t{1} << 30;

std::atomic<AllocationObserver> allocation_observer{nullptr};

std::size_t cpu_bytes_free() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key, unit;
  for (std::size_t kibibytes = 0; meminfo >> key >> kibibytes; std::getline(meminfo, unit)) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void* allocate_cpu(std::size_t nbytes) {
  detail::BlockCache& cache = detail::BlockCache::of_tensors();
  const auto fits = [nbytes] { return nbytes < kCheckedBytes || nbytes <= cpu_bytes_free(); };
  if (!fits()) cache.empty();
  void* const data = fits() ? cache.allocate(nbytes) : nullptr;
  if (data == nullptr) {
    throw_out_of_memory(
        fmt::format("empty: out of memory on cpu; asked for {} bytes, holding {}, free {}; {}; release tensors or use "
                    "a smaller batch",
                    nbytes, memory_stats(kCPU).held, cpu_bytes_free(), detail::memory_report(kCPU)));
  }
  return data;
}

void check_device(Device device) {
  ADJOINT_CHECK(device.index >= 0 &&
                    (device.is_cpu() ? device.index == 0 : device.is_cuda() && device.index < cuda_device_count()),
                "empty: the device must exist; got {}, with {} CUDA devices available; use default_device()", device,
                cuda_device_count());
}

}  // namespace

Storage::Storage(void* data, std::size_t nbytes, Device device)
    : data_(data),
      nbytes_(nbytes),
      made_after_(detail::StateLog::last()),
      device_(device),
      use_(static_cast<std::uint32_t>(MemoryScope::current())) {}

std::shared_ptr<Storage> Storage::allocate(std::size_t nbytes, Device device, const TensorSpec* spec) {
  check_device(device);
  // The owner is created first: memory without one would leak if there were no room for it.
  auto storage = detail::make_shared_in_scratch<Storage>(nullptr, nbytes, device);
  if (nbytes == 0) return storage;
  if (detail::Scratch* const scratch = detail::Scratch::current(); scratch != nullptr && device.is_cpu()) [[unlikely]] {
    storage->data_ = scratch->allocate(nbytes);
    storage->owned_ = false;
    return storage;
  }
  if (const AllocationObserver observer = allocation_observer.load(std::memory_order_relaxed)) observer(nbytes, device);
  storage->large_ = detail::LargeBlock::make(*storage, spec);
  if (detail::StepCapture* const capture = detail::StepCapture::current();
      capture != nullptr && device == capture->device()) [[unlikely]] {
    storage->release_ = [arena = capture->arena(), block = storage.get()] {
      if (block->data_ != nullptr) arena->release(block->data_);
    };
    storage->data_ = capture->allocate(nbytes);
    storage->owned_ = false;
  } else if (device.is_cpu()) {
    storage->data_ = allocate_cpu(nbytes);
  } else {
#if defined(ADJOINT_WITH_CUDA)
    storage->data_ = cuda::allocate(nbytes, device.index, &storage->stream_);
#endif
  }
  storage->counted_ = true;
  detail::count_memory(device, storage->category(), nbytes);
  if (storage->large_) storage->large_->list();
  return storage;
}

std::shared_ptr<Storage> Storage::wrap(void* data, std::size_t nbytes, Device device, std::function<void()> release) {
  check_device(device);
  auto storage = std::make_shared<Storage>(data, nbytes, device);
  storage->owned_ = false;
  storage->release_ = std::move(release);
  return storage;
}

std::shared_ptr<Storage> Storage::allocate_pinned(std::size_t nbytes) {
#if defined(ADJOINT_WITH_CUDA)
  if (cuda_is_available() && nbytes > 0) {
    auto storage = std::make_shared<Storage>(nullptr, nbytes, kCPU);
    storage->owned_ = false;
    storage->pinned_ = true;
    storage->data_ = cuda::allocate_pinned(nbytes);
    return storage;
  }
#endif
  return allocate(nbytes, kCPU);
}

void Storage::set_category(MemoryCategory category) {
  const auto number = static_cast<std::uint32_t>(category);
  std::uint32_t before = use_.load(std::memory_order_relaxed);
  while (!use_.compare_exchange_weak(before, before / kOneSave * kOneSave + number, std::memory_order_relaxed)) {
  }
  change_use(before, number - before % kOneSave);
}

void Storage::recount(std::uint32_t before, std::uint32_t after) {
  if (counted_) detail::recount_memory(device_, counted_as(before), counted_as(after), nbytes_);
}

void observe_allocations(AllocationObserver observer) { allocation_observer = observer; }

Storage::~Storage() {
  if (release_) release_();
  large_.reset();
  if (counted_) detail::uncount_memory(device_, category(), nbytes_);
#if defined(ADJOINT_WITH_CUDA)
  if (pinned_) cuda::release_pinned(data_);
#endif
  if (!owned_ || data_ == nullptr) return;
  if (device_.is_cpu()) {
    detail::BlockCache::of_tensors().release(data_, nbytes_);
    return;
  }
#if defined(ADJOINT_WITH_CUDA)
  cuda::release(data_, device_.index, stream_);
#endif
}

}  // namespace adjoint
