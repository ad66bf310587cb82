// The tensor-core kernel of conv and conv_transpose on the emulator: exact on small integers in every arithmetic, at
// any address, on any grid and in any order of execution.
#include <adjoint/tests/emulation/kernel_run.h>
#include <adjoint/tests/support/activations.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/cuda/correlation_select.cuh>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace adjoint::testing {
namespace {

template <class M>
class CorrelationEmulation : public ::testing::Test {
 protected:
  using T = typename M::Element;

  /// False where the kernels do not take the geometry.
  static bool compute(const ConvGeometry& g, bool transposed, const std::vector<double>& x,
                      const std::vector<double>& filter, const std::vector<double>& bias, std::vector<double> expected,
                      std::uint64_t seed, const Activation& activation) {
    cuda::CorrelationPlan plan;
    if (!cuda::plan_correlation(g, transposed, M::kUnitElements, M::kSplit, {.gathers = seed % 4 != 0}, plan))
      return false;
    const std::size_t offset = seed % 9;
    Operand<T> in(x, offset), weights(filter, 0), biases(bias, 0);
    Operand<T> out(std::vector<double>(expected.size(), std::numeric_limits<double>::quiet_NaN()), seed % 5);
    std::vector<std::uint32_t> blocks(static_cast<std::size_t>(plan.filter_units()) + 4);
    auto* packed = blocks.data();
    while (reinterpret_cast<std::uintptr_t>(packed) % 16 != 0) ++packed;
    const dim3 pack_grid = cuda::correlation::pack_grid(plan);
    emulation::run({.grid = pack_grid, .block = {32}, .seed = seed},
                   [&] { cuda::correlation::pack_filter_kernel<M::kArithmetic>(plan, weights.data(), packed); });

    cuda::CorrelationOperands operands{in.data(),
                                       packed,
                                       bias.empty() ? nullptr : biases.data(),
                                       out.data(),
                                       cuda::correlation_load_bytes(plan, in.data(), sizeof(T)),
                                       1,
                                       Activate<float>(activation)};
    if (cuda::correlation_log2_interleave(plan.out_stride_w) >= 0) {
      operands.store_vector = cuda::row_vector(out.data(), plan.out_w, sizeof(T));
    }
    Operand<T> linear(std::vector<double>(expected.size(), std::numeric_limits<double>::quiet_NaN()), seed % 5);
    const bool with_linear = !activation.is_none() && seed % 2 == 0;
    if (with_linear) operands.linear = linear.data();
    const auto kernel = cuda::correlation::select_kernel<M::kArithmetic>(plan);
    const auto cluster = static_cast<unsigned>(plan.cluster);
    const unsigned grid = cluster * (seed % 2 == 0 && plan.tiles() > plan.cluster ? 2 : 1);
    EXPECT_LE(cuda::correlation_smem_bytes(plan), 232448);
    emulation::run({.grid = {grid},
                    .block = {static_cast<unsigned>(128 * (plan.consumers + 1))},
                    .cluster = cluster,
                    .seed = seed,
                    .smem_bytes = static_cast<std::size_t>(cuda::correlation_smem_bytes(plan))},
                   [&] { kernel(plan, operands); });
    if (with_linear) expect_equal(linear.data(), expected);
    for (double& value : expected) value = operands.activate(static_cast<float>(value));
    expect_equal(out.data(), expected);
    return true;
  }

  static int compute_both(const ConvCase& c, std::uint64_t seed, const Activation& activation = {}) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    const ConvGeometry& g = p.geometry;
    int taken = 0;
    taken += compute(g, true, p.feature, p.filter, p.image_bias,
                     oracle::conv_transpose(g, p.feature, p.filter, p.image_bias), seed, activation);
    taken += compute(g, false, p.image, p.filter, p.feature_bias, oracle::conv(g, p.image, p.filter, p.feature_bias),
                     seed, activation);
    return taken;
  }
};
TYPED_TEST_SUITE(CorrelationEmulation, Modes);

TYPED_TEST(CorrelationEmulation, RandomGeometriesAreExact) {
  std::uint64_t taken = 0;
  for (std::uint64_t seed = 0; seed < kRandomCases; ++seed) taken += this->compute_both(random_case(seed), seed);
  EXPECT_GT(2 * taken, 3 * kRandomCases);
}

TYPED_TEST(CorrelationEmulation, EveryTileIsExact) {
  const ConvCase cases[] = {
      {.batch = 1, .in_channels = 20, .out_channels = 9, .input = {1, 700}, .kernel = {1, 3}},
      {.batch = 1, .in_channels = 33, .out_channels = 30, .input = {9, 40}, .kernel = {3, 3}, .padding = {1, 1}},
      {.batch = 1, .in_channels = 36, .out_channels = 61, .input = {1, 500}, .kernel = {1, 5}, .dilation = {1, 3}},
      {.batch = 1, .in_channels = 40, .out_channels = 125, .input = {1, 515}, .kernel = {1, 3}},
      {.batch = 2, .in_channels = 64, .out_channels = 128, .input = {8, 8}, .kernel = {2, 2}, .stride = {2, 2}},
      {.batch = 5,
       .in_channels = 40,
       .out_channels = 64,
       .input = {8, 8},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.batch = 1,
       .in_channels = 20,
       .out_channels = 36,
       .input = {1, 300},
       .kernel = {1, 16},
       .stride = {1, 8},
       .padding = {0, 4}},
      {.batch = 1,
       .in_channels = 24,
       .out_channels = 1,
       .input = {12, 40},
       .kernel = {9, 9},
       .stride = {3, 3},
       .padding = {4, 4},
       .output_padding = {2, 2}},
      {.batch = 1,
       .in_channels = 18,
       .out_channels = 17,
       .input = {12, 20},
       .kernel = {3, 3},
       .stride = {2, 2},
       .padding = {9, 9},
       .dilation = {9, 9}},
  };
  std::uint64_t seed = 0;
  for (const ConvCase& c : cases) EXPECT_GT(this->compute_both(c, ++seed), 0);
}

// Of sum and bias, before they are rounded: every tile's staging, rows and phases.
TYPED_TEST(CorrelationEmulation, ActivationsComeBeforeTheRounding) {
  std::uint64_t seed = 0;
  for (const std::int64_t channels : {5, 20, 50, 100}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      const ConvCase c{.batch = 2,
                       .in_channels = 9,
                       .out_channels = channels,
                       .input = {3, 21},
                       .kernel = {2, 3},
                       .stride = {1, stride},
                       .padding = {0, 1}};
      for (const ActivationCase& a : activation_cases()) {
        SCOPED_TRACE(a);
        EXPECT_EQ(this->compute_both(c, ++seed, a.activation), 2);
      }
    }
  }
}

}  // namespace
}  // namespace adjoint::testing
