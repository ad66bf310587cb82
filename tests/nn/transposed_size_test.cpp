#include <adjoint/nn/conv.h>
#include <adjoint/nn/transposed_size.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint::nn {
namespace {

using Map = std::vector<std::int64_t>;

TEST(TransposedSize, OverlapMapCountsTapsOfEachPhase) {
  EXPECT_EQ(overlap_map(4, 2), (Map{2, 2}));
  EXPECT_EQ(overlap_map(3, 2), (Map{2, 1}));
  EXPECT_EQ(overlap_map(3, 2, 2), (Map{3, 0}));
  EXPECT_EQ(overlap_map(1, 3), (Map{1, 0, 0}));
  EXPECT_ERROR(overlap_map(0, 1), "overlap_map: ", "kernel_size 0");
}

TEST(TransposedSize, LayersHaveTheSizeThatWasSolvedFor) {
  for (const std::int64_t kernel : {1, 3, 4}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const std::int64_t out : {2, 5, 6, 7}) {
        TransposedPaddings p;
        try {
          p = solve_transposed_size(3, out, kernel, stride);
        } catch (const Error&) {
          continue;
        }
        const ConvTranspose1d layer(
            1, 1, {.kernel_size = kernel, .stride = stride, .padding = p.padding, .output_padding = p.output_padding});
        EXPECT_EQ(layer(Tensor::ones({1, 1, 3})).size(2), out) << kernel << " " << stride;
      }
    }
  }
  EXPECT_EQ(solve_transposed_size(8, 16, 4, 2).padding, 1);
  EXPECT_EQ(solve_transposed_size(8, 16, 3, 2).output_padding, 1);
  EXPECT_ERROR(solve_transposed_size(2, 100, 3, 2), "solve_transposed_size: no padding", "out 100");
  EXPECT_ERROR(solve_transposed_size(3, 2, 1, 1), "solve_transposed_size: no padding", "out 2");
  EXPECT_ERROR(solve_transposed_size(0, 2, 1, 1), "solve_transposed_size: arguments", "in 0");
}

TEST(CheckerboardWarning, IsOneLineWhereItIsOn) {
  const auto printed = [](std::int64_t kernel) {
    ::testing::internal::CaptureStderr();
    const ConvTranspose2d layer(1, 1, {.kernel_size = kernel, .stride = 2});
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(printed(3), "");
  set_checkerboard_warning(true);
  EXPECT_EQ(printed(4), "");
  EXPECT_EQ(
      printed(3),
      "adjoint: warning: ConvTranspose2d: kernel_size 3 with stride 2 adds up (2, 1) taps at the output's phases, which shows as a "
      "checkerboard; a multiple of the stride does not\n");
  set_checkerboard_warning(false);
  EXPECT_EQ(printed(3), "");
}

}  // namespace
}  // namespace adjoint::nn
