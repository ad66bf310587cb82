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
    throw OutOfMemoryError(
        fmt::format("empty: out of memory on cpu; asked for {} bytes, holding {}, free {}; release "
                    "tensors or use a smaller batch",
                    nbytes, cpu_bytes_held.load(), cpu_bytes_free()));
  }
  cpu_bytes_held += nbytes;
  return data;
}

}  // namespace

std::shared_ptr<Storage> Storage::allocate(std::size_t nbytes, Device device) {
  if (device.is_cpu()) {
    return std::make_shared<Storage>(nbytes == 0 ? nullptr : allocate_cpu(nbytes), nbytes, device);
  }
  ADJOINT_CHECK(device.index >= 0 && device.index < cuda_device_count(),
                "empty: the device must exist; got {}, with {} CUDA devices available; use default_device()", device,
                cuda_device_count());
#if defined(ADJOINT_WITH_CUDA)
  void* stream = nullptr;
  void* data = nbytes == 0 ? nullptr : cuda::allocate(nbytes, device.index, &stream);
  auto storage = std::make_shared<Storage>(data, nbytes, device);
  storage->stream_ = stream;
  return storage;
#else
  return nullptr;  // unreachable: such a build has no CUDA device
#endif
}

std::shared_ptr<Storage> Storage::wrap(void* data, std::size_t nbytes, Device device, std::function<void()> release) {
  auto storage = std::make_shared<Storage>(data, nbytes, device);
  storage->owned_ = false;
  storage->release_ = std::move(release);
  return storage;
}

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
