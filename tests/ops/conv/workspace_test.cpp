// The trio's device memory besides operands and results: 0 on the CPU, bounded by the filter's size and a constant on a
// GPU.

#include <adjoint/core/base/precision.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/workspace.h>
#include <adjoint/tests/support/conv_layers.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

namespace adjoint::testing {
namespace {

TEST(ConvWorkspace, TheCpuTakesNone) {
  for (const ConvCase& c : conv_layers()) EXPECT_EQ(conv_workspace(geometry(c), kFloat32, kCPU), ConvWorkspace{});
}

TEST(ConvWorkspace, RefusesWhatIsNoProblem) {
  const ConvGeometry g = geometry(conv_layers().front());
  ConvGeometry bad = g;
  bad.groups = 3;
  EXPECT_ERROR(conv_workspace(bad, kFloat32, kCPU), "conv_workspace: ");
  EXPECT_ERROR(conv_workspace(g, kInt32, kCPU), "conv_workspace: dtype must be floating point", "int32");
  if (!cuda_is_available()) {
    EXPECT_ERROR(conv_workspace(g, kFloat32, kCUDA), "conv_workspace: device must be one that there is");
  }
}

TEST(ConvWorkspaceCuda, IsBounded) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : conv_layers()) {
    SCOPED_TRACE(c);
    const ConvGeometry g = geometry(c);
    for (const Precision precision : {Precision::kFull, Precision::kTF32}) {
      const PrecisionGuard guard(precision);
      for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
        const ConvWorkspace bytes = conv_workspace(g, dtype);
        // A packed filter has whole tiles, and no phase has more taps than the filter.
        const std::int64_t constant = std::int64_t{512} << 20, most = constant + 1024 * g.filter_numel();
        EXPECT_LE(bytes.conv, most);
        EXPECT_LE(bytes.conv_transpose, most);
        EXPECT_LE(bytes.conv_weight, constant + 8 * g.filter_numel());
      }
    }
  }
}

TEST(ConvWorkspaceCuda, FloatsInFullPrecisionTakeMore) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const ConvGeometry g{.rank = 1,
                       .batch = 8,
                       .image_channels = 128,
                       .feature_channels = 128,
                       .image = {1, 4096},
                       .feature = {1, 4096},
                       .kernel = {1, 1}};
  const PrecisionGuard guard(Precision::kFull);
  const ConvWorkspace full = conv_workspace(g, kFloat32);
  const PrecisionGuard rounded(Precision::kTF32);
  EXPECT_GT(full.conv_transpose, conv_workspace(g, kFloat32).conv_transpose);
  EXPECT_EQ(conv_workspace(g, kFloat64).conv_transpose, 0);
}

}  // namespace
}  // namespace adjoint::testing
