#include <adjoint/core/memory/spare_blocks.h>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <set>
#include <utility>

namespace adjoint::detail {
namespace {

TEST(SpareBlocks, HoldPowersOfTwo) {
  EXPECT_EQ(SpareBlocks::block_bytes(1), SpareBlocks::kLeastBytes);
  EXPECT_EQ(SpareBlocks::block_bytes(512), 512U);
  EXPECT_EQ(SpareBlocks::block_bytes(513), 1024U);
  EXPECT_EQ(SpareBlocks::block_bytes(SpareBlocks::kMostBytes), SpareBlocks::kMostBytes);
}

TEST(SpareBlocks, AreTakenOnceByTheirSizeAndDevice) {
  SpareBlocks spares;
  int a = 0, b = 0;
  EXPECT_EQ(spares.take(600, 0), nullptr);
  EXPECT_TRUE(spares.keep(&a, 600, 0));
  EXPECT_TRUE(spares.keep(&b, 1024, 1));
  EXPECT_EQ(spares.take(512, 0), nullptr) << "a smaller block's";
  EXPECT_EQ(spares.take(1025, 0), nullptr) << "a larger block's";
  EXPECT_EQ(spares.take(1000, 1), &b);
  EXPECT_EQ(spares.take(1000, 1), nullptr);
  EXPECT_EQ(spares.take(1000, 0), &a);
  EXPECT_EQ(spares.take(1000, 0), nullptr);
}

TEST(SpareBlocks, AreFewOfASize) {
  SpareBlocks spares;
  std::array<int, SpareBlocks::kOfASize + 1> blocks{};
  for (std::size_t i = 0; i < SpareBlocks::kOfASize; ++i) EXPECT_TRUE(spares.keep(&blocks[i], 100, 0));
  EXPECT_FALSE(spares.keep(&blocks.back(), 100, 0));
  EXPECT_TRUE(spares.keep(&blocks.back(), SpareBlocks::kMostBytes, 0)) << "the largest size has a place too";
  std::set<void*> taken;
  while (void* const data = spares.take(100, 0)) taken.insert(data);
  EXPECT_EQ(taken.size(), SpareBlocks::kOfASize);
}

TEST(SpareBlocks, AreGivenBackTogetherAndThenNoLongerKept) {
  SpareBlocks spares;
  int a = 0, b = 0;
  ASSERT_TRUE(spares.keep(&a, 100, 0));
  ASSERT_TRUE(spares.keep(&b, 5000, 1));
  std::set<std::pair<void*, int>> released;
  const auto release = [&](void* data, int device) { released.emplace(data, device); };
  spares.close();
  spares.empty(release);
  EXPECT_EQ(released, (std::set<std::pair<void*, int>>{{&a, 0}, {&b, 1}}));
  EXPECT_EQ(spares.take(100, 0), nullptr);
  EXPECT_FALSE(spares.keep(&a, 100, 0));
}

}  // namespace
}  // namespace adjoint::detail
