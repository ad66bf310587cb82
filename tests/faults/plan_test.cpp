// A planned call on one thread, and a block of a stream: no allocation, no lock, no system call.
#include <adjoint/adjoint.h>
#include <adjoint/nn/plan.h>
#include <adjoint/nn/streaming.h>
#include <adjoint/tests/faults/allocations.h>
#include <adjoint/tests/nn/networks/autoencoder.h>
#include <adjoint/tests/nn/networks/dcgan.h>
#include <adjoint/tests/nn/networks/espcn.h>
#include <adjoint/tests/nn/networks/fsrcnn.h>
#include <adjoint/tests/nn/networks/hifigan.h>
#include <adjoint/tests/nn/networks/unet.h>
#include <adjoint/tests/support/sanitized.h>

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

thread_local bool counts_locks = false;
thread_local std::int64_t locks = 0;

}  // namespace

// This program's own, which the library uses, too.
extern "C" __attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto original = reinterpret_cast<int (*)(pthread_mutex_t*)>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (counts_locks) ++locks;
  return original(mutex);
}

namespace adjoint::nn {
namespace {

using Call = std::function<void()>;

struct Case {
  std::string name;
  std::function<Call()> prepare;
};

template <class Net>
Case case_of(const char* name, Net net, const Shape& shape) {
  net.eval();
  return {name, [=]() -> Call {
            const auto plan = std::make_shared<Plan>(net, std::vector{Tensor::full(shape, 0.5)});
            return [plan, x = plan->inputs()[0].clone()] { plan->run({x}); };
          }};
}

// Whole blocks and shorter ones alternate, as tensors and as elements in memory.
template <class Net>
Case stream_of(const char* name, Net net, const StreamingOptions& options) {
  net.eval();
  return {name, [=]() -> Call {
            const auto stream = std::make_shared<Streaming>(net, options);
            const std::int64_t part = stream->multiple();
            const Tensor whole = Tensor::full({1, options.channels, options.block}, 0.5);
            const std::vector<float> shorter(static_cast<std::size_t>(options.channels * part), 0.25F);
            Tensor out = (*stream)(whole);
            std::vector<float> short_out(static_cast<std::size_t>(stream->outputs(part)));
            return [=]() mutable {
              stream->process(whole, out);
              stream->process(shorter, short_out);
            };
          }};
}

// A recurrent layer between two rates.
struct RecurrentNet : Module {
  Tensor operator()(const Tensor& x) const {
    return up(lstm(tanh(down(x)).transpose(1, 2)).output.transpose(1, 2)) + x;
  }
  Child<Conv1d> down = register_module("down", Conv1d(1, 3, {.kernel_size = 4, .stride = 2, .padding = 1}));
  Child<LSTM> lstm = register_module("lstm", LSTM(3, 3, {.batch_first = true}));
  Child<ConvTranspose1d> up =
      register_module("up", ConvTranspose1d(3, 1, {.kernel_size = 4, .stride = 2, .padding = 1}));
};

std::vector<Case> cases() {
  return {case_of("espcn", networks::Espcn(), {1, 1, 6, 6}),
          case_of("fsrcnn", networks::Fsrcnn(), {1, 1, 6, 6}),
          case_of("unet", networks::UNet(), {1, 1, 16, 16}),
          case_of("hifigan", networks::HifiGan(), {1, 6, 3}),
          case_of("dcgan", networks::DcganGenerator(4, 4), {1, 4, 1, 1}),
          case_of("autoencoder", networks::Autoencoder(), {1, 1, 28, 28}),
          case_of("layers",
                  Sequential(Conv2d(3, 4, {.kernel_size = 3}), GroupNorm(2, 4), GELU(), AvgPool2d(2), InstanceNorm2d(4),
                             Upsample({.scale_factor = {2.0}, .mode = Interpolation::kBicubic}), PixelUnshuffle(2),
                             Flatten(), Linear(576, 8), LayerNorm({8}), Softmax(1)),
                  {2, 3, 14, 14}),
          stream_of("stream of hifigan", networks::HifiGan(), {.block = 1, .channels = 6}),
          stream_of("stream of layers",
                    Sequential(Conv1d(1, 4, {.kernel_size = 9, .padding = 4, .dilation = 2}), BatchNorm1d(4), Tanh(),
                               Conv1d(4, 6, {.kernel_size = 4, .stride = 2, .padding = 1}), PReLU(), MaxPool1d(3, 1, 1),
                               ConvTranspose1d(6, 1, {.kernel_size = 4, .stride = 2, .padding = 1})),
                    {.block = 64}),
          stream_of("stream of recurrent layers", RecurrentNet(), {.block = 16})};
}

constexpr int kCalls = 10000;

TEST(PlannedCall, AllocatesNothingAndTakesNoLock) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer allocates for itself";
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Call call = c.prepare();
    std::int64_t allocations = 0;
    {
      const testing::FailAllocation counting(0, false, allocations);
      counts_locks = true;
      locks = 0;
      for (int i = 0; i < kCalls; ++i) call();
      counts_locks = false;
    }
    EXPECT_EQ(allocations, 0);
    EXPECT_EQ(locks, 0);
  }
}

// The kernel ends a process in this mode with SIGKILL for every system call except read, write and exit.
TEST(PlannedCall, MakesNoSystemCall) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer calls the system for itself";
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      set_num_threads(1);  // so that the process ends with this thread
      const Call call = c.prepare();
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
      for (int i = 0; i < kCalls; ++i) call();
      ::syscall(SYS_exit, 0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : std::to_string(status));
  }
}

}  // namespace
}  // namespace adjoint::nn
