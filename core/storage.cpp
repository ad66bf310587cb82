#include <adjoint/core/storage.h>

#include <adjoint/core/check.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#if defined(ADJOINT_WITH_CUDA)
#include <adjoint/core/cuda/backend.h>
#endif

namespace adjoint {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector register
// Requests from here on are compared with what is free: Linux would grant them and kill the process on first use.
constexpr std::size_t kCheckedBytes = std::size_t{1} << 30;

std::atomic<std::size_t> cpu_bytes_held{0};
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
  const std::size_t rounded = (nbytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = nullptr;
  const bool fits = rounded >= nbytes && (nbytes < kCheckedBytes || nbytes <= cpu_bytes_free());
  if (fits) data = std::aligned_alloc(kAlignment, rounded);
  if (data == nullptr) {
    throw_out_of_memory(
        fmt::format("empty: out of memory on cpu; asked for {} bytes, holding {}, free {}; release "
                    "tensors or use a smaller batch",
                    nbytes, cpu_bytes_held.load(), cpu_bytes_free()));
  }
  cpu_bytes_held += nbytes;
  return data;
}

void check_device(Device device) {
  ADJOINT_CHECK(device.index >= 0 &&
                    (device.is_cpu() ? device.index == 0 : device.is_cuda() && device.index < cuda_device_count()),
                "empty: the device must exist; got {}, with {} CUDA devices available; use default_device()", device,
                cuda_device_count());
}

}  // namespace

std::shared_ptr<Storage> Storage::allocate(std::size_t nbytes, Device device) {
  check_device(device);
  // The owner comes first: memory without one would be lost if there were no room for it.
  auto storage = std::make_shared<Storage>(nullptr, nbytes, device);
  if (nbytes == 0) return storage;
  if (const AllocationObserver observer = allocation_observer.load(std::memory_order_relaxed)) observer(nbytes, device);
  if (device.is_cpu()) {
    storage->data_ = allocate_cpu(nbytes);
    return storage;
  }
#if defined(ADJOINT_WITH_CUDA)
  storage->data_ = cuda::allocate(nbytes, device.index, &storage->stream_);
#endif
  return storage;
}

std::shared_ptr<Storage> Storage::wrap(void* data, std::size_t nbytes, Device device, std::function<void()> release) {
  check_device(device);
  auto storage = std::make_shared<Storage>(data, nbytes, device);
  storage->owned_ = false;
  storage->release_ = std::move(release);
  return storage;
}

void observe_allocations(AllocationObserver observer) { allocation_observer = observer; }

Storage::~Storage() {
  if (release_) release_();
  if (!owned_ || data_ == nullptr) return;
  if (device_.is_cpu()) {
    cpu_bytes_held -= nbytes_;
    std::free(data_);
    return;
  }
#if defined(ADJOINT_WITH_CUDA)
  cuda::release(data_, device_.index, stream_);
#endif
}

}  // namespace adjoint
