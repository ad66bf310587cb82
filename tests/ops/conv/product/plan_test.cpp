// The limits of products of matrices; how their plans are carried out is replayed on the emulator.
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/product/plan.h>
#include <adjoint/tests/support/conv_cases.h>

#include <gtest/gtest.h>

#include <cstdint>

namespace adjoint::testing {
namespace {

TEST(ProductPlan, LeavesSamplesThatTheCopyEngineCannotStepOverToOthers) {
  const auto takes = [](std::int64_t channels) {
    const ConvCase c{.in_channels = 8, .out_channels = channels, .input = {1 << 14, 1 << 14}};
    cuda::ProductPlan plan;
    return cuda::plan_product(geometry(c), cuda::ProductOf::kFeature, cuda::Arithmetic::kBFloat16, {}, plan);
  };
  EXPECT_TRUE(takes((1 << 10) - 1));
  EXPECT_FALSE(takes(1 << 10)) << "2^38 elements";
}

TEST(ProductPlan, LeavesSumsOfMoreStagesThanAreCountedToOthers) {
  const auto takes = [](std::int64_t width) {
    const ConvCase c{.batch = 1 << 12, .in_channels = 8, .out_channels = 8, .input = {1, width}};
    cuda::ProductPlan plan;
    return cuda::plan_product(geometry(c), cuda::ProductOf::kFilter, cuda::Arithmetic::kBFloat16, {}, plan);
  };
  EXPECT_TRUE(takes((1 << 18) - 64));
  EXPECT_FALSE(takes(1 << 18)) << "2^24 stages";
}

}  // namespace
}  // namespace adjoint::testing
