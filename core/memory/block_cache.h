// Large blocks of the host's memory, kept for the next tensor of about their size. The system clears new pages at first
// touch, which takes longer than most operators take to compute their results. Internal.
#pragma once

#include <adjoint/core/base/export.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace adjoint::detail {

/// Hands out memory, aligned to kAlignment, and keeps released blocks, up to a limit: the newest ones. Any number of
/// threads may use it.
class ADJOINT_API BlockCache {
 public:
  static constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector register
  /// malloc handles smaller blocks, and keeps them itself; from this size on it returns each to the system.
  static constexpr std::size_t kLeastBytes = std::size_t{1} << 17;

  /// Blocks from kLeastHugeBytes on begin at a huge page's address, and ask the system for huge pages if it leaves that
  /// to programs: translating addresses page by page takes a tenth of an elementwise operator's time.
  static constexpr std::size_t kHugePage = std::size_t{1} << 21;
  static constexpr std::size_t kLeastHugeBytes = 2 * kHugePage;

  /// Keeps at most `limit` bytes.
  explicit BlockCache(std::size_t limit) : limit_(limit) {}
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  ~BlockCache() { empty(); }

  /// A block of `nbytes` or up to an eighth more: sizes are rounded so that blocks of about one size can replace each
  /// other. Null if the system has no memory left even after all kept blocks were returned to it.
  void* allocate(std::size_t nbytes) noexcept;
  /// Releases a block, with the size passed to allocate().
  void release(void* data, std::size_t nbytes) noexcept;
  /// Returns all kept blocks to the system.
  void empty() noexcept;
  std::size_t limit() const noexcept { return limit_; }
  std::size_t kept_bytes() const noexcept { return kept_.load(std::memory_order_relaxed); }

  /// The tensors' cache. It keeps nothing under a sanitizer, which otherwise would not see a use after release.
  static BlockCache& of_tensors();

 private:
  /// A node of a ring, or its head, which is between the newest (next) and the oldest (previous).
  struct Ring {
    Ring *previous = this, *next = this;
    bool empty() const { return next == this; }
    void push(Ring& newest);
    void unlink();
  };
  struct ByAge : Ring {};
  struct BySize : Ring {};
  struct Kept;  // placed at the beginning of a kept block

  static constexpr std::size_t kSteps = 8;  // sizes per power of two
  static constexpr std::size_t kSizes = kSteps * (64 - 17);
  static_assert(kLeastBytes == std::size_t{1} << 17);

  struct Size {
    std::size_t bytes;
    std::size_t number;  // of sizes from kLeastBytes on
  };
  static Size rounded(std::size_t nbytes);
  bool keeps(const Size& size) const { return size.bytes >= kLeastBytes && size.bytes <= limit_; }
  void take(Kept& block) noexcept;  // removes it from the rings

  const std::size_t limit_;
  std::mutex guard_;
  ByAge ages_;
  std::array<BySize, kSizes> sizes_;
  std::atomic<std::size_t> kept_{0};
};

}  // namespace adjoint::detail
