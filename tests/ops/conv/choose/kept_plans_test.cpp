// What is kept of plans, without a GPU.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/ops/conv/choose/cuda/kept_plans.h>
#include <adjoint/ops/conv/correlation/clocks.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::testing {
namespace {

struct Plan {
  std::int64_t batch = 0;
};

/// The plan of a problem of so many samples; `made` counts those that were made.
const Plan* plan_of(std::int64_t batch, int& made) {
  ConvGeometry g{};
  g.batch = batch;
  const cuda::ConvProblem problem{.role = cuda::ConvRole::kFeature,
                                  .geometry = g,
                                  .dtype = kFloat32,
                                  .precision = Precision::kFull,
                                  .device = 0,
                                  .first = nullptr,
                                  .second = nullptr,
                                  .bias = nullptr,
                                  .out = nullptr};
  return cuda::keep_plan<Plan>(problem, [&](Plan& plan) {
    ++made;
    plan.batch = batch;
    return batch >= 0;
  });
}

TEST(KeptPlans, AreMadeOnce) {
  const cuda::PlanForMultiprocessors plans(1);
  int made = 0;
  const Plan* const first = plan_of(1, made);
  EXPECT_EQ(plan_of(1, made), first);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(plan_of(-1, made), nullptr);
  EXPECT_EQ(plan_of(-1, made), nullptr);
  EXPECT_EQ(made, 2) << "what has no plan is kept too";
}

// A kernel that holds its plan asks for those of the kernels in it, however many problems came before.
TEST(KeptPlans, OutliveTheNextOnes) {
  const cuda::PlanForMultiprocessors plans(1);
  constexpr auto kMost = static_cast<std::int64_t>(cuda::kMostKept);
  int made = 0;
  for (std::int64_t batch = 1; batch <= kMost; ++batch) plan_of(batch, made);
  for (std::int64_t held = 1; held <= kMost; ++held) {
    const Plan* const plan = plan_of(held, made);
    const int before = made;
    plan_of(kMost + held, made);
    EXPECT_EQ(made, before + 1);
    EXPECT_EQ(plan_of(held, made), plan) << held;
    EXPECT_EQ(made, before + 1) << held << " was made again";
    EXPECT_EQ(plan->batch, held);
  }
}

}  // namespace
}  // namespace adjoint::testing
#endif
