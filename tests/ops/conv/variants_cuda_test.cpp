// Every compiled variant of every CUDA kernel of the trio, in each arithmetic: exact on integers. Small enough for
// compute-sanitizer, one case a test so that slow tools can share the cases.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/ops/conv/weight/cuda/weight.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_layers.h>
#include <adjoint/tests/support/conv_machine.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace adjoint::testing {
namespace {

bool any(const cuda::ConvKernel&) { return true; }

/// Returns true if the kernel cuts sums into more parts on more multiprocessors, so that a single multiprocessor leaves
/// out some kernels and tiles.
bool splits_sums(const cuda::ConvKernel& kernel) {
  const std::string_view name = kernel.name;
  return name.ends_with("conv_weight") || name.starts_with("few_results");
}

void check_every_kernel(const ConvMode& mode, const ConvCase& c, const cuda::Machine& machine,
                        bool (*wanted)(const cuda::ConvKernel&) = any) {
  const ConvGeometry g = geometry(c);
  // Another for every case: offsets of the operands and results follow from it.
  std::uint64_t seed = std::hash<std::string>{}(c.name) % 1000;
  for (const cuda::ConvRole role : kConvRoles) {
    const ConvOperands operands = integer_operands(role, g, mode.dtype, 3, 3, ++seed);
    const cuda::ConvProblem problem = conv_problem(role, g, mode, operands, machine);
    const auto offset = static_cast<std::int64_t>(seed % 16);
    const Tensor expected = run_guarded(*cuda::conv_kernels(role).back(), problem, offset);
    for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role)) {
      if (wanted(*kernel) && kernel->takes(problem)) {
        expect_same_guarded(kernel->name, run_guarded(*kernel, problem, offset), expected);
      }
    }
  }
}

class ConvVariantsCuda : public ::testing::TestWithParam<std::tuple<ConvMode, ConvCase>> {};

TEST_P(ConvVariantsCuda, AreExact) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const auto& [mode, c] = GetParam();
  check_every_kernel(mode, c, kOneMultiprocessor);
}

TEST_P(ConvVariantsCuda, AreExactInSplits) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const auto& [mode, c] = GetParam();
  check_every_kernel(mode, c, {}, splits_sums);
}

/// Small filters whose sums are long: a plan for a single multiprocessor does not cut them.
class SlicedVariantsCuda : public ConvVariantsCuda {};

TEST_P(SlicedVariantsCuda, AreExactOnAllMultiprocessors) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const auto& [mode, c] = GetParam();
  check_every_kernel(mode, c, {});
}

/// Every tile of boxes_conv_weight, which chooses most of them only for large problems, by boxes and by element.
class BoxesVariantsCuda : public ConvVariantsCuda {};

TEST_P(BoxesVariantsCuda, AreExactInEveryTile) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const auto& [mode, c] = GetParam();
  const ConvGeometry g = geometry(c);
  const ConvOperands pool = integer_operands(cuda::ConvRole::kFilter, g, mode.dtype, 3, 3, 1);
  int tiles = 0;
  for (const std::int64_t offset : {0, 1}) {
    const ConvOperands operands{displaced(pool.first, offset), displaced(pool.second, offset), {}};
    const cuda::ConvProblem problem = conv_problem(cuda::ConvRole::kFilter, g, mode, operands);
    const Tensor expected = run_guarded(*cuda::conv_kernels(cuda::ConvRole::kFilter).back(), problem, 0);
    for (const cuda::WeightTile tile : cuda::kWgmmaWeightTiles) {
      const RunConv run = boxes_in_tile(problem, tile);
      if (run == nullptr) continue;
      ++tiles;
      expect_same_guarded("boxes, tile of " + std::to_string(tile.rows) + " x " + std::to_string(tile.columns),
                          run_guarded(run, problem, 0), expected);
    }
  }
  if (compute_capability() != 90) return;
  EXPECT_GE(tiles, 12);
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<ConvMode, ConvCase>>& test) {
  return std::string(std::get<0>(test.param).name) + "_" + std::get<1>(test.param).name;
}

/// Rows of features that are joined to a line, and longer ones.
std::vector<ConvCase> boxes_cases() {
  std::vector<ConvCase> cases = conv_layers();
  std::erase_if(cases, [](const ConvCase& c) { return c.name != "dcgan8" && c.name != "plane"; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, SlicedVariantsCuda,
                         ::testing::Combine(::testing::ValuesIn(kConvModes), ::testing::ValuesIn(conv_sliced_cases())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Cases, ConvVariantsCuda,
                         ::testing::Combine(::testing::ValuesIn(kConvModes), ::testing::ValuesIn(conv_variant_cases())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Cases, BoxesVariantsCuda,
                         ::testing::Combine(::testing::ValuesIn(kConvModes), ::testing::ValuesIn(boxes_cases())),
                         name_of);

}  // namespace
}  // namespace adjoint::testing
#endif
