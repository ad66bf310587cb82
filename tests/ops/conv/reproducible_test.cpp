// The CPU's results do not depend on the number of threads, nor on the run; and every instruction set passes.

#include <adjoint/core/cpu_isa.h>
#include <adjoint/core/parallel.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

namespace adjoint::testing {
namespace {

class ThreadsGuard {
 public:
  explicit ThreadsGuard(int count) : before_(num_threads()) { set_num_threads(count); }
  ~ThreadsGuard() { set_num_threads(before_); }

 private:
  int before_;
};

class ConvThreads : public ::testing::TestWithParam<ConvCase> {
 protected:
  ConvThreads() : trace_(__FILE__, __LINE__, GetParam()) {}
  ::testing::ScopedTrace trace_;
};

TEST_P(ConvThreads, AnyNumberGivesTheSameBits) {
  const ConvProblem p = real_problem(geometry(GetParam()));
  const ConvGeometry& g = p.geometry;
  for (const DType dtype : {kFloat32, kFloat64}) {
    SCOPED_TRACE(to_string(dtype));
    const TensorOptions options{.dtype = dtype};
    const Tensor image = p.image_tensor(options), filter = p.filter_tensor(options);
    const Tensor feature = p.feature_tensor(options), bias = p.feature_bias_tensor(options);
    const auto results = [&](int threads) {
      const ThreadsGuard guard(threads);
      return std::vector<Tensor>{conv(image, filter, bias, g), conv_transpose(feature, filter, {}, g),
                                 conv_weight(image, feature, g)};
    };
    const std::vector<Tensor> expected = results(1);
    for (const int threads : {1, 2, 3, 7}) {
      const std::vector<Tensor> actual = results(threads);
      const char* names[] = {"conv", "conv_transpose", "conv_weight"};
      for (std::size_t i = 0; i < 3; ++i) {
        expect_same_bits(std::string(names[i]) + " on " + std::to_string(threads) + " threads", actual[i], expected[i]);
      }
    }
  }
}

std::vector<ConvCase> cases_worth_splitting() {
  std::vector<ConvCase> cases;
  for (const ConvCase& c : conv_cases()) {
    if (multiply_adds(c) > 20'000) cases.push_back(c);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvThreads, ::testing::ValuesIn(cases_worth_splitting()), ConvCaseName());

void check_against_oracle(const ConvCase& c) {
  SCOPED_TRACE(c);
  const ConvProblem p = integer_problem(geometry(c));
  const ConvGeometry& g = p.geometry;
  for (const DType dtype : {kFloat32, kFloat64}) {
    SCOPED_TRACE(to_string(dtype));
    const TensorOptions options{.dtype = dtype};
    const Tensor image = p.image_tensor(options), filter = p.filter_tensor(options),
                 feature = p.feature_tensor(options);
    expect_values("conv", conv(image, filter, p.feature_bias_tensor(options), g),
                  oracle::conv(g, p.image, p.filter, p.feature_bias));
    expect_values("conv_transpose", conv_transpose(feature, filter, p.image_bias_tensor(options), g),
                  oracle::conv_transpose(g, p.feature, p.filter, p.image_bias));
    expect_values("conv_weight", conv_weight(image, feature, g), oracle::conv_weight(g, p.image, p.feature));
  }
}

class ConvInstructionSet : public ::testing::TestWithParam<CpuIsa> {};

TEST_P(ConvInstructionSet, EqualsTheOracle) {
  if (GetParam() > best_cpu_isa()) GTEST_SKIP() << "this CPU lacks the instruction set";
  const CpuIsaGuard guard(GetParam());
  for (const ConvCase& c : conv_cases()) check_against_oracle(c);
}

std::string instruction_set_name(const ::testing::TestParamInfo<CpuIsa>& param) {
  const char* names[] = {"Baseline", "Avx2", "Avx512"};
  return names[static_cast<int>(param.param)];
}

INSTANTIATE_TEST_SUITE_P(Each, ConvInstructionSet, ::testing::Values(CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512),
                         instruction_set_name);

}  // namespace
}  // namespace adjoint::testing
