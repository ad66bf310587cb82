// The bookkeeping of captured steps' memory: the places of blocks, their reuse, and the release of segments.
#include <adjoint/core/memory/block_arena.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

namespace adjoint::detail {
namespace {

constexpr std::size_t kNoLimit = SIZE_MAX;

/// Memory of the host's, counted.
struct Heap {
  std::map<void*, std::size_t> taken;
  std::size_t most = SIZE_MAX;

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto& [data, nbytes] : taken) sum += nbytes;
    return sum;
  }
  BlockArena::Source source() {
    return {[this](std::size_t nbytes) -> void* {
              if (bytes() + nbytes > most) return nullptr;
              void* const data = std::aligned_alloc(512, nbytes);
              taken[data] = nbytes;
              return data;
            },
            [this](void* data, std::size_t nbytes) {
              EXPECT_EQ(taken.at(data), nbytes);
              taken.erase(data);
              std::free(data);
            }};
  }
};

TEST(BlockArena, BlocksAreAlignedAndApart) {
  Heap heap;
  BlockArena arena(heap.source(), 4096);
  const auto use = arena.begin();
  std::map<std::uintptr_t, std::size_t> blocks;
  for (const std::size_t nbytes : {1U, 512U, 513U, 4000U, 100U, 5000U, 1U}) {
    const auto at = reinterpret_cast<std::uintptr_t>(arena.allocate(nbytes, kNoLimit, "op"));
    ASSERT_NE(at, 0U);
    EXPECT_EQ(at % 512, 0U);
    blocks[at] = nbytes;
  }
  std::uintptr_t end = 0;
  for (const auto& [at, nbytes] : blocks) {
    EXPECT_GE(at, end);
    end = at + nbytes;
  }
  EXPECT_EQ(arena.held(), heap.bytes());
}

TEST(BlockArena, WhatWasReleasedIsHandedOutAgain) {
  Heap heap;
  BlockArena arena(heap.source(), 8192);
  const auto use = arena.begin();
  void* const a = arena.allocate(1024, kNoLimit, nullptr);
  void* const b = arena.allocate(2048, kNoLimit, nullptr);
  void* const c = arena.allocate(1024, kNoLimit, nullptr);
  ASSERT_NE(arena.allocate(3584, kNoLimit, nullptr), nullptr);
  ASSERT_NE(arena.allocate(512, kNoLimit, nullptr), nullptr);
  arena.release(a);
  arena.release(c);
  EXPECT_EQ(arena.allocate(1000, kNoLimit, nullptr), a) << "the smallest hole";
  arena.release(b);
  arena.release(a);
  EXPECT_EQ(arena.allocate(3584, kNoLimit, nullptr), a) << "holes that touch are one";
  EXPECT_EQ(heap.taken.size(), 1U);
}

TEST(BlockArena, SegmentsStayForTheirCapturesAndTheirBlocks) {
  Heap heap;
  BlockArena arena(heap.source(), 512);
  auto first = arena.begin();
  void* const a = arena.allocate(512, kNoLimit, nullptr);
  arena.release(a);
  EXPECT_EQ(arena.held(), 512U) << "the capture's graph uses its addresses";
  auto second = arena.begin();
  EXPECT_EQ(arena.allocate(512, kNoLimit, nullptr), a) << "captures share";
  void* const b = arena.allocate(1024, kNoLimit, nullptr);
  arena.release(a);
  first.reset();
  EXPECT_EQ(arena.held(), 1536U);
  second.reset();
  EXPECT_EQ(arena.held(), 1024U) << "a block is left";
  arena.release(b);
  EXPECT_EQ(arena.held(), 0U);
  EXPECT_TRUE(heap.taken.empty());
}

TEST(BlockArena, SmallBlocksHaveSegmentsOfTheirOwn) {
  Heap heap;
  BlockArena arena(heap.source(), 4096);
  const auto use = arena.begin();
  void* const large = arena.allocate(8192, kNoLimit, nullptr);
  arena.release(large);
  void* const small = arena.allocate(512, kNoLimit, nullptr);
  EXPECT_EQ(arena.allocate(8192, kNoLimit, nullptr), large);
  EXPECT_EQ(arena.allocate(1024, kNoLimit, nullptr), static_cast<std::byte*>(small) + 512);
  EXPECT_EQ(heap.taken.at(small), 4096U);
}

TEST(BlockArena, KeepsWithinItsLimitAndWhatThereIs) {
  Heap heap;
  BlockArena arena(heap.source(), 4096);
  const auto use = arena.begin();
  void* const a = arena.allocate(512, 1024, nullptr);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(arena.held(), 512U) << "the least of a segment comes behind the limit";
  EXPECT_EQ(arena.allocate(1024, 1024, nullptr), nullptr);
  EXPECT_EQ(arena.allocate(SIZE_MAX, SIZE_MAX - 1, nullptr), nullptr);
  heap.most = 2048;
  EXPECT_NE(arena.allocate(1024, kNoLimit, nullptr), nullptr) << "as much as is asked for, where there is no more";
  EXPECT_EQ(arena.allocate(1024, kNoLimit, nullptr), nullptr);
  EXPECT_EQ(arena.held(), heap.bytes());
}

TEST(BlockArena, TellsTheBlocksOfTheLastCapture) {
  Heap heap;
  BlockArena arena(heap.source(), 4096);
  const auto first = arena.begin();
  void* const a = arena.allocate(512, kNoLimit, "exp");
  EXPECT_TRUE(arena.is_new(a));
  const auto second = arena.begin();
  auto* const b = static_cast<std::byte*>(arena.allocate(600, kNoLimit, "log"));
  EXPECT_FALSE(arena.is_new(a));
  EXPECT_TRUE(arena.is_new(b + 599));
  EXPECT_FALSE(arena.is_new(&heap));
  const std::vector<BlockArena::Block> blocks = arena.new_blocks();
  ASSERT_EQ(blocks.size(), 1U);
  EXPECT_EQ(blocks[0].data, b);
  EXPECT_EQ(blocks[0].made_by, "log");
  arena.release(b);
  EXPECT_FALSE(arena.is_new(b));
}

}  // namespace
}  // namespace adjoint::detail
