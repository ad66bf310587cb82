// The tensor-core kernel of conv and conv_transpose on the emulator: exact on small integers in every arithmetic, at
// any address, on any grid and in any order of execution.
#include <adjoint/tests/emulation/correlation_run.h>
#include <adjoint/tests/support/activations.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

template <class M>
class CorrelationEmulation : public ::testing::Test {
 protected:
  using T = typename M::Element;

  /// Tiles and ways through the kernel that the geometries have reached.
  std::set<std::string> reached;

  /// False where the kernels do not take the geometry.
  bool compute(const ConvGeometry& g, bool transposed, const std::vector<double>& x, const std::vector<double>& filter,
               const std::vector<double>& bias, std::vector<double> expected, std::uint64_t seed,
               const Activation& activation) {
    cuda::CorrelationPlan plan;
    if (!cuda::plan_correlation(g, transposed, M::kUnitElements, M::kSplit, {.gathers = seed % 4 != 0}, plan))
      return false;
    const std::size_t offset = seed % 9;
    Operand<T> in(x, offset), biases(bias, 0);
    Operand<T> out(std::vector<double>(expected.size(), std::numeric_limits<double>::quiet_NaN()), seed % 5);
    PackedFilter<M::kArithmetic> packed(plan, filter, seed);

    cuda::CorrelationOperands operands{in.data(),
                                       packed.data(),
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
    reached.insert("columns " + std::to_string(plan.tile_columns));
    if (plan.cluster > 1) reached.insert("cluster");
    if (plan.gathers) reached.insert("gathers");
    if (plan.halves()) reached.insert("halves");
    if (plan.weights_resident) reached.insert("resident");
    return true;
  }

  int compute_both(const ConvCase& c, std::uint64_t seed, const Activation& activation = {}) {
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
  std::uint64_t seed = 0;
  for (const ConvCase& c : every_tile_cases()) EXPECT_GT(this->compute_both(c, ++seed), 0);
  std::set<std::string> all{"columns 16", "columns 32", "columns 64", "columns 128", "cluster", "gathers", "resident"};
  if (!TypeParam::kSplit) all.insert({"columns 256", "halves"});
  EXPECT_EQ(this->reached, all);
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
