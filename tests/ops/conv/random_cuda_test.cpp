// 20,000 random geometries: every CUDA kernel that supports one equals the plain kernels on integers, in every
// arithmetic, with operands and results anywhere in memory, and writes its result whole and nothing else.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/tests/support/conv_cuda.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace adjoint::testing {
namespace {

constexpr std::uint64_t kShards = 20, kCasesPerShard = 1000;

constexpr int kMostFailures = 3;  // of a kernel in one arithmetic, before it is left alone

struct Tally {
  std::map<std::pair<cuda::ConvRole, std::string>, int> runs;  // one kernel may have two roles
  std::map<std::string, int> failures;
};

int failed_checks() { return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); }

// Magnitudes whose sums of products stay below 2^24. Only float32 gets integers that TF32 does not hold, which need the
// second and third of its products; operands alternate.
std::pair<std::int64_t, std::int64_t> magnitudes(cuda::ConvRole role, const ConvGeometry& g, const ConvMode& mode,
                                                 std::uint64_t seed) {
  std::int64_t terms = g.batch * g.feature_plane();
  if (role == cuda::ConvRole::kFeature) terms = g.image_channels_per_group() * g.taps();
  if (role == cuda::ConvRole::kImage) terms = g.feature_channels_per_group() * g.taps();
  constexpr std::int64_t kWide = 5000;  // 13 bits
  const bool exact = mode.dtype == kFloat32 && mode.precision == Precision::kFull;
  if (!exact || terms * kWide >= (std::int64_t{1} << 24)) return {3, 3};
  return seed % 4 < 2 ? std::pair{kWide, std::int64_t{1}} : std::pair{std::int64_t{1}, kWide};
}

void check_role(cuda::ConvRole role, const ConvGeometry& g, const ConvMode& mode, std::uint64_t seed, Tally& tally) {
  const auto [first, second] = magnitudes(role, g, mode, seed);
  const ConvOperands operands = integer_operands(role, g, mode.dtype, first, second, seed);
  const cuda::ConvProblem problem = conv_problem(role, g, mode, operands);
  const auto offset = static_cast<std::int64_t>(seed % 16);
  const cuda::ConvKernel& plain = *cuda::conv_kernels(role).back();
  const Tensor expected = run_guarded(plain, problem, offset);
  for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role)) {
    if (kernel == &plain || !kernel->takes(problem)) continue;
    ++tally.runs[{role, kernel->name}];
    const std::string name = std::string(kernel->name) + ", " + mode.name;
    int& failures = tally.failures[name];
    if (failures == kMostFailures) continue;
    const int before = failed_checks();
    expect_same_guarded(name + ", result at +" + std::to_string(offset), run_guarded(*kernel, problem, offset),
                        expected);
    if (failed_checks() != before) ++failures;
  }
}

class ConvRandomCuda : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(ConvRandomCuda, EveryKernelEqualsThePlainOnes) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  Tally tally;
  for (std::uint64_t seed = GetParam() * kCasesPerShard; seed < (GetParam() + 1) * kCasesPerShard; ++seed) {
    const ConvCase c = random_conv_case(seed);
    SCOPED_TRACE(c);
    for (const cuda::ConvRole role : kConvRoles) {
      for (const ConvMode& mode : kConvModes) check_role(role, geometry(c), mode, seed, tally);
    }
  }
  if (compute_capability() != 90) return;
  for (const cuda::ConvRole role : kConvRoles) {
    for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role).first(cuda::conv_kernels(role).size() - 1)) {
      EXPECT_GT((tally.runs[{role, kernel->name}]), 0) << kernel->name << " as " << role_name(role);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, ConvRandomCuda, ::testing::Range(std::uint64_t{0}, kShards));

}  // namespace
}  // namespace adjoint::testing
#endif
