// A Profiler on a GPU: times of kernels compared with the clock's, and many calls.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/core/profile/profile_rows.h>

#include <algorithm>
#include <chrono>

namespace adjoint {
namespace {

double device_seconds(const std::vector<ProfileRow>& rows) {
  double sum = 0.0;
  for (const ProfileRow& row : rows) sum += row.device_seconds;
  return sum;
}

void train_on_gpu(int steps) {
  manual_seed(3);
  nn::Sequential net{nn::Conv2d(1, 16, {.kernel_size = 3, .padding = 1}), nn::ReLU(),
                     nn::ConvTranspose2d(16, 1, {.kernel_size = 4, .stride = 2, .padding = 1})};
  net.to(kCUDA);
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  const Tensor x = Tensor::rand({4, 1, 32, 32}, {.device = kCUDA}), y = Tensor::rand({4, 1, 64, 64}, {.device = kCUDA});
  for (int step = 0; step < steps; ++step) {
    Tape tape;
    const Tensor loss = mse_loss(net(x), y);
    tape.backward(loss);
    sgd.step();
    sgd.zero_grad();
  }
}

// Another process's kernels may alternate with this one's, so the GPU is not ours for all of the clock's time.
// Therefore only one of many rounds must show that the profiler sees most of the time; that it never sees more is
// required of all.
TEST(ProfilerCuda, TimesAgreeWithTheClock) {
  if (!cuda_is_available()) GTEST_SKIP() << "no GPU";
  const Tensor x = Tensor::ones({1 << 26}, {.device = kCUDA});
  Tensor y = x.exp();
  double most = 0.0, best_share = 0.0;
  for (int round = 0; round < 50 && (most <= 0.5 || best_share <= 0.3); ++round) {
    synchronize(kCUDA);
    Profiler profiler({.nvtx = true});
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) y = x.exp();
    synchronize(kCUDA);
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::vector<ProfileRow> rows = profiler.rows();
    const auto exp = find(rows, "exp");
    ASSERT_TRUE(exp) << names(rows);
    EXPECT_EQ(exp->device, kCUDA);
    EXPECT_EQ(exp->calls, 20);
    EXPECT_LT(exp->device_seconds, 1.05 * wall);
    EXPECT_LT(exp->floor_share(), 1.05);
    most = std::max(most, exp->device_seconds / wall);
    best_share = std::max(best_share, exp->floor_share());
  }
  EXPECT_GT(most, 0.5);
  EXPECT_GT(best_share, 0.3);
}

TEST(ProfilerCuda, ReadsMoreCallsThanWait) {
  if (!cuda_is_available()) GTEST_SKIP() << "no GPU";
  const Folder folder;
  Profiler profiler({.max_trace_calls = 100});
  Tensor x = Tensor::ones({100}, {.device = kCUDA});
  for (int i = 0; i < 5000; ++i) x = x + x;
  const std::vector<ProfileRow> rows = profiler.rows();
  EXPECT_EQ(find(rows, "add")->calls, 5000);
  EXPECT_GT(find(rows, "add")->device_seconds, 5000 * 0.2e-6);
  profiler.write_trace(folder / "trace.json");
  const nlohmann::json trace = read_json(folder / "trace.json");
  std::size_t spans = 0;
  for (const auto& event : trace.at("traceEvents")) spans += event.at("ph") == "X" && event.at("pid") == 1 ? 1 : 0;
  EXPECT_EQ(spans, 100U);
}

TEST(ProfilerCuda, TakesInnerTimeOffOuterRows) {
  if (!cuda_is_available()) GTEST_SKIP() << "no GPU";
  const Tensor x = Tensor::ones({1 << 26}, {.device = kCUDA});
  Profiler profiler;
  {
    const ProfileScope scope("scope", kCUDA);
    (void)x.exp();
  }
  const std::vector<ProfileRow> rows = profiler.rows();
  const auto scope = find(rows, "scope"), exp = find(rows, "exp", "", "scope");
  ASSERT_TRUE(scope && exp) << names(rows);
  EXPECT_GT(exp->device_seconds, 0.0);
  EXPECT_LT(scope->device_seconds, 0.5 * exp->device_seconds);
}

TEST(ProfilerCuda, ProfilesTraining) {
  if (!cuda_is_available()) GTEST_SKIP() << "no GPU";
  Profiler profiler;
  train_on_gpu(3);
  const std::vector<ProfileRow> rows = profiler.rows();
  EXPECT_TRUE(find(rows, "conv_weight", "conv2d backward", "Sequential.0")) << names(rows);
  EXPECT_GT(device_seconds(rows), 0.0);
}

}  // namespace
}  // namespace adjoint
