// Every compiled variant of every CUDA kernel of the trio, each once in each arithmetic: exact on integers. Small
// enough for compute-sanitizer.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_layers.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace adjoint::testing {
namespace {

class ConvVariantsCuda : public ::testing::TestWithParam<ConvMode> {};

TEST_P(ConvVariantsCuda, AreExact) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  std::uint64_t seed = 0;
  for (const ConvCase& c : conv_variant_cases()) {
    SCOPED_TRACE(c);
    const ConvGeometry g = geometry(c);
    for (const cuda::ConvRole role : kConvRoles) {
      const ConvOperands operands = integer_operands(role, g, GetParam().dtype, 3, 3, ++seed);
      const cuda::ConvProblem problem = conv_problem(role, g, GetParam(), operands);
      const auto offset = static_cast<std::int64_t>(seed % 16);
      const Tensor expected = run_guarded(*cuda::conv_kernels(role).back(), problem, offset);
      for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role)) {
        if (kernel->takes(problem)) {
          expect_same_guarded(kernel->name, run_guarded(*kernel, problem, offset), expected);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ConvVariantsCuda, ::testing::ValuesIn(kConvModes),
                         [](const auto& mode) { return std::string(mode.param.name); });

}  // namespace
}  // namespace adjoint::testing
#endif
