// The CPU's results do not depend on the number of threads, nor on the run.

#include <adjoint/core/base/parallel.h>
#include <adjoint/tests/support/conv_trio.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

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
  for (const DType dtype : {kFloat32, kFloat64}) {
    SCOPED_TRACE(to_string(dtype));
    const auto results = [&](int threads) {
      const ThreadsGuard guard(threads);
      return run_trio(p, {.dtype = dtype});
    };
    const TrioTensors expected = results(1);
    for (const int threads : {1, 2, 3, 7}) {
      expect_same_trio("on " + std::to_string(threads) + " threads", results(threads), expected);
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
