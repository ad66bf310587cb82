// Sums in slices on the emulator: the tensor-core kernels' partial results, in float32 for every input type, and their
// addition with bias and activation.
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/correlation/slices.h>
#include <adjoint/ops/conv/sums/cuda/slices.h>
#include <adjoint/tests/ops/conv/correlation/blocks/emulated_run.h>
#include <adjoint/tests/ops/conv/correlation/emulated_run.h>
#include <adjoint/tests/support/activations.h>
#include <adjoint/ops/conv/sums/cuda/slices.cuh>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

template <class M>
class SlicedEmulation : public CorrelationFixture {
 protected:
  cuda::CorrelationLimits limits = cuda::kCorrelationLimits;  // of one of the two kernels

  bool compute(const CorrelationCall& call) override {
    using T = typename M::Element;
    const ConvGeometry& g = call.geometry;
    cuda::CorrelationPlan plan;
    if (!cuda::plan_slices(g, call.transposed, M::kArithmetic, limits, machine, plan)) return false;
    const std::vector<double> nothing(call.expected.size(), std::numeric_limits<double>::quiet_NaN());
    const bool pairs = plan.unit_columns == 2;  // which begin at a multiple of 16 bytes
    Operand<T> in(call.x, pairs ? 0 : call.seed % 9), filter(call.filter, call.seed % 3), biases(call.bias, 0);
    Operand<T> out(nothing, call.seed % 3 == 0 ? 0 : call.seed % 5), linear(nothing, 0);
    Operand<float> partial(std::vector<double>(static_cast<std::size_t>(cuda::slices_bytes(plan)) / sizeof(float),
                                               std::numeric_limits<double>::quiet_NaN()),
                           0);
    cuda::CorrelationOperands operands{in.data(),
                                       nullptr,
                                       nullptr,
                                       partial.data(),
                                       cuda::correlation_load_bytes(plan, in.data(), sizeof(T)),
                                       cuda::row_vector(partial.data(), plan.out_w, sizeof(float)),
                                       {},
                                       nullptr,
                                       true};
    if (M::kDType == kFloat32 || pairs)
      cuda::set_correlation_ways(plan, M::kSplit, emulation::encode_tensor_map, operands);
    const cuda::ConvProblem problem{.role = call.transposed ? cuda::ConvRole::kImage : cuda::ConvRole::kFeature,
                                    .geometry = g,
                                    .dtype = M::kDType,
                                    .precision = Precision::kFull,
                                    .device = 0,
                                    .first = in.data(),
                                    .second = filter.data(),
                                    .bias = call.bias.empty() ? nullptr : biases.data(),
                                    .out = out.data(),
                                    .activation = call.activation,
                                    .linear = call.activation.is_none() ? nullptr : linear.data()};
    emulate_launches(call.seed, 1);
    if (plan.blocked) {
      run_blocked<M>(plan, operands, problem);
    } else {
      cuda::run_correlation<M::kArithmetic>(plan, operands, problem);
    }
    const auto addition = cuda::sliced::addition_of<T>(problem, partial.data(), plan.slices);
    cuda::add_slices(problem, partial.data(), plan.slices);
    if (problem.linear != nullptr) expect_equal(linear.data(), call.expected);
    std::vector<double> activated = call.expected;
    for (double& value : activated) value = addition.activate(static_cast<float>(value));
    expect_equal(out.data(), activated);
    reached.insert("results of " + std::to_string(addition.vector));
    if (plan.slices > 2) reached.insert("more slices");
    if (g.groups > 1) reached.insert("groups");
    if (operands.stores_sums) reached.insert("from registers, " + std::to_string(plan.out_stride_w) + " phases");
    EXPECT_FALSE(operands.stores_boxes);
    return true;
  }

  /// The number of some geometries' conv_transpose and conv that the kernel supports.
  int compute_geometries() {
    std::uint64_t seed = 0;
    int taken = 0;
    for (const std::int64_t groups : {1, 2}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        for (const std::int64_t channels : {40, 64, 96}) {
          const ConvCase c{.batch = 2,
                           .in_channels = groups * channels,
                           .out_channels = groups * (channels == 64 ? 70 : 48),
                           .groups = groups,
                           .input = {3, 14 + stride},
                           .kernel = {3, 4},
                           .stride = {stride, stride},
                           .padding = {1, 1}};
          ++seed;
          taken += compute_both(c, seed, activation_cases()[seed % 2].activation);
        }
      }
    }
    return taken;
  }
};
TYPED_TEST_SUITE(SlicedEmulation, Modes);

TYPED_TEST(SlicedEmulation, GeometriesAreExact) {
  std::set<std::string> all{"results of 1", "results of 4", "more slices", "groups"};
  if (TypeParam::kDType == kFloat32) all.insert({"from registers, 1 phases", "from registers, 2 phases"});
  for (const cuda::CorrelationLimits& of_kernel : {cuda::kCorrelationLimits, cuda::kBlockedLimits}) {
    SCOPED_TRACE(of_kernel.blocked ? "blocked" : "correlation");
    this->limits = of_kernel;
    this->reached.clear();
    EXPECT_GE(this->compute_geometries(), 30);
    EXPECT_EQ(this->reached, all);
  }
}

// The plans' own promises: slices that divide the channels, and no more padding than a quarter.
TEST(SlicedPlan, FillsTheMachineWhereTilesAreFew) {
  const ConvGeometry deep = geometry(ConvCase{.batch = 1,
                                              .in_channels = 1024,
                                              .out_channels = 512,
                                              .input = {4, 4},
                                              .kernel = {4, 4},
                                              .stride = {2, 2},
                                              .padding = {1, 1}});
  for (const cuda::CorrelationLimits& limits : {cuda::kCorrelationLimits, cuda::kBlockedLimits}) {
    for (const bool transposed : {true, false}) {
      cuda::CorrelationPlan whole, sliced;
      ASSERT_TRUE(cuda::plan_correlation(deep, transposed, cuda::Arithmetic::kTF32, limits, {}, whole));
      EXPECT_TRUE(cuda::has_few_tiles(whole));
      ASSERT_TRUE(cuda::plan_slices(deep, transposed, cuda::Arithmetic::kTF32, limits, {}, sliced));
      EXPECT_EQ(sliced.blocked, limits.blocked ? 1 : 0);
      EXPECT_GE(sliced.tiles(), 64);
      EXPECT_EQ((transposed ? 1024 : 512) % sliced.slices, 0);
    }
  }
}

}  // namespace
}  // namespace adjoint::testing
