#include <adjoint/ops/conv/workspace.h>

#include <adjoint/core/base/check.h>
#include <adjoint/ops/conv/trio.h>

#include <algorithm>

#ifdef ADJOINT_WITH_CUDA
#include <adjoint/core/base/precision.h>
#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#endif

namespace adjoint {

ConvWorkspace conv_workspace(const ConvGeometry& geometry, DType dtype, Device device) {
  check_geometry("conv_workspace", geometry);
  ADJOINT_CHECK(is_floating_point(dtype), "conv_workspace: dtype must be floating point; got {}", dtype);
  if (device.is_cpu()) return {};
#ifdef ADJOINT_WITH_CUDA
  cuda::check_device("conv_workspace", device);
  const auto bytes_of = [&](cuda::ConvRole role, const ConvGeometry& as) -> std::int64_t {
    const cuda::ConvProblem problem{
        .role = role, .geometry = as, .dtype = dtype, .precision = float32_precision(), .device = device.index};
    const cuda::ConvKernel& kernel = cuda::best_conv_kernel(problem);
    return kernel.workspace_bytes == nullptr ? 0 : static_cast<std::int64_t>(kernel.workspace_bytes(problem));
  };
  // The larger of the bytes with and without a bias.
  const auto bytes = [&](cuda::ConvRole role) {
    return std::max(bytes_of(role, simplified(geometry, true)), bytes_of(role, simplified(geometry, false)));
  };
  return {bytes(cuda::ConvRole::kFeature), bytes(cuda::ConvRole::kImage), bytes(cuda::ConvRole::kFilter)};
#else
  fail("conv_workspace: device must be one that there is; got {} in a build without CUDA; use the CPU", device);
#endif
}

}  // namespace adjoint
