// Every instruction set that this CPU has, not only the best: exact on small integers, for every case.

#include <adjoint/core/cpu_isa.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

namespace adjoint::testing {
namespace {

class ConvCpuIsa : public ::testing::TestWithParam<ConvCase> {
 protected:
  ConvCpuIsa() : trace_(__FILE__, __LINE__, GetParam()) {}
  ::testing::ScopedTrace trace_;
};

TEST_P(ConvCpuIsa, EveryOneEqualsTheOracle) {
  const ConvProblem p = integer_problem(geometry(GetParam()));
  const ConvGeometry& g = p.geometry;
  const auto feature_values = oracle::conv(g, p.image, p.filter, p.feature_bias);
  const auto image_values = oracle::conv_transpose(g, p.feature, p.filter, p.image_bias);
  const auto filter_values = oracle::conv_weight(g, p.image, p.feature);
  for (const CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (isa > best_cpu_isa()) continue;
    const CpuIsaGuard guard(isa);
    for (const DType dtype : {kFloat32, kFloat64}) {
      SCOPED_TRACE(to_string(dtype) + ", instruction set " + std::to_string(static_cast<int>(isa)));
      const TensorOptions options{.dtype = dtype};
      const Tensor image = p.image_tensor(options), filter = p.filter_tensor(options),
                   feature = p.feature_tensor(options);
      expect_values("conv", conv(image, filter, p.feature_bias_tensor(options), g), feature_values);
      expect_values("conv_transpose", conv_transpose(feature, filter, p.image_bias_tensor(options), g), image_values);
      expect_values("conv_weight", conv_weight(image, feature, g), filter_values);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvCpuIsa, ::testing::ValuesIn(conv_cases()), ConvCaseName());

}  // namespace
}  // namespace adjoint::testing
