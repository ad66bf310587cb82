// conv_weight's tensor-core kernel on the emulator: exact on small integers in every arithmetic and at any address.
#include <adjoint/tests/emulation/kernel_run.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/cuda/weight_select.cuh>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace adjoint::testing {
namespace {

template <class M>
class WeightEmulation : public ::testing::Test {
 protected:
  using T = typename M::Element;

  static bool compute(const ConvCase& c, std::uint64_t seed) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    cuda::WeightPlan plan;
    if (!cuda::plan_weight(p.geometry, M::kUnitElements, M::kSplit, plan)) return false;
    Operand<T> image(p.image, seed % 9), feature(p.feature, seed % 5);
    Operand<T> out(std::vector<double>(p.filter.size(), std::numeric_limits<double>::quiet_NaN()), 0);
    std::vector<float> partial(static_cast<std::size_t>(cuda::weight_workspace_bytes(plan) / 4));
    const cuda::WeightOperands operands =
        cuda::weight::operands_of(plan, image.data(), feature.data(), partial.data(), sizeof(T));
    const auto kernel = cuda::weight::select_kernel<M::kArithmetic>(plan);
    emulation::run({.grid = {static_cast<unsigned>(plan.blocks_per_split() * plan.splits)},
                    .block = {cuda::weight::kThreads},
                    .seed = seed},
                   [&] { kernel(plan, operands); });
    emulation::run({.grid = {1}, .block = {32}, .seed = seed},
                   [&] { cuda::weight::add_splits_kernel<T>(plan, partial.data(), out.data()); });
    expect_equal(out.data(), oracle::conv_weight(p.geometry, p.image, p.feature));
    return true;
  }
};
TYPED_TEST_SUITE(WeightEmulation, Modes);

TYPED_TEST(WeightEmulation, RandomGeometriesAreExact) {
  std::uint64_t taken = 0;
  for (std::uint64_t seed = 0; seed < kRandomCases / 2; ++seed) taken += this->compute(random_case(seed), seed);
  EXPECT_GT(8 * taken, 3 * kRandomCases);
}

}  // namespace
}  // namespace adjoint::testing
