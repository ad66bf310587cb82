#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/base/device.h>
#include <adjoint/ops/roll/roll.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

constexpr DType kEveryDType[] = {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8};

TEST(Roll, MovesElementsAroundTheEnd) {
  for (const DType dtype : kEveryDType) {
    const Tensor x = Tensor::from_vector<double>({0, 1, 2, 3, 4, 5}, {2, 3}, {.dtype = dtype});
    expect_values("last axis", roll(x, 1, -1), {2, 0, 1, 5, 3, 4});
    expect_values("first axis", roll(x, 1, 0), {3, 4, 5, 0, 1, 2});
    EXPECT_EQ(roll(x, 1, 0).dtype(), dtype);
  }
  const Tensor mask = Tensor::from_vector<bool>({true, false, false}, {3}, {.dtype = kBool});
  expect_values("bool", roll(mask, 1, 0), {0, 1, 0});
}

TEST(Roll, TakesAnyShift) {
  const Tensor x = Tensor::from_vector<double>({0, 1, 2}, {3});
  expect_values("none", roll(x, 0, 0), {0, 1, 2});
  expect_values("back", roll(x, -1, 0), {1, 2, 0});
  expect_values("once round", roll(x, 3, 0), {0, 1, 2});
  expect_values("far back", roll(x, -7, 0), {1, 2, 0});
}

TEST(Roll, TakesNonContiguousAndEmptyTensors) {
  const std::vector<double> values = testing::integers(24, 9, 1);
  const Tensor packed = Tensor::from_vector(values, {2, 3, 4});
  expect_same_bits("strides", roll(testing::non_contiguous(values, {2, 3, 4}, {}), 2, 1), roll(packed, 2, 1));
  EXPECT_EQ(roll(Tensor::ones({0, 3}), 1, 0).shape(), Shape({0, 3}));
  EXPECT_EQ(roll(Tensor::ones({0, 3}), 1, 1).shape(), Shape({0, 3}));
}

TEST(Roll, SplitsLargeTensorsAmongThreads) {
  const Tensor x = Tensor::arange(0, 1 << 20, 1, {.dtype = kInt64}).reshape({1 << 10, 1 << 10});
  expect_same_bits("there and back", roll(roll(x, 5, 1), -5, 1), x);
  EXPECT_EQ(roll(x, 5, 1).select(0, 1000).select(0, 5).item<std::int64_t>(), 1000 << 10);
}

TEST(Roll, HasTheRightGradients) {
  const Tensor x = Tensor::from_vector(testing::integers(12, 4, 2), {3, 4}, {.dtype = kFloat64});
  for (const std::int64_t axis : {0, 1}) {
    const auto f = [axis](const std::vector<Tensor>& in) { return roll(in[0], 1, axis) * in[0]; };
    EXPECT_TRUE(gradcheck(f, {x}));
    EXPECT_TRUE(gradgradcheck(f, {x}));
  }
}

TEST(Roll, SaysWhatIsWrong) {
  EXPECT_ERROR(roll(Tensor::ones({2, 3}), 1, 2), "roll: ", "2");
  EXPECT_ERROR(roll(Tensor::scalar(1.0), 1, 0), "roll: ");
  EXPECT_ERROR(roll(Tensor{}, 1, 0), "roll: ", "x");
  const Tensor endless = Tensor::zeros({1}, {.dtype = kUInt8}).expand({(std::int64_t{1} << 62) + 5});
  EXPECT_THROW(roll(endless, -1, 0), OutOfMemoryError);
  EXPECT_THROW(roll(endless, std::int64_t{1} << 62, 0), OutOfMemoryError);
}

TEST(Roll, AgreesOnCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  for (const DType dtype : kEveryDType) {
    const Tensor x = Tensor::from_vector(testing::integers(105, 9, 3), {3, 5, 7}).to(dtype);
    for (const std::int64_t axis : {0, 1, 2}) {
      expect_same_bits("cuda", roll(x.to(kCUDA), -2, axis).to(kCPU), roll(x, -2, axis));
    }
  }
}

}  // namespace
}  // namespace adjoint
