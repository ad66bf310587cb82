#include <adjoint/core/parallel.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

namespace adjoint {
namespace {

class Threads : public ::testing::Test {
 protected:
  void TearDown() override { set_num_threads(before_); }
  int before_ = num_threads();
};

TEST_F(Threads, EveryTaskRunsOnce) {
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    std::vector<std::atomic<int>> runs(1000);
    parallel_for(1000, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
}

TEST_F(Threads, TheFirstExceptionComesBackAndThePoolGoesOn) {
  set_num_threads(3);
  for (int repeat = 0; repeat < 20; ++repeat) {
    EXPECT_THROW(parallel_for(100,
                              [](std::int64_t i) {
                                if (i == 41) throw std::runtime_error("41");
                              }),
                 std::runtime_error);
    std::atomic<int> runs{0};
    parallel_for(100, [&](std::int64_t) { ++runs; });
    EXPECT_EQ(runs, 100);
  }
}

TEST_F(Threads, NestedLoopsAndSeveralCallersFinish) {
  set_num_threads(3);
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 50; ++repeat) {
        parallel_for(10, [&](std::int64_t) { parallel_for(3, [&](std::int64_t) { ++runs; }); });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs, 4 * 50 * 30);
}

TEST_F(Threads, RangesCoverTheWhole) {
  std::vector<std::atomic<int>> hits(1003);
  parallel_ranges(1003, 10, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_LE(end - begin, 10);
    for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
  });
  for (const auto& count : hits) EXPECT_EQ(count, 1);
  parallel_ranges(0, 10, [](std::int64_t, std::int64_t) { FAIL(); });
}

#if !defined(__SANITIZE_THREAD__)  // which lets no child of several threads start one
TEST_F(Threads, AChildProcessHasItsOwn) {
  constexpr int kThreads = 4;
  set_num_threads(kThreads);
  // Each thread takes one of these tasks. None is starting any more when the process forks: AddressSanitizer allocates
  // in a thread that starts, and its allocator's lock, were it held then, would never be free in the child.
  std::latch all_started(kThreads);
  parallel_for(kThreads, [&](std::int64_t) { all_started.arrive_and_wait(); });
  std::atomic<int> runs{0};
  const auto work = [&] {
    for (int repeat = 0; repeat < 50; ++repeat) parallel_for(100, [&](std::int64_t) { ++runs; });
  };
  work();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    work();
    set_num_threads(2);
    work();
    _exit(runs == 3 * 50 * 100 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  work();
}
#endif

TEST_F(Threads, ACountBelowOneIsAnError) {
  EXPECT_ERROR(set_num_threads(0), "set_num_threads: the number of threads must be at least 1; got 0");
}

}  // namespace
}  // namespace adjoint
