// to, clone and contiguous: values for every pair of dtypes, handles, gradients.
#include <adjoint/adjoint.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_values;
using testing::non_contiguous;
using testing::reals;

constexpr DType kEvery[] = {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool};

TEST(ToDType, ConvertsBetweenEveryPairOfDTypes) {
  const std::vector<double> values = {0, 1, 2, 100, 3, 0};
  for (const DType from : kEvery) {
    const Tensor x = non_contiguous(values, {2, 3}, {.dtype = from});
    const std::vector<double> held = x.to_vector<double>();
    for (const DType to : kEvery) {
      std::vector<double> expected = held;
      for (double& value : expected) value = to == kBool ? static_cast<double>(value != 0.0) : value;
      const Tensor y = x.to(to);
      EXPECT_EQ(y.dtype(), to);
      expect_values(to_string(from) + " to " + to_string(to), y, expected);
    }
  }
}

TEST(ToDType, TruncatesTowardsZeroAndRoundsToNearestEven) {
  const Tensor x = Tensor::from_vector<double>({-1.75, 2.999, 2049.0, 1.00390625}, {4}, {.dtype = kFloat64});
  expect_values("int32", x.to(kInt32), {-1, 2, 2049, 1});
  expect_values("float16", x.to(kFloat16), {-1.75, 2.998046875, 2048.0, 1.00390625});
  expect_values("bfloat16", x.to(kBFloat16), {-1.75, 3.0, 2048.0, 1.0});
  const Tensor big = Tensor::from_vector<double>({70000.0, -1e40, NAN, 1e-9}, {4}, {.dtype = kFloat64});
  expect_values("float16", big.to(kFloat16), {INFINITY, -INFINITY, NAN, 0.0});
}

TEST(Copies, GiveTheSameHandleWhereNothingChanges) {
  const Tensor x = Tensor::ones({2, 3});
  EXPECT_EQ(x.to(kFloat32).impl(), x.impl());
  EXPECT_EQ(x.to(kCPU).impl(), x.impl());
  EXPECT_EQ(x.contiguous().impl(), x.impl());
  EXPECT_NE(x.clone().impl()->storage, x.impl()->storage);
  const Tensor turned = x.transpose(0, 1);
  EXPECT_TRUE(turned.contiguous().is_contiguous());
  EXPECT_TRUE(turned.clone().is_contiguous());
  EXPECT_ERROR(Tensor{}.to(kFloat64), "to: input must be defined");
  EXPECT_ERROR(Tensor{}.to(kCPU), "to: input must be defined");
  EXPECT_ERROR(Tensor{}.clone(), "clone: input must be defined");
  EXPECT_ERROR(Tensor{}.contiguous(), "contiguous: input must be defined");
}

TEST(Copies, WorkWithoutElements) {
  const Tensor x = Tensor::zeros({0, 3}).transpose(0, 1);
  EXPECT_EQ(x.clone().shape(), (Shape{3, 0}));
  EXPECT_EQ(x.to(kInt64).shape(), (Shape{3, 0}));
}

TEST(Copies, PassGradientsBackInTheDTypeOfTheOperand) {
  Tensor x = Tensor::from_vector<double>(reals(6, 3), {2, 3}, {.dtype = kFloat64});
  const auto copies = [](const std::vector<Tensor>& in) { return square(in[0].transpose(0, 1).contiguous().clone()); };
  EXPECT_TRUE(gradcheck(copies, {x}));
  EXPECT_TRUE(gradgradcheck(copies, {x}));
  Tape tape;
  x.requires_grad_();
  const Tensor y = x.to(kFloat16).to(kFloat32) * 3.0;
  EXPECT_TRUE(y.requires_grad());
  tape.backward(y.sum());
  EXPECT_EQ(x.grad().dtype(), kFloat64);
  expect_values("gradient", x.grad(), std::vector<double>(6, 3.0));
}

TEST(Copies, ToAnIntegerDTypeCarriesNoGradient) {
  Tape tape;
  const Tensor x = Tensor::ones({2}, {.requires_grad = true});
  EXPECT_FALSE(x.to(kInt64).requires_grad());
  EXPECT_FALSE(x.to(kBool).to(kFloat32).requires_grad());
}

TEST(CopiesCuda, MoveThereAndBack) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  const std::vector<double> values = testing::integers(60, 100, 5);
  for (const DType dtype : {kFloat16, kFloat32, kFloat64, kInt64}) {
    const Tensor x = non_contiguous(values, {3, 4, 5}, {.dtype = dtype});
    const Tensor there = x.to(kCUDA);
    EXPECT_TRUE(there.device().is_cuda());
    expect_values("and back", there.permute({2, 0, 1}).to(kCPU), x.permute({2, 0, 1}).to_vector<double>());
    expect_values("converted there", there.to(kFloat64).to(kCPU), values);
  }
  Tape tape;
  Tensor x = Tensor::ones({2, 2}, {.requires_grad = true});
  tape.backward((x.to(kCUDA) * 2.0).to(kCPU).sum());
  EXPECT_TRUE(x.grad().device().is_cpu());
  expect_values("gradient", x.grad(), std::vector<double>(4, 2.0));
}

}  // namespace
}  // namespace adjoint
