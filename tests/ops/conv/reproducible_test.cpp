// The CPU's results do not depend on the number of threads, nor on the run; and every instruction set passes.

#include <adjoint/core/parallel.h>
#include <adjoint/ops/conv/trio.h>
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

}  // namespace
}  // namespace adjoint::testing
