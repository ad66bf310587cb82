#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/random/random.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>

namespace adjoint {
namespace {

TEST(Dropout, DropsAShareAndScalesTheRest) {
  manual_seed(3);
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = Tensor::full({20000}, 2.0, {.dtype = dtype}), y = dropout(x, 0.25);
    EXPECT_EQ(y.dtype(), dtype);
    const double kept = (y != 0.0).to(kFloat64).mean().item<double>();
    EXPECT_NEAR(kept, 0.75, 0.02);
    EXPECT_NEAR(y.max().to(kFloat64).item<double>(), 2.0 / 0.75, 0.01);
  }
}

TEST(Dropout, IsTheIdentityOutsideTraining) {
  const Tensor x = Tensor::ones({4});
  testing::expect_same_bits("eval", dropout(x, 0.5, false), x);
  testing::expect_same_bits("p = 0", dropout(x, 0.0), x);
  testing::expect_values("p = 1", dropout(Tensor::full({2}, std::nan("")), 1.0), {0, 0});
}

TEST(Dropout, DropsWholeChannels) {
  manual_seed(4);
  const Tensor y = dropout2d(Tensor::ones({50, 8, 3, 2}), 0.5);
  const Tensor sums = y.sum({2, 3});
  for (const double sum : sums.to_vector<double>()) EXPECT_TRUE(sum == 0.0 || sum == 12.0) << sum;
  EXPECT_NEAR(sums.mean().item<double>(), 6.0, 1.5);
  const Tensor of_volumes = dropout3d(Tensor::ones({50, 8, 3, 2, 2}), 0.5).sum({2, 3, 4});
  for (const double sum : of_volumes.to_vector<double>()) EXPECT_TRUE(sum == 0.0 || sum == 24.0) << sum;
  EXPECT_NEAR(of_volumes.mean().item<double>(), 12.0, 3.0);
}

TEST(Dropout, SendsGradientsWhereElementsStayed) {
  const Tensor x = Tensor::ones({100}, {.requires_grad = true});
  const Tape tape;
  const Tensor y = dropout(x, 0.5);
  testing::expect_same_bits("gradient", gradient(y.sum(), {x})[0], y.detach());
}

TEST(Dropout, SaysWhatIsWrong) {
  EXPECT_ERROR(dropout(Tensor::ones({2}), 1.5), "dropout: p must be between 0 and 1; got 1.5", "(2,)");
  EXPECT_ERROR(dropout(Tensor{}), "dropout: ", "x");
  EXPECT_ERROR(dropout3d(Tensor::ones({2, 2, 2}), 0.5), "dropout3d: x must be (N, C, D, H, W)", "(2, 2, 2)");
  EXPECT_ERROR(dropout2d(Tensor::ones({2, 2}), 0.5), "dropout2d: x must be (N, C, H, W)", "(2, 2)");
}

}  // namespace
}  // namespace adjoint
