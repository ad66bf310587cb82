#include <adjoint/core/block_cache.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

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

BlockCache::Block from_system(std::size_t nbytes) {
  const std::size_t rounded = (nbytes + BlockCache::kAlignment - 1) / BlockCache::kAlignment * BlockCache::kAlignment;
  if (rounded < nbytes) return {};
  void* const data = std::aligned_alloc(BlockCache::kAlignment, rounded);
  return {data, data == nullptr ? 0 : rounded};
}

}  // namespace

BlockCache::Block BlockCache::allocate(std::size_t nbytes) noexcept {
  if (const Block kept = reuse(nbytes); kept.data != nullptr) return kept;
  const Block block = from_system(nbytes);
  if (block.data != nullptr || kept_bytes() == 0) return block;
  empty();
  return from_system(nbytes);
}

BlockCache::Block BlockCache::reuse(std::size_t nbytes) noexcept {
  if (nbytes < kLeastBytes || kept_bytes() == 0) return {};
  const std::lock_guard lock(guard_);
  std::size_t best = count_, best_bytes = nbytes + nbytes / 8 + 1;
  for (std::size_t at = count_; at-- > 0;) {  // of several the one that came last, of which caches hold most
    const std::size_t bytes = blocks_[at].bytes;
    if (bytes >= nbytes && bytes < best_bytes) best = at, best_bytes = bytes;
  }
  return best == count_ ? Block{} : take(best);
}

void BlockCache::release(const Block& block) noexcept {
  if (block.bytes < kLeastBytes || block.bytes > limit_) return std::free(block.data);
  while (true) {
    Block oldest;
    {
      const std::lock_guard lock(guard_);
      if (count_ < kMostBlocks && kept_bytes() + block.bytes <= limit_) {
        blocks_[count_++] = block;
        kept_.fetch_add(block.bytes, std::memory_order_relaxed);
        return;
      }
      oldest = take(0);
    }
    std::free(oldest.data);  // unlocked: the system takes its time
  }
}

void BlockCache::empty() noexcept {
  while (true) {
    Block last;
    {
      const std::lock_guard lock(guard_);
      if (count_ == 0) return;
      last = take(count_ - 1);
    }
    std::free(last.data);
  }
}

BlockCache::Block BlockCache::take(std::size_t at) noexcept {
  const Block block = blocks_[at];
  std::copy(blocks_.data() + at + 1, blocks_.data() + count_, blocks_.data() + at);
  --count_;
  kept_.fetch_sub(block.bytes, std::memory_order_relaxed);
  return block;
}

BlockCache& BlockCache::of_tensors() {
  static auto* const cache = new BlockCache(limit_of_tensors());  // never destroyed: tensors may outlive it
  return *cache;
}

}  // namespace adjoint::detail
