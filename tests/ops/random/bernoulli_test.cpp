#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/random/random.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>

namespace adjoint {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

TEST(Bernoulli, DrawsWithTheProbability) {
  const GeneratorGuard guard(Generator(3));
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor drawn = bernoulli(Tensor::full({10000}, 0.25, {.dtype = dtype}));
    EXPECT_EQ(drawn.dtype(), dtype);
    EXPECT_NEAR(drawn.to(kFloat64).mean().item<double>(), 0.25, 0.02);
  }
  EXPECT_NEAR(bernoulli(Tensor::zeros({10000}, {.dtype = kBool}), 0.75).to(kFloat64).mean().item<double>(), 0.75, 0.02);
  expect_values("certain", bernoulli(Tensor::from_vector<float>({0, 1, 0, 1}, {2, 2})), {0, 1, 0, 1});
  EXPECT_EQ(bernoulli(Tensor::zeros({0, 2})).shape(), Shape({0, 2}));
}

TEST(Bernoulli, SaysWhatIsWrong) {
  EXPECT_ERROR(bernoulli(Tensor()), "bernoulli: ", "probabilities");
  EXPECT_ERROR(bernoulli(Tensor::zeros({2}, {.dtype = kInt32})), "bernoulli: ", "int32");
  EXPECT_ERROR(bernoulli(Tensor::full({}, 1.5)), "bernoulli: probabilities must lie in [0, 1]; got 1.5 at ()");
  EXPECT_ERROR(bernoulli(Tensor::full({2}, std::nan(""))), "bernoulli: probabilities must lie in [0, 1]; got nan at");
  EXPECT_ERROR(bernoulli(Tensor::from_vector<float>({0, 1, 0.5, 1, -0.25, 2}, {2, 3})),
               "bernoulli: probabilities must lie in [0, 1]; got -0.25 at (1, 1) of a tensor of shape (2, 3)");
  EXPECT_ERROR(bernoulli(Tensor::zeros({2}), -0.5), "bernoulli: p must lie in [0, 1]; got -0.5");
}

TEST(Bernoulli, AgreesOnCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  const auto draw = [](Device device) {
    const GeneratorGuard guard(Generator(9));
    return bernoulli(Tensor::full({1001}, 0.5, {.device = device})).to(kCPU);
  };
  expect_same_bits("cuda", draw(kCUDA), draw(kCPU));
}

}  // namespace
}  // namespace adjoint
