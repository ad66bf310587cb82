// Device memory from CUDA's stream-ordered pools, one private pool per device.

#include <adjoint/core/base/check.h>
#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/cuda/runtime.h>
#include <adjoint/core/cuda/spare_workspaces.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/memory/memory.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace adjoint::cuda {
namespace {

// Never destroyed: at exit CUDA ends before or after static destructors, and frees its pools itself.
class Pool {
 public:
  explicit Pool(int device) : device_(device) {
    int supported = 0;
    ADJOINT_CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device));
    ADJOINT_CHECK(supported != 0, "cuda: a device must have memory pools; got cuda:{} without; use another device",
                  device);
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, device};
    ADJOINT_CUDA(cudaMemPoolCreate(&pool_, &properties));
    // Memory from the driver is kept for the next tensor.
    std::uint64_t threshold = UINT64_MAX;
    ADJOINT_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold));
  }

  void* allocate(std::size_t nbytes, cudaStream_t stream) {
    void* data = nullptr;
    cudaError_t status = cudaMallocFromPoolAsync(&data, nbytes, pool_, stream);
    if (status == cudaErrorMemoryAllocation && adjoint::detail::StepCapture::current() == nullptr) {
      cudaGetLastError();
      // Memory that other streams have freed, and holes too small for this request, are returned to the driver first.
      release_spare_workspaces();
      trim();  // waits for the device, which a thread that captures a step must not do
      status = cudaMallocFromPoolAsync(&data, nbytes, pool_, stream);
    }
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      out_of_memory(nbytes);
    }
    check(status, "cudaMallocFromPoolAsync");
    return data;
  }

  std::size_t held() const {
    std::uint64_t bytes = 0;
    ADJOINT_CUDA(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes));
    return bytes;
  }

  void trim() {
    ADJOINT_CUDA(cudaDeviceSynchronize());
    ADJOINT_CUDA(cudaMemPoolTrimTo(pool_, 0));
  }

  // Lets `peer` read and write this pool's memory directly, if the hardware can.
  void allow(int peer) {
    const std::lock_guard lock(mutex_);
    for (const int known : peers_) {
      if (known == peer) return;
    }
    int possible = 0;
    ADJOINT_CUDA(cudaDeviceCanAccessPeer(&possible, peer, device_));
    if (possible != 0) {
      cudaMemAccessDesc access{};
      access.location = {cudaMemLocationTypeDevice, peer};
      access.flags = cudaMemAccessFlagsProtReadWrite;
      ADJOINT_CUDA(cudaMemPoolSetAccess(pool_, &access, 1));
    }
    peers_.push_back(peer);
  }

 private:
  [[noreturn]] void out_of_memory(std::size_t nbytes) const {
    std::uint64_t used = 0;
    std::size_t free = 0, total = 0;
    ADJOINT_CUDA(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used));
    ADJOINT_CUDA(cudaMemGetInfo(&free, &total));
    throw_out_of_memory(
        fmt::format("empty: out of memory on cuda:{}; asked for {} bytes, holding {}, free {} of {}; {}; release "
                    "tensors or use a smaller batch",
                    device_, nbytes, used, free, total, detail::memory_report(Device(DeviceType::kCUDA, device_))));
  }

  int device_;
  cudaMemPool_t pool_ = nullptr;
  std::mutex mutex_;
  std::vector<int> peers_;
};

class Pools {
 public:
  Pools() : pools_(static_cast<std::size_t>(device_count())) {}

  Pool& of(int device) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Pool>& pool = pools_[static_cast<std::size_t>(device)];
    if (pool == nullptr) pool = std::make_unique<Pool>(device);
    return *pool;
  }
  // Null if nothing was allocated yet.
  Pool* find(int device) {
    const std::lock_guard lock(mutex_);
    return pools_[static_cast<std::size_t>(device)].get();
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Pool>> pools_;
};

Pools& pools() {
  static auto* pools = new Pools;
  return *pools;
}

Pool& pool_of(int device) {
  thread_local std::vector<Pool*> known(static_cast<std::size_t>(device_count()));
  Pool*& pool = known[static_cast<std::size_t>(device)];
  if (pool == nullptr) pool = &pools().of(device);
  return *pool;
}

}  // namespace

void* allocate(std::size_t nbytes, int device, void** stream) {
  check_device("cuda", Device(DeviceType::kCUDA, device));
  const DeviceGuard guard(device);
  *stream = current_stream(device);
  return pool_of(device).allocate(nbytes, static_cast<cudaStream_t>(*stream));
}

void release(void* data, int device, void* stream) noexcept {
  // At exit CUDA may be gone already, and the memory with it; there is no one to report it to.
  int before = 0;
  if (cudaGetDevice(&before) != cudaSuccess) return;
  if (before != device) cudaSetDevice(device);
  if (cudaFreeAsync(data, static_cast<cudaStream_t>(stream)) != cudaSuccess) cudaGetLastError();
  if (before != device) cudaSetDevice(before);
}

std::size_t bytes_held(int device) {
  const Pool* const pool = pools().find(device);
  return pool == nullptr ? 0 : pool->held();
}

void empty_caches() {
  release_spare_workspaces();
  for (int device = 0; device < device_count(); ++device) {
    Pool* const pool = pools().find(device);
    if (pool == nullptr) continue;
    const DeviceGuard guard(device);
    pool->trim();
  }
  empty_pinned_cache();
}

void copy_bytes(void* dst, Device dst_device, const void* src, Device src_device, std::size_t nbytes) {
  if (nbytes == 0) return;
  const int device = dst_device.is_cuda() ? dst_device.index : src_device.index;
  const DeviceGuard guard(device);
  const cudaStream_t stream = current_stream(device);
  if (dst_device.is_cpu() || src_device.is_cpu()) {
    const auto kind = dst_device.is_cpu() ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    ADJOINT_CUDA(cudaMemcpyAsync(dst, src, nbytes, kind, stream));
    ADJOINT_CUDA(cudaStreamSynchronize(stream));
  } else if (dst_device == src_device) {
    ADJOINT_CUDA(cudaMemcpyAsync(dst, src, nbytes, cudaMemcpyDeviceToDevice, stream));
  } else {
    pool_of(dst_device.index).allow(src_device.index);
    pool_of(src_device.index).allow(dst_device.index);
    const cudaStream_t src_stream = current_stream(src_device.index);
    order_streams(src_device.index, src_stream, dst_device.index, stream);
    ADJOINT_CUDA(cudaMemcpyPeerAsync(dst, dst_device.index, src, src_device.index, nbytes, stream));
    // Operations that overwrite or release the source come after the copy.
    order_streams(dst_device.index, stream, src_device.index, src_stream);
  }
}

void synchronize(Device device) {
  check_device("synchronize", device);
  const DeviceGuard guard(device.index);
  ADJOINT_CUDA(cudaStreamSynchronize(current_stream(device.index)));
}

}  // namespace adjoint::cuda
