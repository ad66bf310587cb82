// The mma.sync kernel of conv and conv_transpose on the emulator: exact on small integers in every arithmetic, at any
// address, on any grid and in any order of execution.
#include <adjoint/tests/ops/conv/correlation/emulated_run.h>
#include <adjoint/tests/support/conv_machine.h>
#include <adjoint/ops/conv/correlation/cuda/mma/launch.cuh>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

/// Shared memory of a multiprocessor and of a block: sm_80, then the smaller ones that share its code.
struct Device {
  cuda::CorrelationLimits limits;
  std::int64_t block_bytes;
};
constexpr Device kDevices[] = {{cuda::kMmaLimits, 163 * 1024}, {cuda::kSmallMmaLimits, 99 * 1024}};

template <class M>
class CorrelationMmaEmulation : public ::testing::Test {
 protected:
  using T = typename M::Element;

  /// Tiles and paths that the geometries have reached.
  std::set<std::string> reached;

  void compute(const ConvGeometry& g, bool transposed, const std::vector<double>& x, const std::vector<double>& filter,
               const std::vector<double>& bias, const std::vector<double>& expected, std::uint64_t seed) {
    cuda::CorrelationPlan plan;
    const Device& device = kDevices[seed % 4 == 3];
    ASSERT_TRUE(cuda::plan_correlation_mma(g, transposed, M::kArithmetic, device.limits, kOneMultiprocessor, plan));
    Operand<T> in(x, seed % 9), biases(bias, 0);
    Operand<T> out(std::vector<double>(expected.size(), std::numeric_limits<double>::quiet_NaN()), seed % 5);
    Operand<T> values(filter, 0);
    const cuda::ConvProblem problem{.first = in.data(),
                                    .second = values.data(),
                                    .bias = bias.empty() ? nullptr : biases.data(),
                                    .out = out.data()};
    cuda::correlation_mma::LoadOptions load = cuda::correlation_mma::load_options<T>(plan, in.data());
    EXPECT_LE(cuda::correlation_mma_smem(plan).end, device.block_bytes);
    emulate_launches(seed);
    const std::int32_t less = static_cast<std::int32_t>(seed / 2) % load.ahead;
    if (less == 0) {
      cuda::run_correlation_mma<M::kArithmetic>(plan, problem);
    } else {  // less far ahead is right too
      load.ahead -= less;
      const cuda::Workspace packed(static_cast<std::size_t>(4 * plan.filter_units()), 0);
      cuda::pack_correlation_filter<M::kArithmetic>(plan, values.data(), packed.data(), 0);
      const auto grid = static_cast<unsigned>(std::min<std::int64_t>(cuda::emulated_multiprocessors, plan.tiles()));
      cuda::launch(cuda::correlation_mma::select_kernel<M::kArithmetic>(plan),
                   {dim3(grid), dim3(static_cast<unsigned>(128 * plan.consumers)),
                    static_cast<std::size_t>(cuda::correlation_mma_smem(plan).end)},
                   0, plan, cuda::correlation_mma::operands_of<T>(plan, packed.data(), problem), load);
    }
    expect_equal(out.data(), expected);
    reached.insert("columns " + std::to_string(plan.tile_columns));
    reached.insert("vector " + std::to_string(load.vector));
    reached.insert("ahead " + std::to_string(load.ahead));
    if (plan.weights_resident) reached.insert("resident");
    if (plan.halves()) reached.insert("halves");
  }

  void compute_both(const ConvCase& c, std::uint64_t seed) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    const ConvGeometry& g = p.geometry;
    compute(g, true, p.feature, p.filter, p.image_bias, oracle::conv_transpose(g, p.feature, p.filter, p.image_bias),
            seed);
    compute(g, false, p.image, p.filter, p.feature_bias, oracle::conv(g, p.image, p.filter, p.feature_bias), seed);
  }
};
TYPED_TEST_SUITE(CorrelationMmaEmulation, Modes);

TYPED_TEST(CorrelationMmaEmulation, RandomGeometriesAreExact) {
  for (std::uint64_t seed = 0; seed < kRandomCases; ++seed) {
    this->compute_both(random_case(1000 + seed), seed);
    if (::testing::Test::HasFailure()) return;
  }
}

TYPED_TEST(CorrelationMmaEmulation, EveryTileAndPathIsExact) {
  std::uint64_t seed = 0;
  for (const ConvCase& c : every_tile_cases()) {
    this->compute_both(c, ++seed);
    if (seed % 3 != 0) this->compute_both(c, 9 * seed);  // aligned
  }
  std::set<std::string> all{"columns 16", "columns 32", "columns 64", "columns 128",
                            "resident",   "vector 1",   "vector 2"};
  all.insert(TypeParam::kUnitElements == 2 ? "vector 8" : "vector 4");
  if (!TypeParam::kSplit) all.insert("halves");
  for (const char* ahead : {"ahead 1", "ahead 2", "ahead 3"}) all.insert(ahead);
  EXPECT_EQ(this->reached, all);
}

}  // namespace
}  // namespace adjoint::testing
