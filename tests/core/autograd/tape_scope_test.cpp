// Tapes among threads: the order and place of their ends, and their recording of parallel loops.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/core/autograd/leaf.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace adjoint {
namespace {

using testing::leaf;
using testing::Values;
using testing::values;

TEST(TapeScope, TapesMayEndInAnyOrder) {
  Tensor x = leaf({3});
  auto outer = std::make_unique<Tape>();
  auto middle = std::make_unique<Tape>();
  auto inner = std::make_unique<Tape>();
  const Tensor y = x * x;
  middle.reset();
  EXPECT_EQ(Tape::current(), inner.get());
  outer.reset();
  EXPECT_EQ(Tape::current(), inner.get());
  inner->backward(y);
  EXPECT_EQ(values(x.grad()), (Values{6}));
  inner.reset();
  EXPECT_EQ(Tape::current(), nullptr);
  EXPECT_FALSE((x * x).requires_grad());
}

TEST(TapeScope, ATapeThatEndsBeforeAnInnerOneIsGone) {
  const Tensor x = leaf({3});
  auto outer = std::make_unique<Tape>();
  const Tensor y = x * x;
  Tape inner;
  EXPECT_ERROR(y * 2.0, "outer live tape");
  outer.reset();
  EXPECT_ERROR(y * 2.0, "recorded on a tape that is gone");
  EXPECT_ERROR(y.register_hook([](const Tensor& g) { return g; }), "the tensor's tape must be alive");
  EXPECT_EQ(values(inner.gradient(x * 2.0, {x})[0]), (Values{2}));
}

TEST(TapeScope, ATapeMayEndWhileItIsPaused) {
  const Tensor x = leaf({3});
  auto tape = std::make_unique<Tape>();
  std::optional<PauseTape> pause;
  pause.emplace();
  tape.reset();
  pause.reset();
  EXPECT_EQ(Tape::current(), nullptr);

  tape = std::make_unique<Tape>();
  pause.emplace();
  Tape inside;
  pause.reset();  // before the tape that was made in it
  EXPECT_EQ(Tape::current(), &inside);
  tape.reset();
  EXPECT_EQ(Tape::current(), &inside);
}

TEST(TapeScope, ATapeMayEndOnAnotherThread) {
  Tensor x = leaf({3});
  auto outer = std::make_unique<Tape>();
  auto tape = std::make_unique<Tape>();
  const Tensor y = x * x;
  std::thread([&] {
    EXPECT_EQ(Tape::current(), nullptr);
    tape->backward(y);
    tape.reset();
    EXPECT_EQ(Tape::current(), nullptr);
  }).join();
  EXPECT_EQ(values(x.grad()), (Values{6}));
  EXPECT_EQ(Tape::current(), outer.get());
  EXPECT_ERROR(y * 2.0, "recorded on a tape that is gone");
  auto pause = std::make_unique<PauseTape>();
  std::thread([&] { pause.reset(); }).join();
  EXPECT_EQ(Tape::current(), outer.get());
}

TEST(TapeScope, ATapeMayOutliveItsThread) {
  Tensor x = leaf({3});
  std::unique_ptr<Tape> tape;
  Tensor y;
  std::thread([&] {
    tape = std::make_unique<Tape>();
    y = x * x;
  }).join();
  EXPECT_EQ(Tape::current(), nullptr);
  tape->backward(y);
  EXPECT_EQ(values(x.grad()), (Values{6}));
  tape.reset();
}

class ParallelTape : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    threads_ = num_threads();
    set_num_threads(GetParam());
  }
  void TearDown() override { set_num_threads(threads_); }

 private:
  int threads_ = 0;
};

constexpr std::int64_t kTasks = 64;

TEST_P(ParallelTape, OperatorsThatItWouldRecordAreErrorsOnEveryThread) {
  const Tensor x = leaf({3}), constant = leaf({2}).detach();
  Tape tape;
  const Tensor y = x * 2.0;
  const std::size_t size = tape.size();
  for (const std::int64_t count : {std::int64_t{1}, kTasks}) {
    std::atomic<int> refused{0};
    parallel_for(count, [&](std::int64_t) {
      const char* rule = "a task of parallel_for must not use a tape that was made outside it";
      refused += testing::throws_error([&] { static_cast<void>(x * 2.0); }, {"mul", rule, "PauseTape"}) ? 1 : 0;
      refused += testing::throws_error([&] { static_cast<void>(y.reshape({1, 1})); }, {"reshape", rule}) ? 1 : 0;
      refused += testing::throws_error([&] { tape.backward(y); }, {"backward", rule}) ? 1 : 0;
    });
    EXPECT_EQ(refused, 3 * count);
    EXPECT_ERROR(parallel_for(count, [&](std::int64_t) { static_cast<void>(x * 2.0); }), "mul");
  }
  EXPECT_EQ(tape.size(), size);
  EXPECT_EQ(values(tape.gradient(x * constant, {x})[0]), (Values{2})) << "outside tasks it records";
}

TEST_P(ParallelTape, TasksMayComputeWithoutItOrUnderTheirOwn) {
  Tensor x = leaf({3});
  const Tensor constant = leaf({2}).detach();
  Tape tape;
  std::vector<double> found(static_cast<std::size_t>(kTasks));
  parallel_for(kTasks, [&](std::int64_t i) {
    const Tensor doubled = constant * 2.0;
    Tensor paused;
    {
      const PauseTape pause;
      paused = x * doubled;
    }
    Tape own;
    const Tensor y = x * x;
    parallel_for(2, [&](std::int64_t) {
      EXPECT_ERROR(x * x, "a task of parallel_for must not use a tape that was made outside it");
    });
    own.backward(y * static_cast<double>(i));
    found[static_cast<std::size_t>(i)] = paused.item<double>();
  });
  EXPECT_EQ(found, Values(static_cast<std::size_t>(kTasks), 12.0));
  EXPECT_EQ(values(x.grad()), (Values{6.0 * kTasks * (kTasks - 1) / 2}));
  EXPECT_EQ(Tape::current(), &tape);
  EXPECT_EQ(tape.size(), 0U);
}

TEST_P(ParallelTape, TasksSeeNoTapeOnceTheCallerHasNone) {
  const Tensor x = leaf({3});
  {
    Tape tape;
    parallel_for(kTasks, [](std::int64_t) { EXPECT_NE(Tape::current(), nullptr); });
  }
  parallel_for(kTasks, [&](std::int64_t) {
    EXPECT_EQ(Tape::current(), nullptr);
    EXPECT_FALSE((x * 2.0).requires_grad());
  });
}

TEST_P(ParallelTape, ATapeThatATaskLeavesBehindIsItsThreadsUntilItEnds) {
  const std::int64_t threads = GetParam();
  std::vector<std::unique_ptr<Tape>> left(static_cast<std::size_t>(threads));
  std::vector<std::thread::id> makers(left.size());
  const auto on_every_thread = [&](const auto& task) {  // each waits for all
    std::atomic<std::int64_t> arrived{0};
    parallel_for(threads, [&](std::int64_t i) {
      for (++arrived; arrived < threads;) std::this_thread::yield();
      task(static_cast<std::size_t>(i));
    });
  };
  on_every_thread([&](std::size_t i) {
    left[i] = std::make_unique<Tape>();
    makers[i] = std::this_thread::get_id();
  });
  const std::thread::id caller = std::this_thread::get_id();
  std::optional<Tape> outer(std::in_place);
  on_every_thread([&](std::size_t) {
    // The caller's own thread made its tape last, the others have but the one that they made in a task.
    const Tape* expected = &*outer;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (makers[i] == std::this_thread::get_id() && makers[i] != caller) expected = left[i].get();
    }
    EXPECT_EQ(Tape::current(), expected);
  });
  outer.reset();
  left.clear();  // on other threads' behalf
  on_every_thread([](std::size_t) { EXPECT_EQ(Tape::current(), nullptr); });
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelTape, ::testing::Values(1, 2, 5));

}  // namespace
}  // namespace adjoint
