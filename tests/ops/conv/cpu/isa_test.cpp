// Every instruction set that this CPU has, not only the best, and Eigen: exact on small integers, for every case.

#include <adjoint/core/base/cpu_backend.h>
#include <adjoint/core/base/cpu_isa.h>
#include <adjoint/tests/support/conv_trio.h>

#include <gtest/gtest.h>

#include <string>

namespace adjoint::testing {
namespace {

class ConvCpuIsa : public ::testing::TestWithParam<ConvCase> {
 protected:
  ConvCpuIsa() : trace_(__FILE__, __LINE__, GetParam()) {}
  ::testing::ScopedTrace trace_;
};

void expect_every_one_equals_the_oracle(const ConvCase& c) {
  const CpuBackendGuard loops(CpuBackend::kVector);
  const ConvProblem p = integer_problem(geometry(c));
  const TrioValues expected = oracle_trio(p);
  for (const CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (isa > best_cpu_isa()) continue;
    const CpuIsaGuard guard(isa);
    for (const DType dtype : {kFloat32, kFloat64}) {
      SCOPED_TRACE(to_string(dtype) + ", instruction set " + std::to_string(static_cast<int>(isa)));
      expect_trio_values(run_trio(p, {.dtype = dtype}), expected);
    }
  }
}

TEST_P(ConvCpuIsa, EveryOneEqualsTheOracle) { expect_every_one_equals_the_oracle(GetParam()); }

// Filters of more taps than are added up at a time, of a channel or a few.
TEST(ConvCpuIsaLong, EveryOneEqualsTheOracle) {
  for (const std::int64_t taps : {512, 513, 1025, 1100}) {
    for (const std::int64_t channels : {1, 3}) {
      for (const std::int64_t stride : {1, 2}) {
        SCOPED_TRACE(taps * 100 + channels * 10 + stride);
        expect_every_one_equals_the_oracle({.rank = 1,
                                            .batch = 1,
                                            .in_channels = 2 * channels,
                                            .out_channels = 2 * channels,
                                            .groups = 2,
                                            .input = {1, 700},
                                            .kernel = {1, taps},
                                            .stride = {1, stride},
                                            .padding = {0, taps / 2}});
      }
    }
  }
}

TEST_P(ConvCpuIsa, EigenEqualsTheOracle) {
  const ConvProblem p = integer_problem(geometry(GetParam()));
  const TrioValues expected = oracle_trio(p);
  const CpuBackendGuard guard(CpuBackend::kEigen);
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    SCOPED_TRACE(to_string(dtype));
    expect_trio_values(run_trio(p, {.dtype = dtype}), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvCpuIsa, ::testing::ValuesIn(conv_cases()), ConvCaseName());

}  // namespace
}  // namespace adjoint::testing
