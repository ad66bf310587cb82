// Page-locked memory of the host. Locking pages is slower than most copies, so blocks are kept, and handed out again
// when the copies that use their addresses are done.

#include <adjoint/core/base/check.h>
#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/cuda/runtime.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace adjoint::cuda {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kStep = std::size_t{1} << 20;  // sizes above are multiples of this, sizes below powers of two

std::size_t rounded(std::size_t nbytes) {
  return nbytes > kStep ? (nbytes + kStep - 1) / kStep * kStep : std::max(kPage, std::bit_ceil(nbytes));
}

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

struct Block {
  void* data = nullptr;
  std::size_t nbytes = 0;
  std::map<std::pair<int, cudaStream_t>, Event> uses;  // after the last copy on each stream
  bool free = false;

  bool busy() const {
    for (const auto& [stream, event] : uses) {
      const cudaError_t status = cudaEventQuery(event.get());
      if (status == cudaErrorNotReady) {
        cudaGetLastError();
        return true;
      }
      check(status, "cudaEventQuery");
    }
    return false;
  }
};

// Never destroyed, because tensors of other statics may be destroyed later.
class PinnedCache {
 public:
  void* take(std::size_t nbytes) {
    const std::size_t size = rounded(nbytes);
    const std::lock_guard lock(mutex_);
    for (auto at = free_.lower_bound(size); at != free_.end() && at->first <= size + size / 4; ++at) {
      Block& block = *at->second;
      if (block.busy()) continue;
      block.uses.clear();
      block.free = false;
      free_.erase(at);
      return block.data;
    }
    auto block = std::make_unique<Block>();
    block->nbytes = size;
    block->data = lock_pages(size, nbytes);
    void* const data = block->data;
    held_ += size;
    blocks_.emplace(data, std::move(block));
    return data;
  }

  void give_back(void* data) noexcept {
    const std::lock_guard lock(mutex_);
    Block& block = *blocks_.at(data);
    block.free = true;
    try {
      free_.emplace(block.nbytes, &block);
    } catch (const std::bad_alloc&) {
      return;  // nothing finds it again before trim()
    }
  }

  // Records that a copy of the block was submitted to `stream`.
  void note_use(void* data, int device, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    Event& event = blocks_.at(data)->uses[{device, stream}];
    if (event == nullptr) {
      cudaEvent_t made = nullptr;
      ADJOINT_CUDA(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
      event.reset(made);
    }
    ADJOINT_CUDA(cudaEventRecord(event.get(), stream));
  }

  // Releases every unused block.
  void trim() {
    const std::lock_guard lock(mutex_);
    free_.clear();
    for (auto at = blocks_.begin(); at != blocks_.end();) {
      Block& block = *at->second;
      if (block.free && !block.busy()) {
        held_ -= block.nbytes;
        cudaFreeHost(block.data);
        at = blocks_.erase(at);
      } else {
        if (block.free) free_.emplace(block.nbytes, &block);
        ++at;
      }
    }
  }

  std::size_t held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }

 private:
  void* lock_pages(std::size_t size, std::size_t asked) const {
    void* data = nullptr;
    const cudaError_t status = cudaHostAlloc(&data, size, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw_out_of_memory(
          fmt::format("empty_pinned: out of page-locked memory; asked for {} bytes, holding {}; keep fewer pinned "
                      "tensors, or see the system's limit (ulimit -l)",
                      asked, held_));
    }
    check(status, "cudaHostAlloc");
    return data;
  }

  mutable std::mutex mutex_;
  std::size_t held_ = 0;
  std::map<void*, std::unique_ptr<Block>> blocks_;
  std::multimap<std::size_t, Block*> free_;  // by size
};

PinnedCache& cache() {
  static auto* cache = new PinnedCache;
  return *cache;
}

}  // namespace

void* allocate_pinned(std::size_t nbytes) { return cache().take(nbytes); }
void release_pinned(void* data) noexcept {
  if (data != nullptr) cache().give_back(data);
}
std::size_t pinned_bytes_held() { return cache().held(); }
void empty_pinned_cache() { cache().trim(); }

void copy_async(void* dst, const void* src, Device device, bool to_device, void* pinned, std::size_t nbytes) {
  if (nbytes == 0) return;
  const DeviceGuard guard(device.index);
  const cudaStream_t stream = current_stream(device.index);
  ADJOINT_CUDA(cudaMemcpyAsync(dst, src, nbytes, to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream));
  cache().note_use(pinned, device.index, stream);
}

}  // namespace adjoint::cuda
