#include <adjoint/core/memory/block_cache.h>

#include <adjoint/core/base/forked.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace adjoint::detail {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

constexpr std::size_t kMostKept = std::size_t{1} << 30;

// An eighth of the machine's memory.
std::size_t limit_of_tensors() {
  if (kSanitized) return 0;
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return 0;
  return std::min(kMostKept, static_cast<std::size_t>(pages) / 8 * static_cast<std::size_t>(page_bytes));
}

void* from_system(std::size_t nbytes) {
  const bool huge = nbytes >= BlockCache::kLeastHugeBytes;
  const std::size_t alignment = huge ? BlockCache::kHugePage : BlockCache::kAlignment;
  const std::size_t aligned = (nbytes + alignment - 1) / alignment * alignment;
  if (aligned < nbytes) return nullptr;
  void* const data = std::aligned_alloc(alignment, aligned);
  if (data != nullptr && huge) madvise(data, nbytes, MADV_HUGEPAGE);  // a hint: a system without huge pages refuses it
  return data;
}

}  // namespace

struct BlockCache::Kept : ByAge, BySize {
  explicit Kept(const Size& own) : size(own) {}
  Size size;
};

void BlockCache::Ring::push(Ring& newest) {
  newest.previous = this;
  newest.next = next;
  next->previous = &newest;
  next = &newest;
}

void BlockCache::Ring::unlink() {
  previous->next = next;
  next->previous = previous;
}

BlockCache::Size BlockCache::rounded(std::size_t nbytes) {
  if (nbytes < kLeastBytes) return {nbytes, 0};
  const std::size_t power = std::bit_floor(nbytes), step = power / kSteps;
  const std::size_t more = (nbytes - power + step - 1) / step;
  const auto powers = static_cast<std::size_t>(std::countr_zero(power) - std::countr_zero(kLeastBytes));
  return {power + more * step, powers * kSteps + more};
}

void* BlockCache::allocate(std::size_t nbytes) noexcept {
  const Size size = rounded(nbytes);
  if (keeps(size) && kept_bytes() > 0) {
    const std::lock_guard lock(guard_);
    BySize& ring = sizes_[size.number];
    if (!ring.empty()) {  // the newest one, most of which is in caches
      auto* const kept = static_cast<Kept*>(static_cast<BySize*>(ring.next));
      take(*kept);
      return kept;
    }
  }
  // Blocks that are not kept are not rounded: the system may not have an eighth more.
  const std::size_t wanted = keeps(size) ? size.bytes : nbytes;
  void* const data = from_system(wanted);
  if (data != nullptr || kept_bytes() == 0) return data;
  empty();
  return from_system(wanted);
}

void BlockCache::release(void* data, std::size_t nbytes) noexcept {
  const Size size = rounded(nbytes);
  if (data == nullptr || !keeps(size)) return std::free(data);
  while (true) {
    Kept* oldest = nullptr;
    {
      const std::lock_guard lock(guard_);
      if (kept_bytes() + size.bytes <= limit_) {
        auto* const kept = new (data) Kept(size);
        ages_.push(static_cast<ByAge&>(*kept));
        sizes_[size.number].push(static_cast<BySize&>(*kept));
        kept_.fetch_add(size.bytes, std::memory_order_relaxed);
        return;
      }
      oldest = static_cast<Kept*>(static_cast<ByAge*>(ages_.previous));
      take(*oldest);
    }
    std::free(oldest);  // unlocked, because the system is slow
  }
}

void BlockCache::empty() noexcept {
  while (true) {
    Kept* newest = nullptr;
    {
      const std::lock_guard lock(guard_);
      if (ages_.empty()) return;
      newest = static_cast<Kept*>(static_cast<ByAge*>(ages_.next));
      take(*newest);
    }
    std::free(newest);
  }
}

void BlockCache::take(Kept& block) noexcept {
  static_cast<ByAge&>(block).unlink();
  static_cast<BySize&>(block).unlink();
  kept_.fetch_sub(block.size.bytes, std::memory_order_relaxed);
}

BlockCache& BlockCache::of_tensors() {
  static auto* const cache = new BlockCache(limit_of_tensors());  // never destroyed: tensors may outlive it
  static const HeldAtFork at_fork(cache->guard_);
  return *cache;
}

}  // namespace adjoint::detail
