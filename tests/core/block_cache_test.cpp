// Large blocks of the host's memory that are kept: which, how many, and what memory_stats() tells of them.
#include <adjoint/core/block_cache.h>
#include <adjoint/core/memory.h>
#include <adjoint/core/tensor.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace adjoint {
namespace {

using detail::BlockCache;
using Block = BlockCache::Block;

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(BlockCache, HandsOutAKeptBlockOfAboutTheSize) {
  BlockCache cache(64 * kMiB);
  const Block first = cache.allocate(8 * kMiB);
  ASSERT_NE(first.data, nullptr);
  EXPECT_EQ(first.bytes, 8 * kMiB);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data) % BlockCache::kAlignment, 0U);
  cache.release(first);
  EXPECT_EQ(cache.kept_bytes(), 8 * kMiB);

  const Block larger = cache.allocate(8 * kMiB + 1), smaller = cache.allocate(7 * kMiB);
  EXPECT_NE(larger.data, first.data) << "it is too small";
  EXPECT_EQ(larger.bytes, 8 * kMiB + BlockCache::kAlignment);
  EXPECT_NE(smaller.data, first.data) << "a seventh of it would lie idle";
  const Block fitting = cache.allocate(8 * kMiB - kMiB / 2);
  EXPECT_EQ(fitting.data, first.data);
  EXPECT_EQ(fitting.bytes, 8 * kMiB) << "as it will be released";
  EXPECT_EQ(cache.kept_bytes(), 0U);
  for (const Block& block : {larger, smaller, fitting}) cache.release(block);
}

TEST(BlockCache, PrefersTheClosestAndThenTheLast) {
  BlockCache cache(64 * kMiB);
  const Block wide = cache.allocate(8 * kMiB), exact = cache.allocate(8 * kMiB - 64),
              last = cache.allocate(8 * kMiB - 64);
  cache.release(exact);
  cache.release(last);
  cache.release(wide);
  EXPECT_EQ(cache.allocate(8 * kMiB - 64).data, last.data);
  EXPECT_EQ(cache.allocate(8 * kMiB - 64).data, exact.data);
  EXPECT_EQ(cache.allocate(8 * kMiB - 64).data, wide.data);
  for (const Block& block : {wide, exact, last}) cache.release(block);
}

TEST(BlockCache, KeepsTheLastOnesUpToItsLimit) {
  BlockCache cache(10 * kMiB);
  const Block small = cache.allocate(BlockCache::kLeastBytes - 64), large = cache.allocate(11 * kMiB);
  cache.release(small);
  cache.release(large);
  EXPECT_EQ(cache.kept_bytes(), 0U) << "too small, and larger than all that may be kept";

  const Block first = cache.allocate(4 * kMiB), second = cache.allocate(4 * kMiB), third = cache.allocate(6 * kMiB);
  cache.release(first);
  cache.release(second);
  EXPECT_EQ(cache.kept_bytes(), 8 * kMiB);
  cache.release(third);
  EXPECT_EQ(cache.kept_bytes(), 10 * kMiB) << "the first is gone";
  const Block again = cache.allocate(4 * kMiB);
  EXPECT_EQ(again.data, second.data);
  cache.release(again);
  cache.empty();
  EXPECT_EQ(cache.kept_bytes(), 0U);
}

TEST(BlockCache, HoldsManyBlocksAtMost) {
  BlockCache cache(1024 * kMiB);
  std::vector<Block> blocks(300);
  for (Block& block : blocks) block = cache.allocate(kMiB);
  for (const Block& block : blocks) cache.release(block);
  EXPECT_EQ(cache.kept_bytes(), 256 * kMiB);
}

TEST(BlockCache, SaysWhereThereIsNoMemory) {
  BlockCache cache(8 * kMiB);
  cache.release(cache.allocate(kMiB));
  EXPECT_EQ(cache.allocate(~std::size_t{0}).data, nullptr) << "rounded up it would be 0";
  EXPECT_EQ(cache.kept_bytes(), 0U) << "it was given back first";
}

TEST(BlockCache, GivesEachBlockToOneThread) {
  BlockCache cache(6 * kMiB);
  const auto work = [&cache](int own) {
    for (int round = 0; round < 100; ++round) {
      const std::size_t bytes = kMiB + static_cast<std::size_t>(round % 3) * 64;
      const Block block = cache.allocate(bytes);
      auto* const words = static_cast<int*>(block.data);
      const std::size_t count = block.bytes / sizeof(int);
      for (std::size_t i = 0; i < count; i += 997) words[i] = own;
      for (std::size_t i = 0; i < count; i += 997) ASSERT_EQ(words[i], own);
      if (round % 32 == 31) cache.empty();
      cache.release(block);
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
