// Small blocks of memory, kept for the next request of their size: per thread, without a lock. Internal.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace adjoint::detail {

/// One thread uses it. A block's size is a power of two, so that all shapes of a network share a few sizes.
class SpareBlocks {
 public:
  static constexpr std::size_t kLeastBytes = 512, kMostBytes = std::size_t{4} << 20;
  static constexpr std::size_t kOfASize = 4;  // at most 32 MiB in total

  /// Bytes of the block for a request of `nbytes`, at most kMostBytes.
  static constexpr std::size_t block_bytes(std::size_t nbytes) { return std::bit_ceil(std::max(nbytes, kLeastBytes)); }

  /// A block kept for that device, or null.
  void* take(std::size_t nbytes, int device) {
    Size& size = size_of(nbytes);
    for (std::size_t i = size.count; i-- > 0;) {
      if (size.blocks[i].device != device) continue;
      void* const data = size.blocks[i].data;
      size.blocks[i] = size.blocks[--size.count];
      return data;
    }
    return nullptr;
  }

  /// Returns true if the block stays here; otherwise the caller releases it.
  bool keep(void* data, std::size_t nbytes, int device) {
    Size& size = size_of(nbytes);
    if (closed_ || size.count == kOfASize) return false;
    size.blocks[size.count++] = {data, device};
    return true;
  }

  /// release(data, device) for all kept blocks.
  template <class Release>
  void empty(const Release& release) {
    for (Size& size : sizes_) {
      while (size.count > 0) {
        const Block& block = size.blocks[--size.count];
        release(block.data, block.device);
      }
    }
  }

  /// Keeps nothing from now on, because the thread ends.
  void close() { closed_ = true; }

 private:
  struct Block {
    void* data = nullptr;
    int device = 0;
  };
  struct Size {
    std::array<Block, kOfASize> blocks{};
    std::size_t count = 0;
  };
  static constexpr std::size_t kSizes = std::bit_width(kMostBytes / kLeastBytes);

  Size& size_of(std::size_t nbytes) {
    return sizes_[static_cast<std::size_t>(std::countr_zero(block_bytes(nbytes) / kLeastBytes))];
  }

  std::array<Size, kSizes> sizes_{};
  bool closed_ = false;
};

}  // namespace adjoint::detail
