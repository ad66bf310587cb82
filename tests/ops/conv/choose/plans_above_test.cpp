// Planners return all plans that they propose, one by one (PlansAbove), for tables of measured times.

#ifdef ADJOINT_WITH_CUDA
#include <adjoint/bench/layers.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/tests/support/conv_choices.h>
#include <adjoint/tests/support/conv_cuda.h>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace adjoint::testing {
namespace {

constexpr int kMost = 16;

// Names of kernels for which several plans were found.
std::set<std::string> planned_several(const std::string& layers, std::int64_t batch) {
  const cuda::PretendGpu pretend(kHopper);
  std::set<std::string> several;
  for (const bench::Layer& layer : bench::read_layers(layers)) {
    for (const char* mode : {"tf32", "bfloat16", "float32"}) {
      for (const cuda::ConvRole role : kConvRoles) {
        const cuda::ConvProblem problem =
            unplaced_problem(role, layer.with_batch(layer.batch.value_or(batch)), bench::mode_named(mode));
        for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role)) {
          if (rearranges(*kernel)) continue;
          SCOPED_TRACE(layer.name + ", " + mode + ", " + kernel->name);
          double own = 0.0;
          {
            const cuda::PlansAbove anew(cuda::PlansAbove::kAnew);
            if (!kernel->takes(problem)) continue;
            own = cuda::PlansAbove::found();
          }
          if (own == 0.0) continue;  // its planner does not search
          double clocks = 0.0;
          int count = 0;
          for (; count < kMost; ++count) {
            const cuda::PlansAbove above(clocks);
            if (!kernel->takes(problem) || cuda::PlansAbove::found() == 0.0) break;
            EXPECT_GT(cuda::PlansAbove::found(), clocks);
            clocks = cuda::PlansAbove::found();
          }
          if (count > 1) several.insert(kernel->name);
          EXPECT_TRUE(kernel->takes(problem)) << "what is passed over is forgotten afterwards";
        }
      }
    }
  }
  return several;
}

TEST(ConvPlansAbove, TellAllPlansInTheOrderOfTheirClocks) {
  const std::set<std::string> several = planned_several("everyday", 1);
  for (const char* kernel :
       {"correlation_conv", "blocked_conv", "sliced_conv_transpose", "mma_conv", "wgmma_conv_weight",
        "boxes_conv_weight", "blocked_conv_weight", "tensor_core_conv_weight", "tapwise_conv_weight"}) {
    EXPECT_EQ(several.count(kernel), 1U) << kernel;
  }
}

}  // namespace
}  // namespace adjoint::testing
#endif
