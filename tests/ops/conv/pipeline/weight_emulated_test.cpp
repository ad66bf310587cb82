// The pipeline's kernels of conv_weight on the emulator: exact on small integers by plans of every form and in any
// order of execution.
#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/pipeline/weight_plan.h>
#include <adjoint/tests/ops/conv/pipeline/cases.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <adjoint/tests/support/emulation/tensor_map.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/pipeline/cuda/weight/launch.cuh>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

/// The parts of the kernel that the cases have reached.
using Reached = std::set<std::string>;

/// [tap][slice][feature channel][image channel] as [feature channel][image channel][tap], slices added.
std::vector<double> gathered(const cuda::TapGather& gather, std::int64_t taps, const std::vector<float>& sums) {
  std::vector<double> filter;
  for (std::int64_t i = 0; i < gather.count; ++i) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      double sum = 0;
      for (std::int64_t slice = 0; slice < gather.slices; ++slice) {
        const std::int64_t at = tap * gather.tap_stride + slice * gather.slice_stride + i;
        sum += static_cast<double>(sums[static_cast<std::size_t>(at)]);
      }
      filter.push_back(sum);
    }
  }
  return filter;
}

/// By a plan of the problem.
template <class M>
void check(const ConvProblem& p, const cuda::PipelineGeometry& g, const cuda::PipelineWeightPlan& plan,
           std::uint64_t seed, Reached& reached) {
  using T = typename M::Element;
  const auto positions = [](const cuda::PipelineAxes& e) { return e[1] * e[2] * e[3]; };
  Operand<T> image(channels_last(p.image, g.source_channels, positions(g.source)), 0),
      feature(channels_last(p.feature, g.result_channels, positions(g.result)), 0);
  std::vector<float> sums(static_cast<std::size_t>(plan.sums_bytes() / 4), std::nanf(""));
  emulate_launches(seed);
  cuda::run_pipeline_weight_in<M::kArithmetic>(plan,
                                               {.image = image.data(), .feature = feature.data(), .sums = sums.data()},
                                               0);
  EXPECT_EQ(gathered(plan.gather, plan.taps, sums), oracle::conv_weight(p.geometry, p.image, p.feature));
  reached.insert("columns " + std::to_string(plan.columns));
  reached.insert("taps " + std::to_string(plan.team_taps));
  reached.insert(plan.shares_taps ? "teams of channels" : "teams of taps");
  if (plan.shares_rows) reached.insert("shared rows");
  if (plan.feature.pitch[3] != 1) reached.insert("another order of axes");
  if (plan.sets_divider.divisor() > 1) reached.insert("sets");
  if (plan.slices > 1) reached.insert("slices");
  reached.insert("rows " + std::to_string(plan.strip_rows));
  if (plan.slice_strips > 1) reached.insert("strips");
  if (plan.set_list[plan.sets_divider.divisor() - 1].box.phase > 0) reached.insert("phases");
}

template <class M>
class PipelineWeightEmulation : public ::testing::Test {};
TYPED_TEST_SUITE(PipelineWeightEmulation, ProductModes);

TYPED_TEST(PipelineWeightEmulation, EveryFormIsExact) {
  Reached reached;
  std::uint64_t seed = 0;
  for (const ConvCase& c : kPipelineCases) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    const cuda::PipelineGeometry g = cuda::pipeline_geometry(p.geometry, false);
    // Few multiprocessors leave slices several strips, and blocks several tiles.
    const cuda::Machine machine{.multiprocessors = ++seed % 2 == 0 ? 4 : cuda::kMultiprocessors};
    double clocks = cuda::PlansAbove::kAnew;
    for (int plans = 0;; ++plans) {
      const cuda::PlansAbove above(clocks);
      cuda::PipelineWeightPlan plan;
      const bool found = cuda::plan_pipeline_weight(g, TypeParam::kArithmetic, machine, plan);
      ASSERT_TRUE(found || plans > 0);
      if (!found) break;
      clocks = cuda::pipeline_weight_clocks(plan, machine);
      // One in twelve, another one in each case, because the emulator needs a quarter of a second a plan.
      if (static_cast<std::uint64_t>(plans) % 12 != 5 * seed % 12) continue;
      SCOPED_TRACE(::testing::Message() << "columns " << plan.columns << ", taps " << plan.team_taps);
      check<TypeParam>(p, g, plan, seed + static_cast<std::uint64_t>(plans), reached);
    }
  }
  Reached all{
      "columns 128", "columns 64", "taps 1", "taps 2", "taps 3", "teams of channels",    "teams of taps", "sets",
      "slices",      "strips",     "phases", "rows 8", "rows 4", "another order of axes"};
  all.insert(TypeParam::kArithmetic == cuda::Arithmetic::kTF32 ? "shared rows" : "rows 16");
  EXPECT_EQ(reached, all);
}

}  // namespace
}  // namespace adjoint::testing
