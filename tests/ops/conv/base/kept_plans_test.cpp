// The cache of plans, without a GPU.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/base/error.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/tests/support/conv_choices.h>
#include <adjoint/tests/support/conv_machine.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace adjoint::testing {
namespace {

struct Plan {
  std::int64_t batch = 0;
};

struct LargePlan {
  std::int64_t batch = 0;
  std::int64_t steps[1024] = {};
};

/// The plan of a problem with `samples` samples; `made` counts the plans made.
template <class Plan = testing::Plan>
const Plan* plan_of(std::int64_t batch, int& made, const cuda::Machine& machine = kOneMultiprocessor) {
  ConvGeometry g{};
  g.batch = batch;
  const cuda::ConvProblem problem{.role = cuda::ConvRole::kFeature,
                                  .geometry = g,
                                  .dtype = kFloat32,
                                  .precision = Precision::kFull,
                                  .device = 0,
                                  .machine = machine};
  return cuda::keep_plan<Plan>(problem, [&](Plan& plan) {
    ++made;
    plan.batch = batch;
    return batch >= 0;
  });
}

TEST(KeptPlans, AreMadeOnce) {
  const cuda::PretendGpu gpu(kHopper);
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
  const cuda::PretendGpu gpu(kHopper);
  constexpr auto kMost = static_cast<std::int64_t>(cuda::kMostKept), kRecent = std::int64_t{cuda::kMostRecent};
  int made = 0;
  for (std::int64_t batch = 1; batch <= kMost + kRecent; ++batch) plan_of(batch, made);
  for (std::int64_t held = 1; held <= kMost; held += 97) {
    const int before = made;
    EXPECT_EQ(plan_of(held, made)->batch, held);
    EXPECT_EQ(made, before) << "the first ones stay";
  }
  for (std::int64_t held = 1; held < kRecent; ++held) {
    const Plan* const plan = plan_of(2 * kMost + held, made);
    for (std::int64_t next = 1; next < kRecent; next += 13) plan_of(kMost * (3 + held) + next, made);
    const int before = made;
    EXPECT_EQ(plan_of(2 * kMost + held, made), plan) << held;
    EXPECT_EQ(made, before) << held << " was made again";
    EXPECT_EQ(plan->batch, 2 * kMost + held);
  }
}

// A training that has seen many lengths of sound asks for some hundreds of late plans in a step.
TEST(KeptPlans, OfLateProblemsAreMadeOnceARound) {
  const cuda::PretendGpu gpu(kHopper);
  constexpr auto kMost = static_cast<std::int64_t>(cuda::kMostKept), kRecent = std::int64_t{cuda::kMostRecent};
  int made = 0;
  for (std::int64_t batch = 1; batch <= kMost; ++batch) plan_of(batch, made);
  made = 0;
  for (int round = 0; round < 3; ++round) {
    for (std::int64_t late = 1; late <= kRecent; ++late) {
      const Plan* const plan = plan_of(late % 5 == 0 ? -kMost - late : (std::int64_t{1} << 42) + late, made);
      EXPECT_EQ(plan == nullptr, late % 5 == 0);
    }
    EXPECT_EQ(made, kRecent);
  }
}

TEST(KeptPlans, AreKeptThoughMakingAnotherFails) {
  cuda::RecentPlans<Plan, 4> recent;
  int made = 0;
  const auto find_or_add = [&](std::int64_t number, bool fails = false) {
    const auto make = [&](Plan& plan) {
      if (fails) throw Error("no plan");
      ++made;
      plan.batch = number;
      return true;
    };
    const cuda::PlanKey key{number};
    bool is_known = false;
    const Plan* const plan = recent.find(key, is_known);
    return is_known ? plan : recent.add(key, make);
  };
  for (std::int64_t number = 1; number <= 4; ++number) find_or_add(number);
  EXPECT_ERROR(find_or_add(5, true), "no plan");  // in the place of 1
  for (const std::int64_t number : {1, 5, 6, 7}) EXPECT_EQ(find_or_add(number)->batch, number);
  made = 0;
  for (const std::int64_t number : {1, 5, 6, 7}) EXPECT_EQ(find_or_add(number)->batch, number);
  EXPECT_EQ(made, 0);
}

// Of kernels that are compared one runs: its plan is kept then, and not made again; those of the others are not kept.
TEST(KeptPlans, AreKeptForThoseThatRun) {
  const cuda::PretendGpu gpu(kHopper);
  constexpr auto kCompared = std::int64_t{cuda::kMostCompared};
  int made = 0;
  {
    const cuda::ComparePlans comparing;
    const LargePlan* const first = plan_of<LargePlan>(0, made);
    for (std::int64_t batch = 1; batch < kCompared; ++batch) plan_of<LargePlan>(batch, made);
    EXPECT_EQ(plan_of<LargePlan>(0, made), first);
    EXPECT_EQ(plan_of<LargePlan>(-1, made), nullptr);
    EXPECT_EQ(plan_of<LargePlan>(-1, made), nullptr);
    EXPECT_EQ(made, kCompared + 1);
  }
  const LargePlan* const kept = plan_of<LargePlan>(kCompared - 1, made);
  EXPECT_EQ(plan_of<LargePlan>(-1, made), nullptr);
  EXPECT_EQ(made, kCompared + 1) << "what was compared last was made again";
  {
    const cuda::ComparePlans comparing;
    for (std::int64_t batch = 0; batch < kCompared; ++batch) plan_of<LargePlan>(100 + batch, made);
    EXPECT_EQ(plan_of<LargePlan>(kCompared - 1, made), kept);
    EXPECT_EQ(kept->batch, kCompared - 1);
  }
  const int before = made;
  plan_of<LargePlan>(0, made);
  EXPECT_EQ(made, before + 1) << "what lost was kept";
}

// A machine may have GPUs of several architectures, and a plan may be for one alone.
TEST(KeptPlans, AreOfOneGpu) {
  int made = 0;
  const auto on = [&](const cuda::Gpu& which) {
    const cuda::PretendGpu gpu(which);
    return plan_of(std::int64_t{1} << 40, made);
  };
  const Plan* const hopper = on(kHopper);
  EXPECT_NE(on(kAmpere), hopper);
  EXPECT_EQ(on(kHopper), hopper);
  EXPECT_EQ(made, 2);
}

TEST(KeptPlans, AreOfOneMachine) {
  const cuda::PretendGpu gpu(kHopper);
  constexpr std::int64_t kBatch = std::int64_t{1} << 41;
  int made = 0;
  const Plan* const first = plan_of(kBatch, made);
  EXPECT_NE(plan_of(kBatch, made, {.multiprocessors = 1, .smem_bytes = 1 << 16}), first);
  EXPECT_NE(plan_of(kBatch, made, {.multiprocessors = 1, .l2_bytes = 1}), first);
  EXPECT_NE(plan_of(kBatch, made, {.multiprocessors = 2}), first);
  EXPECT_EQ(plan_of(kBatch, made), first);
  EXPECT_EQ(made, 4);
}

TEST(KeptPlans, AreSharedByThreads) {
  const cuda::PretendGpu gpu(kHopper);
  std::atomic<int> made = 0;
  std::vector<const Plan*> found(8);
  std::vector<std::thread> threads;
  for (const Plan*& plan : found) {
    threads.emplace_back([&] {
      const cuda::PretendGpu same_gpu(kHopper);
      int own = 0;
      for (std::int64_t batch = 100; batch < 200; ++batch) plan = plan_of(batch, own);
      made += own;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Plan* plan : found) EXPECT_EQ(plan, found[0]);
  int again = 0;
  EXPECT_EQ(plan_of(199, again), found[0]);
  EXPECT_EQ(again, 0);
}

}  // namespace
}  // namespace adjoint::testing
#endif
