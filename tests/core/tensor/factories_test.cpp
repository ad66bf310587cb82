// linspace, randint, randperm and the `_like` functions: values, ranges, the generator's bits, refusals.
#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/factories.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

TEST(Factories, LinspaceEndsExactly) {
  expect_values("five", linspace(0, 1, 5), {0, 0.25, 0.5, 0.75, 1});
  expect_values("down", linspace(3, -3, 3, {.dtype = kInt32}), {3, 0, -3});
  expect_values("one", linspace(3, 10, 1), {3});
  EXPECT_EQ(linspace(0, 1, 0).shape(), Shape({0}));
  const std::vector<double> tenths = linspace(0, 0.7, 8, {.dtype = kFloat64}).to_vector<double>();
  EXPECT_EQ(tenths.back(), 0.7);
  EXPECT_TRUE(std::is_sorted(tenths.begin(), tenths.end()));
  EXPECT_ERROR(linspace(0, 1, -1), "linspace: ", "-1");
  EXPECT_ERROR(linspace(0, std::numeric_limits<double>::infinity(), 2), "linspace: ", "finite");
  EXPECT_ERROR(linspace(0, 1, 3, {.dtype = kInt32}), "linspace: ", "0.5");
}

TEST(Factories, RandintDrawsEveryNumberOfItsRange) {
  const GeneratorGuard guard(Generator(3));
  const Tensor x = randint(-2, 3, {5000});
  EXPECT_EQ(x.dtype(), kInt64);
  std::vector<int> counts(5, 0);
  for (const auto value : x.to_vector<std::int64_t>()) {
    ASSERT_GE(value, -2);
    ASSERT_LT(value, 3);
    ++counts[static_cast<std::size_t>(value + 2)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
  expect_values("one", randint(1, {4}, {.dtype = kFloat16}), {0, 0, 0, 0});
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min(), kMost = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> wide = randint(kLeast, kMost, {64}).to_vector<std::int64_t>();
  EXPECT_TRUE(std::any_of(wide.begin(), wide.end(), [](std::int64_t v) { return v < 0; }));
  EXPECT_TRUE(std::any_of(wide.begin(), wide.end(), [](std::int64_t v) { return v > kMost / 2; }));
  EXPECT_ERROR(randint(3, 3, {2}), "randint: low must be below high; got 3 and 3");
  EXPECT_ERROR(randint(0, 257, {2}, {.dtype = kUInt8}), "randint: ", "uint8", "256");
  EXPECT_ERROR(randint(0, 2, {2}, {.dtype = kBool}), "randint: ", "bool");
}

TEST(Factories, TheSameSeedGivesTheSameIntegers) {
  const auto draw = [](DType dtype) {
    const GeneratorGuard guard(Generator(7));
    return randint(0, 100, {1000}, {.dtype = dtype});
  };
  expect_same_bits("again", draw(kInt64), draw(kInt64));
  expect_same_bits("in another dtype", draw(kInt32).to(kInt64), draw(kInt64));
}

TEST(Factories, RandpermHasEveryNumberOnce) {
  const GeneratorGuard guard(Generator(5));
  const Tensor x = randperm(1000);
  std::vector<std::int64_t> sorted = x.to_vector<std::int64_t>();
  EXPECT_FALSE(std::is_sorted(sorted.begin(), sorted.end()));
  std::sort(sorted.begin(), sorted.end());
  for (std::int64_t i = 0; i < 1000; ++i) EXPECT_EQ(sorted[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(randperm(0).shape(), Shape({0}));
  EXPECT_EQ(randperm(3, {.dtype = kUInt8}).dtype(), kUInt8);
  EXPECT_ERROR(randperm(-1), "randperm: n must not be negative; got -1");
  EXPECT_ERROR(randperm(258, {.dtype = kUInt8}), "randperm: ", "257");
}

TEST(Factories, LikeAnotherTensorHasItsShapeDTypeAndDevice) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = Tensor::ones({3, 2}, {.dtype = dtype, .requires_grad = true}).transpose(0, 1);
    for (const Tensor& like :
         {zeros_like(x), ones_like(x), full_like(x, 2.5), empty_like(x), rand_like(x), randn_like(x)}) {
      EXPECT_EQ(like.shape(), Shape({2, 3}));
      EXPECT_EQ(like.dtype(), dtype);
      EXPECT_TRUE(like.device().is_cpu());
      EXPECT_TRUE(like.is_contiguous());
      EXPECT_FALSE(like.requires_grad());
    }
    expect_values("zeros", zeros_like(x), {0, 0, 0, 0, 0, 0});
    expect_values("ones", ones_like(x), {1, 1, 1, 1, 1, 1});
    expect_values("full", full_like(x, 2.5), {2.5, 2.5, 2.5, 2.5, 2.5, 2.5});
    const auto drawn = [](const auto& draw) {
      const GeneratorGuard guard(Generator(11));
      return draw();
    };
    expect_same_bits("rand", drawn([&] { return rand_like(x); }), drawn([&] {
                       return Tensor::rand({2, 3}, x.options());
                     }));
    expect_same_bits("randn", drawn([&] { return randn_like(x); }), drawn([&] {
                       return Tensor::randn({2, 3}, x.options());
                     }));
  }
  const Tensor integers = Tensor::ones({0, 2}, {.dtype = kInt32});
  EXPECT_EQ(empty_like(integers).shape(), Shape({0, 2}));
  EXPECT_ERROR(full_like(integers, 0.5), "full_like: ", "0.5", "int32");
  EXPECT_ERROR(rand_like(integers), "rand_like: ", "floating point", "int32");
  EXPECT_ERROR(randn_like(integers), "randn_like: ", "floating point", "int32");
  EXPECT_ERROR(zeros_like(Tensor{}), "zeros_like: ", "defined");
  EXPECT_ERROR(ones_like(Tensor{}), "ones_like: ", "defined");
  EXPECT_ERROR(empty_like(Tensor{}), "empty_like: ", "defined");
}

TEST(Factories, AgreeOnCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8}) {
    const auto draw = [dtype](Device device) {
      const GeneratorGuard guard(Generator(9));
      return randint(0, 100, {1001}, {.dtype = dtype, .device = device}).to(kCPU);
    };
    expect_same_bits("randint", draw(kCUDA), draw(kCPU));
  }
  expect_same_bits("linspace", linspace(-1, 2, 7, {.device = kCUDA}).to(kCPU), linspace(-1, 2, 7));
}

TEST(Factories, IntegersStayIntegers) {
  const auto expect = [](const Tensor& tensor, DType dtype, const std::vector<double>& values) {
    EXPECT_EQ(tensor.dtype(), dtype);
    expect_values(to_string(dtype), tensor, values);
  };
  expect(Tensor::arange(3), kInt64, {0, 1, 2});
  expect(Tensor::arange(1, 6, 2), kInt64, {1, 3, 5});
  expect(Tensor::arange(std::size_t{2}), kInt64, {0, 1});
  expect(Tensor::arange(3.0), kFloat32, {0, 1, 2});
  expect(Tensor::arange(0, 1, 0.25), kFloat32, {0, 0.25, 0.5, 0.75});
  expect(Tensor::arange(1, 4, {.dtype = kFloat64}), kFloat64, {1, 2, 3});
  expect(Tensor::full({2}, 3), kInt64, {3, 3});
  expect(Tensor::full({2}, 3.0F), kFloat32, {3, 3});
  expect(Tensor::full({2}, true), kBool, {1, 1});
  expect(Tensor::scalar(3), kInt64, {3});
  expect(Tensor::scalar(0.5), kFloat32, {0.5});
  expect(Tensor::from_vector({1, 2}, {2}), kInt64, {1, 2});
  expect(Tensor::from_vector(std::vector<std::int64_t>{1, 2}, {2}), kInt64, {1, 2});
  expect(Tensor::from_vector(std::vector<std::uint8_t>{1, 2}, {2}), kUInt8, {1, 2});
  expect(Tensor::from_vector(std::vector<bool>{true, false}, {2}), kBool, {1, 0});
  expect(Tensor::from_vector({1.0, 2.0}, {2}), kFloat32, {1, 2});
  expect(Tensor::from_vector({float16(1.0F)}, {1}), kFloat16, {1});
  expect(linspace(0, 2, 3), kFloat32, {0, 1, 2});
  expect(Tensor::eye(2), kFloat32, {1, 0, 0, 1});
  expect(Tensor::ones({2}), kFloat32, {1, 1});
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Tensor::full({2}, most)[1].item<std::int64_t>(), most);
  EXPECT_EQ(Tensor::full({2}, 3, {.requires_grad = false}).requires_grad(), false);
  EXPECT_ERROR(Tensor::full({2}, 3, {.requires_grad = true}), "floating point; got int64");
}

// Options that name a device, or a gradient, name no dtype: each factory keeps its own.
TEST(Factories, ADTypeThatIsNotNamedIsTheFactorysOwn) {
  for (const TensorOptions& options : {TensorOptions{}, TensorOptions{.device = kCPU}}) {
    EXPECT_FALSE(options.dtype.has_value());
    EXPECT_EQ(randint(5, {3}, options).dtype(), kInt64);
    EXPECT_EQ(randint(1, 5, {3}, options).dtype(), kInt64);
    EXPECT_EQ(randperm(3, options).dtype(), kInt64);
    EXPECT_EQ(Tensor::arange(3, options).dtype(), kInt64);
    EXPECT_EQ(Tensor::arange(0, 3, 1, options).dtype(), kInt64);
    EXPECT_EQ(Tensor::full({2}, 1, options).dtype(), kInt64);
    EXPECT_EQ(Tensor::from_vector({1, 2}, {2}, options).dtype(), kInt64);
    EXPECT_EQ(Tensor::zeros({2}, options).dtype(), kFloat32);
    EXPECT_EQ(Tensor::ones({2}, options).dtype(), kFloat32);
    EXPECT_EQ(Tensor::empty({2}, options).dtype(), kFloat32);
    EXPECT_EQ(Tensor::eye(2, options).dtype(), kFloat32);
    EXPECT_EQ(Tensor::rand({2}, options).dtype(), kFloat32);
    EXPECT_EQ(Tensor::randn({2}, options).dtype(), kFloat32);
    EXPECT_EQ(linspace(0, 1, 3, options).dtype(), kFloat32);
  }
  const TensorOptions all = randint(5, {3}).options();
  EXPECT_TRUE(all.dtype == kInt64 && all.device == kCPU);
  EXPECT_EQ(Tensor::zeros({2}, all).dtype(), kInt64);
}

TEST(Scalar, KeepsItsKind) {
  EXPECT_EQ(Scalar(3).dtype(), kInt64);
  EXPECT_EQ(Scalar(3.0).dtype(), kFloat32);
  EXPECT_EQ(Scalar(true).dtype(), kBool);
  EXPECT_EQ(Scalar(std::size_t{7}).to<std::int64_t>(), 7);
  EXPECT_EQ(Scalar(2.0).to<int>(), 2);
  EXPECT_EQ(Scalar(float16(0.5F)) * 2, 1.0);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Scalar(most).to<std::int64_t>(), most);
  EXPECT_ERROR(static_cast<double>(Scalar(most)),
               "scalar: float64 must hold the integer exactly; got 9223372036854775807");
  EXPECT_ERROR(Scalar(~std::uint64_t{0}), "scalar: an integer must fit in int64; got 18446744073709551615");
  EXPECT_ERROR(Scalar(2.5).to<int>(), "scalar: the type asked for must hold the value exactly; got 2.5 for int32");
  std::ostringstream out;
  out << Scalar(3) << ' ' << Scalar(0.5) << ' ' << Scalar(false);
  EXPECT_EQ(out.str(), "3 0.5 false");
}

}  // namespace
}  // namespace adjoint
