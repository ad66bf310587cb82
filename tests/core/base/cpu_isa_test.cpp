#include <adjoint/core/base/cpu_isa.h>

#include <adjoint/core/base/error.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

namespace adjoint::testing {
namespace {

TEST(CpuIsa, IsOverriddenWhileAGuardLives) {
  const CpuIsa before = cpu_isa();
  EXPECT_LE(before, best_cpu_isa());
  {
    const CpuIsaGuard guard(CpuIsa::kBaseline);
    EXPECT_EQ(cpu_isa(), CpuIsa::kBaseline);
  }
  EXPECT_EQ(cpu_isa(), before);
}

TEST(CpuIsa, MustBeOneThatTheCpuHas) {
  if (best_cpu_isa() == CpuIsa::kAvx512) GTEST_SKIP() << "this CPU has every instruction set";
  EXPECT_ERROR(CpuIsaGuard(CpuIsa::kAvx512), "this CPU must have the instruction set", "avx512");
}

}  // namespace
}  // namespace adjoint::testing
