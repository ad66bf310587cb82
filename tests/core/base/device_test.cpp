#include <adjoint/core/base/device.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

namespace adjoint {
namespace {

TEST(Device, TheCpuHasNoComputeCapability) {
  EXPECT_EQ(compute_capability(kCPU), 0);
  const Device absent(DeviceType::kCUDA, 127);
  EXPECT_ERROR(compute_capability(absent), "compute_capability: the device must exist", "cuda:127");
}

TEST(Device, CudaDevicesHaveAComputeCapability) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  EXPECT_GE(compute_capability(kCUDA), 50);
  EXPECT_LT(compute_capability(kCUDA), 1000);
}

}  // namespace
}  // namespace adjoint
