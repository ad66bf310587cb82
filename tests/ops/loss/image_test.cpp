// ssim and psnr at their bounds: equal images, levels far from 0, differences of any size.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/image.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace adjoint::testing {
namespace {

Tensor image(std::uint64_t seed, double contrast, double level, DType dtype = kFloat32) {
  const Shape shape{2, 3, 24, 20};
  return (Tensor::from_vector(reals(shape.numel(), seed), shape, {.dtype = kFloat64}) * contrast + level).to(dtype);
}

TEST(Ssim, IsNeverAbove1) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    for (const double contrast : {0.0, 1e-3, 0.1, 1.0, 200.0}) {
      for (const double level : {0.0, 0.5, -3.0, 1000.0}) {
        const Tensor x = image(1, contrast, level, dtype), y = image(2, contrast * 1e-3, 0.0, dtype) + x;
        EXPECT_EQ(ssim(x, x).item<double>(), 1.0) << contrast << " " << level;
        EXPECT_LE(ssim(x, y, {.reduction = Reduction::kNone}).max().item<double>(), 1.0) << contrast << " " << level;
        EXPECT_LE(ssim(x, -x).item<double>(), 1.0);
        EXPECT_GE(ssim(x, -x).item<double>(), -1.0);
      }
    }
  }
}

// The levels' squares do not cost the variances their digits.
TEST(Ssim, OfImagesFarFromZeroIsFloat64s) {
  for (const double level : {0.0, 0.5, 100.0, 1000.0}) {
    const Tensor x = image(3, 0.3, level), y = image(4, 0.3, level);
    const double exact = ssim(x.to(kFloat64), y.to(kFloat64)).item<double>();
    EXPECT_NEAR(ssim(x, y).item<double>(), exact, 1e-5) << level;
  }
}

TEST(Psnr, OfDifferencesOfAnySize) {
  const Tensor x = Tensor::full({1, 1, 2, 2}, 1.0);
  for (const double range : {1e-30, 1.0, 255.0, 1e30}) {
    EXPECT_NEAR(psnr(x * range, x * (range * 0.5), {.data_range = range}).item<double>(), 20 * std::log10(2.0), 1e-4);
  }
  EXPECT_TRUE(std::isinf(psnr(x, x).item<double>()));
}

}  // namespace
}  // namespace adjoint::testing
