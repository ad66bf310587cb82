// A process that is forked while other threads use the library can use it, too.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/core/base/warning.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/support/sanitized.h>

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace adjoint {
namespace {

// Short sections under the locks of tapes, generators, warnings, and large tensors.
void use_the_library() {
  const Tensor large = Tensor::empty({1 << 18});
  {
    const PauseTape pause;
    const Tape tape;
  }
  manual_seed(1);
  default_generator();
  set_warning_handler([](const std::string&) {});
}

bool ends_well(pid_t child) {
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Forked, AChildFindsNoLockThatAnotherThreadHeld) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer's allocator does not release its locks in forked processes";
  const WarningHandler before = set_warning_handler(nullptr);
  std::atomic<bool> over{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      while (!over) use_the_library();
    });
  }
  int good = 0;
  constexpr int kForks = 100;
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      use_the_library();
      ::_exit(0);
    }
    if (!ends_well(child)) break;
    ++good;
  }
  over = true;
  for (std::thread& other : others) other.join();
  set_warning_handler(before);
  EXPECT_EQ(good, kForks);
}

// Two locks that a thread nests in either order.
TEST(Forked, ForkWaitsForNestedLocksInAnyOrder) {
  static auto* const a = new std::mutex;
  static auto* const b = new std::mutex;
  static const HeldAtFork a_at_fork(*a), b_at_fork(*b);
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) {
      const std::scoped_lock forwards(*a, *b);
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(a->try_lock() && b->try_lock() ? 0 : 1);
    EXPECT_TRUE(ends_well(child));
  }
  over = true;
  other.join();
}

}  // namespace
}  // namespace adjoint
