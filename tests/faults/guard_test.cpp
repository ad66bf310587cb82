// Scratch memory and results are as large as the data written to them: a page behind each block must not be touched.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/cpu_isa.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/faults/allocations.h>
#include <adjoint/tests/faults/faults.h>
#include <adjoint/tests/support/conv_cases.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <thread>

namespace adjoint::testing {
namespace {

void run_trio(const ConvProblem& problem, DType dtype) {
  const TensorOptions options{.dtype = dtype};
  const Tensor image = problem.image_tensor(options), filter = problem.filter_tensor(options);
  const Tensor feature = problem.feature_tensor(options);
  conv(image, filter, problem.feature_bias_tensor(options), problem.geometry);
  conv_transpose(feature, filter, problem.image_bias_tensor(options), problem.geometry);
  conv_weight(image, feature, problem.geometry);
}

TEST(GuardPage, IsNeverTouchedByConvolutions) {
  if (!can_guard_pages()) GTEST_SKIP() << "the sanitizer looks behind every block itself";
  const Threads one(1);
  for (const CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (isa > best_cpu_isa()) continue;
    const CpuIsaGuard use(isa);
    for (const ConvCase& c : conv_cases()) {
      const ConvProblem problem = integer_problem(geometry(c));
      for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
        // A new thread does not yet have scratch memory that an earlier case made large enough.
        std::thread([&] {
          const GuardPages guard;
          run_trio(problem, dtype);
        }).join();
      }
    }
  }
}

TEST(GuardPage, IsFound) {
  if (!can_guard_pages()) GTEST_SKIP() << "the sanitizer looks behind every block itself";
  const GuardPages guard;
  Tensor tensor = Tensor::zeros({16});  // 64 bytes: the granularity
  EXPECT_DEATH(tensor.mutable_data<float>()[16] = 1.0F, "");
}

}  // namespace
}  // namespace adjoint::testing
