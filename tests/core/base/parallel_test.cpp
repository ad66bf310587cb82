#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <latch>
#include <stdexcept>
#include <string>
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
  // Each thread runs one of these tasks. No thread may be starting when the process forks: AddressSanitizer allocates
  // in a thread that starts, and if its allocator's lock were held then, it would never be released in the child.
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

TEST_F(Threads, CountsOutOfRangeAreErrorsThatLeaveThePool) {
  set_num_threads(3);
  for (const int count : {0, -1, INT_MIN, kMaxThreads + 1, 100000, INT_MAX}) {
    const std::string got =
        "set_num_threads: the number of threads must be from 1 to 4096; got " + std::to_string(count);
    EXPECT_ERROR(set_num_threads(count), got.c_str());
    EXPECT_EQ(num_threads(), 3);
  }
}

TEST_F(Threads, TasksThatCannotRunAreErrors) {
  const std::function<void(std::int64_t)> none;
  EXPECT_ERROR(parallel_for(2, none), "parallel_for: the task must be a function; got an empty std::function");
  EXPECT_ERROR(parallel_for(0, none), "parallel_for: the task must be a function");
  EXPECT_ERROR(parallel_for(-1, [](std::int64_t) {}), "parallel_for: the number of tasks must not be negative; got -1");
  const auto no_range = [](std::int64_t, std::int64_t) { FAIL(); };
  for (const std::int64_t grain : {std::int64_t{0}, std::int64_t{-2}, INT64_MIN}) {
    EXPECT_ERROR(parallel_ranges(5, grain, no_range), "parallel_ranges: the grain must be at least 1");
  }
  parallel_ranges(-5, 1, no_range);
}

TEST_F(Threads, RangesEndWhereTheLargestCountDoes) {
  constexpr std::int64_t kGrain = std::int64_t{1} << 62;
  std::atomic<std::int64_t> last{0};
  parallel_ranges(INT64_MAX, kGrain, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(begin % kGrain, 0);
    if (begin > 0) last = end;
  });
  EXPECT_EQ(last, INT64_MAX);
}

TEST_F(Threads, ErrorsInTasksAreToldInTheCallersName) {
  set_num_threads(4);
  for (int repeat = 0; repeat < 20; ++repeat) {
    const OpScope scope("conv2d");
    EXPECT_ERROR(parallel_for(100, [](std::int64_t) { Tensor::zeros({-1}); }), "conv2d: extents must not be negative");
  }
  EXPECT_ERROR(parallel_for(100, [](std::int64_t) { Tensor::zeros({-1}); }), "zeros: extents must not be negative");
}

// Runs `body` in a separate process; it returns true if everything is as expected.
template <class F>
void expect_in_child(const F& body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

int count_runs() {
  std::atomic<int> runs{0};
  parallel_for(100, [&](std::int64_t) { ++runs; });
  return runs;
}

TEST_F(Threads, ThreadsThatTheSystemDoesNotStartAreAnErrorThatLeavesThePool) {
  set_num_threads(1);
  expect_in_child([] {
    set_num_threads(3);
    const rlimit limit{8, 8};  // threads of this user, whom root is not: root has no limit
    if (setrlimit(RLIMIT_NPROC, &limit) != 0 || (getuid() == 0 && setuid(65534) != 0)) return false;
    const bool refused = testing::throws_error([] { set_num_threads(1000); },
                                               {"set_num_threads: the system must start 999 threads", "ask for fewer"});
    return refused && num_threads() == 3 && count_runs() == 100;
  });
}

// The default is decided once a process, and this process has decided, so the check needs a program's first call.
TEST(ThreadsDeathTest, TheEnvironmentsCountIsCheckedWhole) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto child = [](const char* value, const char* expected) {
    setenv("ADJOINT_NUM_THREADS", value, 1);
    std::string got;
    try {
      got = std::to_string(num_threads());
    } catch (const Error& error) {
      got = error.what();
    }
    std::fprintf(stderr, "%s\n", got.c_str());
    _exit(got.find(expected) == std::string::npos ? 1 : 0);
  };
  for (const char* value : {"abc", "-3", "0", "4097", "100000", "99999999999999999999", "3x", " 3", "+3", "1.5"}) {
    const std::string expected =
        "num_threads: ADJOINT_NUM_THREADS must be a whole number from 1 to 4096; got '" + std::string(value) + "'";
    EXPECT_EXIT(child(value, expected.c_str()), ::testing::ExitedWithCode(0), "");
  }
  EXPECT_EXIT(child("7", "7"), ::testing::ExitedWithCode(0), "7");
}

}  // namespace
}  // namespace adjoint
