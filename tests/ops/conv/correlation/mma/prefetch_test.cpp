// The prefetch of the mma.sync kernel of conv and conv_transpose, replayed: a step reads the data that were loaded for
// it.
#include <adjoint/ops/conv/correlation/cuda/mma/prefetch.h>
#include <adjoint/tests/support/conv_cases.h>
#include <adjoint/tests/support/conv_problem.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace adjoint::testing {
namespace {

/// One step of a block's walk over some tiles: numbers that name its stage of input and its filter block.
struct Step {
  int stage, block;
};

std::vector<Step> walk(const cuda::CorrelationPlan& p, std::int64_t tiles) {
  std::vector<Step> steps;
  int stage = 0, block = 0;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const cuda::CorrelationClass& c = p.class_list[cuda::correlation_work(p, tile).class_index];
    if (p.weights_resident) block = 0;
    for (int i = c.first_pass; i < c.first_pass + c.passes; ++i) {
      for (int chunk = 0; chunk < p.chunks; ++chunk, ++stage) {
        for (int s = p.passes[i].first_step; s < p.passes[i].end_step; ++s) steps.push_back({stage, block++});
      }
    }
  }
  return steps;
}

void replay(const cuda::CorrelationPlan& p, int ahead) {
  const std::vector<Step> steps = walk(p, std::min<std::int64_t>(p.tiles(), 3 * p.column_tiles));
  std::vector<int> stages(static_cast<std::size_t>(p.x_stages), -1), slots(static_cast<std::size_t>(p.w_slots), -1);
  const auto load = [&](std::size_t i) {
    if (i >= steps.size()) return;
    stages[static_cast<std::size_t>(steps[i].stage % p.x_stages)] = steps[i].stage;
    slots[static_cast<std::size_t>(steps[i].block % p.w_slots)] = steps[i].block;
  };
  for (int i = 0; i < ahead; ++i) load(static_cast<std::size_t>(i));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    load(i + static_cast<std::size_t>(ahead));
    ASSERT_EQ(stages[static_cast<std::size_t>(steps[i].stage % p.x_stages)], steps[i].stage);
    ASSERT_EQ(slots[static_cast<std::size_t>(steps[i].block % p.w_slots)], steps[i].block);
  }
}

TEST(CorrelationPrefetch, OverwritesNothingThatIsStillRead) {
  std::set<int> reached;
  for (const ConvCase& c : planar_conv_cases()) {
    SCOPED_TRACE(c);
    for (const cuda::Arithmetic arithmetic : {cuda::Arithmetic::kTF32, cuda::Arithmetic::kBFloat16}) {
      for (const bool transposed : {false, true}) {
        for (const std::int64_t kilobytes : {100, 164}) {
          cuda::CorrelationPlan plan;
          if (!cuda::plan_correlation(geometry(c), transposed, arithmetic,
                                      {1024 * kilobytes, 128, 1, kilobytes == 100 ? 1 : 2}, {}, plan))
            continue;
          const int ahead = cuda::correlation_steps_ahead(plan);
          replay(plan, ahead);
          if (::testing::Test::HasFatalFailure()) return;
          reached.insert(ahead);
        }
      }
    }
  }
  EXPECT_EQ(reached, (std::set<int>{1, 2, 3}));
}

}  // namespace
}  // namespace adjoint::testing
