// The tensor-core kernels of conv_weight, each by its name: exact on integers in every arithmetic over the case table
// and over shapes that reach every tile, at odd addresses too; the same bits from run to run.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/conv_tiles.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace adjoint::testing {
namespace {

/// Calls check(kernel, problem) in every arithmetic for each tensor-core kernel that supports the problem, with
/// operands so many elements into an allocation.
template <class Check>
void in_every_kernel(const ConvProblem& p, std::int64_t offset, const Check& check) {
  for (const ConvMode& mode : kConvModes) {
    SCOPED_TRACE(mode.name);
    const TensorOptions options{.dtype = mode.dtype};
    const ConvOperands operands{displaced(p.image_tensor(options), offset),
                                displaced(p.feature_tensor(options), offset),
                                {}};
    const cuda::ConvProblem problem = conv_problem(cuda::ConvRole::kFilter, p.geometry, mode, operands);
    for (const char* name : {"boxes_conv_weight", "wgmma_conv_weight", "tensor_core_conv_weight"}) {
      SCOPED_TRACE(name);
      const cuda::ConvKernel& kernel = *cuda::find_conv_kernel(cuda::ConvRole::kFilter, name);
      if (kernel.takes(problem)) check(kernel, problem);
    }
  }
}

void expect_exact(const ConvCase& c, const std::vector<std::int64_t>& offsets) {
  SCOPED_TRACE(c);
  const ConvProblem p = integer_problem(geometry(c));
  const TensorOptions wide{.dtype = kFloat64};
  const auto expected = conv_weight(p.image_tensor(wide), p.feature_tensor(wide), p.geometry).to_vector<double>();
  for (const std::int64_t offset : offsets) {
    SCOPED_TRACE(offset);
    in_every_kernel(p, offset, [&](const cuda::ConvKernel& kernel, const cuda::ConvProblem& problem) {
      expect_values("conv_weight", run_kernel(kernel, problem), expected);
    });
  }
}

TEST(TensorCoreConvWeightCuda, IntegersAreExactOverTheTable) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : conv_cases()) expect_exact(c, {0});
}

TEST(TensorCoreConvWeightCuda, IntegersAreExactInEveryTileAtAnyAddress) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : weight_tile_cases()) expect_exact(c, {0, 1, 2, 4, 7});
}

TEST(TensorCoreConvWeightCuda, RepeatsItsBits) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : weight_tile_cases()) {
    SCOPED_TRACE(c);
    const auto check = [](const cuda::ConvKernel& kernel, const cuda::ConvProblem& problem) {
      const Tensor first = run_kernel(kernel, problem);
      for (int run = 0; run < 5; ++run) expect_same_bits("conv_weight", run_kernel(kernel, problem), first);
    };
    in_every_kernel(real_problem(geometry(c)), 0, check);
  }
}

}  // namespace
}  // namespace adjoint::testing
#endif
