// Gradients of mean and max if 16 bits cannot hold a count, and if a maximum is NaN or infinite.
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_values;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

std::vector<double> repeated(std::int64_t count, double value) {
  return std::vector<double>(static_cast<std::size_t>(count), value);
}

TEST(ReduceGradientHalf, CountsOfEqualMaximaStayInFloat32) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const std::int64_t count : {301, 2049, 66000}) {
      const Tensor x = Tensor::ones({count}, {.dtype = dtype, .requires_grad = true});
      Tape tape;
      const Tensor seed = Tensor::full({}, 1000, {.dtype = dtype, .requires_grad = true});
      const Tensor first = tape.gradient(x.max() * seed, {x}, {.record = true})[0];
      const double scale = seed.item<double>();
      expect_values(to_string(dtype), first, repeated(count, scale / static_cast<double>(count)));
      // Linear in the seed: the sum of as many equal shares.
      const Tensor second = tape.gradient(first, {seed}, {.grad_output = Tensor::ones({count}, {.dtype = dtype})})[0];
      expect_values("second order", second, {1});
    }
  }
}

TEST(ReduceGradientHalf, ColumnsOfEqualMaximaStayInFloat32) {
  const Tensor x = Tensor::ones({2, 2049, 3}, {.dtype = kFloat16, .requires_grad = true});
  Tape tape;
  tape.backward(x.amax({0, 1}).sum());
  expect_values("columns", x.grad(), repeated(2 * 2049 * 3, 1.0 / 4098));
}

TEST(ReduceGradientHalf, MeansDivideInFloat32) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const std::int64_t count : {301, 2049, 70000}) {
      const Tensor x = Tensor::ones({count}, {.dtype = dtype, .requires_grad = true});
      Tape tape;
      const Tensor seed = Tensor::full({}, 1000, {.dtype = dtype, .requires_grad = true});
      const Tensor first = tape.gradient(x.mean() * seed, {x}, {.record = true})[0];
      const double scale = seed.item<double>();
      expect_values(to_string(dtype), first, repeated(count, scale / static_cast<double>(count)));
      const Tensor second = tape.gradient(first, {seed}, {.grad_output = Tensor::ones({count}, {.dtype = dtype})})[0];
      expect_values("second order", second, {1});
    }
  }
}

// PyTorch's amax: nothing equals a maximum that is NaN, and 0 shares of 0 are NaN for every element.
TEST(ReduceGradient, OfAMaximumThatIsNaNIsNaN) {
  for (const DType dtype : {kFloat16, kFloat32, kFloat64}) {
    const Tensor x = Tensor::from_vector<double>({1, kNaN, 2, 4, 4, 3, kNaN, kNaN, kInfinity}, {3, 3}, {.dtype = dtype})
                         .requires_grad_();
    for (const bool keepdim : {false, true}) {
      Tape tape;
      const Tensor seed = Tensor::ones(keepdim ? Shape{3, 1} : Shape{3}, {.dtype = dtype, .requires_grad = true});
      const Tensor first = tape.gradient(x.amax({1}, keepdim), {x}, {.record = true, .grad_output = seed})[0];
      expect_values("first", first, {kNaN, kNaN, kNaN, 0.5, 0.5, 0, kNaN, kNaN, kNaN});
      const Tensor second = tape.gradient(first, {seed}, {.grad_output = Tensor::ones({3, 3}, {.dtype = dtype})})[0];
      expect_values("second", second, {kNaN, 1, kNaN});
    }
    const Tensor alone = Tensor::full({}, kNaN, {.dtype = dtype, .requires_grad = true});
    Tape tape;
    expect_values("scalar", tape.gradient(alone.max(), {alone})[0], {kNaN});
  }
}

TEST(ReduceGradient, InfinitiesReachTheMaximaAlone) {
  const Tensor x = Tensor::from_vector<double>({-kInfinity, -kInfinity, 1, kInfinity, 2, 3}, {3, 2}).requires_grad_();
  Tape tape;
  const Tensor seed = Tensor::from_vector<double>({1, kInfinity, kInfinity}, {3});
  expect_values("gradient", tape.gradient(x.amax({1}), {x}, {.grad_output = seed})[0],
                {0.5, 0.5, 0, kInfinity, 0, kInfinity});
}

TEST(ReduceGradientCuda, AgreesWithTheCPU) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32}) {
    const Tensor x = Tensor::ones({66000}, {.dtype = dtype, .device = kCUDA, .requires_grad = true});
    Tape tape;
    expect_values("max", tape.gradient(x.max(), {x})[0].to(kCPU), repeated(66000, 1.0 / 66000));
    expect_values("mean", tape.gradient(x.mean(), {x})[0].to(kCPU), repeated(66000, 1.0 / 66000));
    const Tensor odd =
        Tensor::from_vector<double>({1, kNaN, 4, 4}, {2, 2}, {.dtype = dtype, .device = kCUDA}).requires_grad_();
    expect_values("NaN", tape.gradient(odd.amax({1}).sum(), {odd})[0].to(kCPU), {kNaN, kNaN, 0.5, 0.5});
  }
}

}  // namespace
}  // namespace adjoint
