// Large blocks of the host's memory, kept for the next tensor of about their size. What the system hands out comes in
// pages that it clears as they are first touched, which takes longer than most operators take for their results.
// Internal.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/large_blocks.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace adjoint::detail {

/// Hands out memory, aligned to kAlignment, and keeps what comes back, up to a limit: the blocks that came last. For
/// any number of threads.
class ADJOINT_API BlockCache {
 public:
  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;  // that it holds
  };
  static constexpr std::size_t kAlignment = 64;                        // a cache line, and the widest vector register
  static constexpr std::size_t kLeastBytes = LargeBlock::kLeastBytes;  // smaller ones are left to malloc

  /// Keeps at most `limit` bytes.
  explicit BlockCache(std::size_t limit) : limit_(limit) {}
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  ~BlockCache() { empty(); }

  /// A block of `nbytes`, or one that is kept and at most an eighth larger. Of no data where the system has no memory
  /// left and all that was kept is given back to it.
  Block allocate(std::size_t nbytes) noexcept;
  void release(const Block& block) noexcept;
  /// Gives all that is kept back to the system.
  void empty() noexcept;
  std::size_t limit() const noexcept { return limit_; }
  std::size_t kept_bytes() const noexcept { return kept_.load(std::memory_order_relaxed); }

  /// The tensors' own. It keeps nothing under a sanitizer, which would not see a use after release otherwise.
  static BlockCache& of_tensors();

 private:
  static constexpr std::size_t kMostBlocks = 256;

  Block reuse(std::size_t nbytes) noexcept;  // of no data where none fits
  Block take(std::size_t at) noexcept;       // out of blocks_

  const std::size_t limit_;
  std::mutex guard_;
  std::array<Block, kMostBlocks> blocks_;  // the first count_, in the order in which they came
  std::size_t count_ = 0;
  std::atomic<std::size_t> kept_{0};
};

}  // namespace adjoint::detail
