// Workspaces that a thread keeps for its next kernels on the default stream (core/cuda/spare_workspaces.h): kernels
// that use them are correct, from several threads, between shapes and streams.

#include <adjoint/core/base/stream.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/tests/support/conv_trio.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

namespace adjoint::testing {
namespace {

struct Known {
  ConvProblem problem;
  TrioValues values;
};

/// Of kernels that pack filters, copy operands and add slices up; many workspaces have one size.
std::vector<Known> known_problems() {
  const ConvCase cases[] = {
      {.batch = 2,
       .in_channels = 64,
       .out_channels = 32,
       .input = {8, 8},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.batch = 1,
       .in_channels = 64,
       .out_channels = 32,
       .input = {9, 7},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.batch = 4, .in_channels = 32, .out_channels = 64, .input = {1, 200}, .kernel = {1, 3}, .padding = {0, 1}},
      {.batch = 1, .in_channels = 128, .out_channels = 128, .input = {4, 4}, .kernel = {3, 3}, .padding = {1, 1}},
      {.batch = 8, .in_channels = 48, .out_channels = 40, .input = {5, 5}},
  };
  std::vector<Known> known;
  for (const ConvCase& c : cases) {
    ConvProblem p = integer_problem(geometry(c));
    TrioValues values = values_of(run_trio(p, {.dtype = kFloat64}));
    known.push_back({std::move(p), std::move(values)});
  }
  return known;
}

void expect_known(const std::vector<Known>& known, std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    const Known& k = known[i % known.size()];
    expect_trio_values(run_trio(k.problem, {.dtype = i % 3 == 0 ? kBFloat16 : kFloat32, .device = kCUDA}), k.values);
  }
}

TEST(SpareWorkspacesCuda, ServeThreadsThatShareTheDefaultStream) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const std::vector<Known> known = known_problems();
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&known, thread] { expect_known(known, thread, 40); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SpareWorkspacesCuda, LeaveOtherStreamsAlone) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const std::vector<Known> known = known_problems();
  const Stream other = Stream::create();
  for (std::size_t i = 0; i < 40; ++i) {
    std::optional<StreamGuard> guard;
    if (i % 2 == 1) guard.emplace(other);
    expect_known(known, i, 1);
  }
}

TEST(SpareWorkspacesCuda, AreGivenBackWithTheCaches) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const std::vector<Known> known = known_problems();
  empty_cache();
  const std::size_t before = memory_stats(kCUDA).held;
  expect_known(known, 0, known.size());
  empty_cache();
  EXPECT_LE(memory_stats(kCUDA).held, before);
}

}  // namespace
}  // namespace adjoint::testing
