// Large blocks of the host's memory that are kept: which, how many, and how memory_stats() reports them.
#include <adjoint/core/memory/block_cache.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/tensor/tensor.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

using detail::BlockCache;
constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(BlockCache, HandsOutAKeptBlockOfAboutTheSize) {
  BlockCache cache(64 * kMiB);
  void* const first = cache.allocate(8 * kMiB);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % BlockCache::kAlignment, 0U);
  cache.release(first, 8 * kMiB);
  EXPECT_EQ(cache.kept_bytes(), 8 * kMiB);

  void* const larger = cache.allocate(8 * kMiB + 1);
  void* const smaller = cache.allocate(7 * kMiB);
  EXPECT_NE(larger, first) << "it is too small";
  EXPECT_NE(smaller, first) << "a seventh of it would lie idle";
  EXPECT_EQ(cache.kept_bytes(), 8 * kMiB);
  void* const fitting = cache.allocate(8 * kMiB - kMiB / 2 + 1);
  EXPECT_EQ(fitting, first);
  EXPECT_EQ(cache.kept_bytes(), 0U);
  cache.release(larger, 8 * kMiB + 1);
  EXPECT_EQ(cache.kept_bytes(), 9 * kMiB);
  EXPECT_EQ(cache.allocate(9 * kMiB), larger) << "all of a block is there";
  std::memset(larger, 1, 9 * kMiB);
  cache.release(larger, 9 * kMiB);
  cache.release(smaller, 7 * kMiB);
  cache.release(fitting, 8 * kMiB);
}

TEST(BlockCache, LargeBlocksBeginAtHugePages) {
  BlockCache cache(0);
  for (const std::size_t nbytes : {BlockCache::kLeastHugeBytes, BlockCache::kLeastHugeBytes + 1, 9 * kMiB}) {
    void* const data = cache.allocate(nbytes);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % BlockCache::kHugePage, 0U) << nbytes;
    std::memset(data, 1, nbytes);
    cache.release(data, nbytes);
  }
}

TEST(BlockCache, TakesEachSizeForItselfAndTheLastFirst) {
  BlockCache cache(64 * kMiB);
  std::vector<std::pair<void*, std::size_t>> blocks;
  for (std::size_t bytes = BlockCache::kLeastBytes; bytes <= 2 * kMiB; bytes += bytes / 7) {
    for (int i = 0; i < 2; ++i) blocks.emplace_back(cache.allocate(bytes), bytes);
  }
  for (const auto& [data, bytes] : blocks) cache.release(data, bytes);
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    EXPECT_EQ(cache.allocate(block->second), block->first) << block->second;
  }
  EXPECT_EQ(cache.kept_bytes(), 0U);
  for (const auto& [data, bytes] : blocks) cache.release(data, bytes);
}

TEST(BlockCache, KeepsTheLastOnesUpToItsLimit) {
  BlockCache cache(10 * kMiB);
  for (const std::size_t bytes : {BlockCache::kLeastBytes - 64, 11 * kMiB}) cache.release(cache.allocate(bytes), bytes);
  EXPECT_EQ(cache.kept_bytes(), 0U) << "too small, and larger than all that may be kept";

  void* const first = cache.allocate(4 * kMiB);
  void* const second = cache.allocate(4 * kMiB);
  void* const third = cache.allocate(6 * kMiB);
  cache.release(first, 4 * kMiB);
  cache.release(second, 4 * kMiB);
  EXPECT_EQ(cache.kept_bytes(), 8 * kMiB);
  cache.release(third, 6 * kMiB);
  EXPECT_EQ(cache.kept_bytes(), 10 * kMiB) << "the first is gone";
  void* const again = cache.allocate(4 * kMiB);
  EXPECT_EQ(again, second);
  cache.release(again, 4 * kMiB);
  cache.empty();
  EXPECT_EQ(cache.kept_bytes(), 0U);
}

TEST(BlockCache, SaysWhereThereIsNoMemory) {
  BlockCache cache(8 * kMiB);
  cache.release(cache.allocate(kMiB), kMiB);
  EXPECT_EQ(cache.allocate(~std::size_t{0}), nullptr) << "rounded up it would be 0";
  EXPECT_EQ(cache.kept_bytes(), 0U) << "it was given back first";
}

TEST(BlockCache, GivesEachBlockToOneThread) {
  BlockCache cache(6 * kMiB);
  const auto work = [&cache](int own) {
    for (int round = 0; round < 100; ++round) {
      const std::size_t bytes = kMiB + static_cast<std::size_t>(round % 3) * kMiB / 16;
      void* const block = cache.allocate(bytes);
      auto* const words = static_cast<int*>(block);
      const std::size_t count = bytes / sizeof(int);
      for (std::size_t i = 0; i < count; i += 997) words[i] = own;
      for (std::size_t i = 0; i < count; i += 997) ASSERT_EQ(words[i], own);
      if (round % 32 == 31) cache.empty();
      cache.release(block, bytes);
    }
  };
  std::vector<std::thread> threads;
  for (int own = 1; own <= 4; ++own) threads.emplace_back(work, own);
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cache.kept_bytes(), 6 * kMiB);
  cache.empty();
  EXPECT_EQ(cache.kept_bytes(), 0U);
}

TEST(BlockCache, OfTensorsIsHeldUntilItIsEmptied) {
  empty_cache();
  const MemoryStats before = memory_stats(kCPU);
  { const Tensor large = Tensor::zeros({1 << 20}); }
  const MemoryStats after = memory_stats(kCPU);
  EXPECT_EQ(after.in_use, before.in_use);
  const std::size_t kept = BlockCache::of_tensors().kept_bytes();
  EXPECT_EQ(after.held, after.in_use + kept);
  // Nothing is kept under a sanitizer.
  EXPECT_EQ(kept, BlockCache::of_tensors().limit() == 0 ? 0U : 4 * kMiB);
  {
    const Tensor next = Tensor::zeros({1 << 20});
    EXPECT_EQ(BlockCache::of_tensors().kept_bytes(), 0U) << "it is the next tensor's";
  }
  empty_cache();
  EXPECT_EQ(memory_stats(kCPU).held, memory_stats(kCPU).in_use);
}

}  // namespace
}  // namespace adjoint
