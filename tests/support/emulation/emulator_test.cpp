// The emulator itself: mistakes that a GPU might forgive show in it.
#include <adjoint/tests/support/emulation/emulator.h>
#include <adjoint/core/cuda/ptx.cuh>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace adjoint::emulation {
namespace {

namespace ptx = cuda::ptx;

constexpr std::uint32_t kUnwritten = 0xffffffff;
constexpr std::uint64_t kSeeds = 20;

std::uint32_t& word(int index) { return reinterpret_cast<std::uint32_t*>(ptx::dynamic_smem())[index]; }

/// The message that a run throws; empty if it ends well.
std::string failure(const Launch& launch, const std::function<void()>& kernel) {
  try {
    run(launch, kernel);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

TEST(Emulator, CopiesAreNotThereBeforeTheirWait) {
  const std::uint32_t source[] = {1, 2};
  std::vector<std::uint32_t> seen;
  run({.block = {1}}, [&] {
    for (int i = 0; i < 2; ++i) {
      ptx::cp_async_zfill<4>(ptx::shared_address(&word(i)), source + i, true);
      ptx::cp_async_commit();
    }
    const auto see = [&] { seen.insert(seen.end(), {word(0), word(1)}); };
    see();
    ptx::cp_async_wait<1>();
    see();
    ptx::cp_async_wait<0>();
    see();
  });
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{kUnwritten, kUnwritten, 1, kUnwritten, 1, 2}));
}

TEST(Emulator, SomeOrderShowsAMissingBarrier) {
  for (const bool synchronized : {true, false}) {
    int unwritten = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      run({.block = {64}, .seed = seed}, [&] {
        if (threadIdx.x == 40) word(0) = 5;
        if (synchronized) __syncthreads();
        if (threadIdx.x == 3 && word(0) == kUnwritten) ++unwritten;
      });
    }
    EXPECT_EQ(unwritten > 0, !synchronized);
  }
}

TEST(Emulator, SomeOrderShowsAWarpThatIsLeftBehind) {
  for (const bool synchronized : {true, false}) {
    int overwritten = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      run({.block = {64}, .seed = seed}, [&] {
        if (threadIdx.x == 0) word(0) = 1;
        __syncthreads();
        if (threadIdx.x == 40 && word(0) != 1) ++overwritten;
        for (int i = 0; i < 3; ++i) __syncwarp();
        if (synchronized) __syncthreads();
        if (threadIdx.x == 0) word(0) = 2;
      });
    }
    EXPECT_EQ(overwritten > 0, !synchronized);
  }
}

TEST(Emulator, SomeOrderShowsABulkCopyWithoutAWait) {
  alignas(16) const std::uint32_t source[] = {1, 2, 3, 4};
  for (const bool waits : {true, false}) {
    int unwritten = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      run({.grid = {2}, .block = {32}, .cluster = 2, .seed = seed}, [&] {
        const std::uint32_t barrier = ptx::shared_address(&word(8));
        if (threadIdx.x == 0) {
          ptx::mbarrier_init(barrier, 1);
          ptx::mbarrier_arrive_expect_bytes(barrier, sizeof(source));
        }
        ptx::cluster_barrier();
        if (threadIdx.x == 0 && ptx::cluster_rank() == 0) {
          ptx::bulk_copy_to_cluster(ptx::shared_address(&word(0)), source, sizeof(source), barrier, 2);
        }
        if (waits) ptx::mbarrier_wait(barrier, 0);
        if (word(3) != 4) ++unwritten;
      });
    }
    EXPECT_EQ(unwritten > 0, !waits);
  }
}

TEST(Emulator, AnArrivalTooFewOrTooManyIsAnError) {
  EXPECT_NE(failure({.block = {32}}, [] { ptx::barrier<33>(1); }).find("every thread waits for ever"),
            std::string::npos);
  const auto arrive_twice = [](int expected) {
    return failure({.block = {1}}, [expected] {
      const std::uint32_t barrier = ptx::shared_address(&word(0));
      ptx::mbarrier_init(barrier, expected);
      for (int i = 0; i < 2; ++i) ptx::mbarrier_arrive(barrier);
      ptx::mbarrier_wait(barrier, 0);
    });
  };
  EXPECT_EQ(arrive_twice(2), "");
  EXPECT_NE(arrive_twice(3).find("every thread waits for ever"), std::string::npos);
  EXPECT_NE(failure({.block = {1}},
                    [] {
                      MBarrier barrier{1, 0, 0};
                      mbarrier_update(barrier, 1, 0);
                    })
                .find("more arrivals"),
            std::string::npos);
}

TEST(Emulator, SharedMemoryHasAnEnd) {
  const auto write = [](int index) { return failure({.block = {1}, .smem_bytes = 64}, [index] { word(index) = 1; }); };
  EXPECT_EQ(write(15), "");
  EXPECT_NE(write(16).find("after the end of its dynamic shared memory"), std::string::npos);
}

TEST(Emulator, UnalignedCopiesAreErrors) {
  alignas(16) const std::uint32_t source[8] = {};
  EXPECT_NE(failure({.block = {1}}, [&] { ptx::cp_async_zfill<16>(0, source + 1, true); }).find("unaligned"),
            std::string::npos);
  EXPECT_NE(failure({.block = {1}}, [&] { ptx::bulk_copy(8, source, 16, 64); }).find("unaligned"), std::string::npos);
}

TEST(Emulator, ARunAfterAFailedOneIsWhole) {
  failure({.block = {64}}, [] { ptx::barrier<65>(1); });
  int threads = 0;
  run({.block = {64}}, [&] {
    __syncthreads();
    ++threads;
  });
  EXPECT_EQ(threads, 64);
}

}  // namespace
}  // namespace adjoint::emulation
