// cat, stack and pad: values, shapes, strides, every dtype, gradients, CUDA and bad input.

#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

constexpr TensorOptions kDouble{.dtype = kFloat64};

Tensor counted(const Shape& shape, double start, const TensorOptions& options = {}) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), start);
  return Tensor::from_vector(values, shape, options);
}

// Runs each test on the CPU and, if there is one, on a CUDA device.
class Join : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam().is_cuda() && !cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  }
  TensorOptions on(DType dtype = kFloat32) const { return {.dtype = dtype, .device = GetParam()}; }
};

struct DeviceName {
  std::string operator()(const ::testing::TestParamInfo<Device>& info) const {
    return info.param.is_cuda() ? "Cuda" : "Cpu";
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, Join, ::testing::Values(kCPU, kCUDA), DeviceName());

TEST_P(Join, CatAlongEveryAxis) {
  const Tensor a = counted({2, 2}, 0, on()), b = counted({1, 2}, 10, on()), c = counted({2, 3}, 20, on());
  const Tensor rows = cat({a, b, a}, 0);
  EXPECT_EQ(rows.shape(), Shape({5, 2}));
  expect_values("rows", rows, {0, 1, 2, 3, 10, 11, 0, 1, 2, 3});
  const Tensor columns = cat({a, c}, -1);
  EXPECT_EQ(columns.shape(), Shape({2, 5}));
  expect_values("columns", columns, {0, 1, 20, 21, 22, 2, 3, 23, 24, 25});
}

TEST_P(Join, CatOfEveryDTypeAndOfAnyStrides) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool}) {
    const std::vector<double> values = {1, 0, 1, 1, 0, 1};
    const Tensor strided = non_contiguous(values, {2, 3}, on(dtype));
    expect_values(to_string(dtype), cat({strided, Tensor::ones({1, 3}, on(dtype))}), {1, 0, 1, 1, 0, 1, 1, 1, 1});
    EXPECT_EQ(cat({strided}).dtype(), dtype);
  }
}

TEST_P(Join, CatOfManyAndOfEmptyTensors) {
  std::vector<Tensor> many;
  std::vector<double> expected;
  for (int i = 0; i < 40; ++i) {
    many.push_back(counted({i % 3, 2}, i, on()));
    for (int k = 0; k < 2 * (i % 3); ++k) expected.push_back(i + k);
  }
  expect_values("many", cat(many), expected);
  const Tensor none = cat({Tensor::empty({0, 2}, on()), Tensor::empty({0, 2}, on())});
  EXPECT_EQ(none.shape(), Shape({0, 2}));
}

TEST_P(Join, CatIsACopy) {
  Tensor a = Tensor::zeros({2}, on());
  const Tensor joined = cat({a});
  a.fill_(1.0);
  expect_values("cat", joined, {0, 0});
}

TEST_P(Join, StackMakesAnAxis) {
  const Tensor a = counted({2, 3}, 0, on()), b = counted({2, 3}, 10, on());
  EXPECT_EQ(stack({a, b}).shape(), Shape({2, 2, 3}));
  const Tensor last = stack({a, b}, -1);
  EXPECT_EQ(last.shape(), Shape({2, 3, 2}));
  expect_values("last", last, {0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15});
  expect_values("scalars", stack({Tensor::scalar(1, on()), Tensor::scalar(2, on())}), {1, 2});
}

TEST_P(Join, PadSurroundsLastAxisFirst) {
  const Tensor x = counted({2, 2}, 1, on());
  const Tensor padded = pad(x, {1, 2, 0, 1}, 9);
  EXPECT_EQ(padded.shape(), Shape({3, 5}));
  expect_values("padded", padded, {9, 1, 2, 9, 9, 9, 3, 4, 9, 9, 9, 9, 9, 9, 9});
  expect_values("columns", pad(x, {0, 1}), {1, 2, 0, 3, 4, 0});
  expect_values("strided", pad(x.transpose(0, 1), {1, 0}), {0, 1, 3, 0, 2, 4});
}

TEST_P(Join, PadCutsWhereNegative) {
  const Tensor x = counted({3, 4}, 0, on());
  expect_values("cut", pad(x, {-1, -2, -2, 0}), {9});
  const Tensor mixed = pad(x, {-3, 1, 1, -2}, 7);
  EXPECT_EQ(mixed.shape(), Shape({2, 2}));
  expect_values("mixed", mixed, {7, 7, 3, 7});
  EXPECT_EQ(pad(x, {-2, -2}).shape(), Shape({3, 0}));
}

TEST_P(Join, PadOfNothingIsAllValue) {
  expect_values("empty", pad(Tensor::empty({0, 2}, on()), {1, 0, 1, 1}, 5), {5, 5, 5, 5, 5, 5});
}

TEST_P(Join, PadIsACopyEvenWhereItOnlyCuts) {
  Tensor x = Tensor::zeros({3}, on());
  const Tensor same = pad(x, {}), cut = pad(x, {-1, 0});
  x.fill_(1.0);
  expect_values("same", same, {0, 0, 0});
  expect_values("cut", cut, {0, 0});
}

TEST_P(Join, PadOfEveryDType) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool}) {
    expect_values(to_string(dtype), pad(Tensor::zeros({1}, on(dtype)), {1, 1}, 1), {1, 0, 1});
  }
}

TEST_P(Join, PadDoesNotMultiply) {
  const double infinity = std::numeric_limits<double>::infinity();
  expect_values("infinity", pad(Tensor::full({1}, infinity, on()), {1, 1}), {0, infinity, 0});
}

TEST_P(Join, GradientsOfBothOrders) {
  constexpr GradcheckOptions kExact{.eps = 1.0, .atol = 1e-12, .rtol = 1e-12};  // linear
  const std::vector<Tensor> inputs = {counted({2, 3}, -3, on(kFloat64)), counted({2, 1}, 2, on(kFloat64)),
                                      counted({2, 3}, 0, on(kFloat64))};
  const auto both = [&](const DifferentiableFunction& f) {
    EXPECT_TRUE(gradcheck(f, inputs, kExact));
    EXPECT_TRUE(gradgradcheck(f, inputs, kExact));
  };
  both([](const std::vector<Tensor>& in) { return cat({in[0], in[1], in[2], in[0]}, 1); });
  both([](const std::vector<Tensor>& in) { return cat({stack({in[0], in[2]}, 1).flatten(1), in[1]}, 1); });
  both([](const std::vector<Tensor>& in) {
    return cat({pad(in[0], {1, 2, 0, 1}, 3), pad(in[1], {3, 2, 1, 0})}, 0) + pad(in[2], {-1, 4, 2, 2});
  });
}

TEST(JoinTape, GradientsReachOnlyTheOperandsThatNeedThem) {
  Tensor a = Tensor::ones({2}, kDouble).requires_grad_();
  const Tensor b = Tensor::ones({3}, kDouble);
  Tape tape;
  const Tensor weights = Tensor::arange(0, 5, 1, kDouble);
  tape.backward((cat({b, a}) * weights).sum());
  expect_values("a", a.grad(), {3, 4});
  EXPECT_FALSE(b.grad().defined());
}

TEST(JoinBadInput, Cat) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_ERROR(cat({}), "cat: there must be at least one tensor");
  EXPECT_ERROR(cat({x, Tensor{}}), "cat");
  EXPECT_ERROR(cat({x, Tensor::zeros({3, 3})}, 1), "cat: tensors must have one shape but for axis 1",
               "(2, 3) in place 0", "(3, 3) in place 1");
  EXPECT_ERROR(cat({x, Tensor::zeros({2})}, 1), "(2,) in place 1");
  EXPECT_ERROR(cat({x, x}, 2), "cat", "2");
  EXPECT_ERROR(cat({x, x.to(kFloat64)}), "one dtype", "float32 in place 0, float64 in place 1");
  EXPECT_ERROR(cat({Tensor::scalar(1.0)}), "cat: tensors must have an axis at least", "stack");
  const Tensor endless = Tensor::zeros({1}, {.dtype = kUInt8}).expand({std::int64_t{1} << 62});
  EXPECT_ERROR(cat({endless, endless}), "cat: the result's extents must fit in 63 bits", "(4611686018427387904,)");
  if (cuda_is_available()) {
    EXPECT_ERROR(cat({x, x.to(kCUDA)}), "one device", "cpu in place 0, cuda:0 in place 1");
  }
}

TEST(JoinBadInput, Stack) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_ERROR(stack({}), "stack: there must be at least one tensor");
  EXPECT_ERROR(stack({x, Tensor::zeros({2, 2})}), "stack: tensors must have one shape", "(2, 2) in place 1");
  EXPECT_ERROR(stack({x, x}, 3), "stack", "3");
  EXPECT_ERROR(stack({Tensor::zeros({1, 1, 1, 1, 1, 1, 1, 1})}), "stack: the result can have 8 axes at most");
}

TEST(JoinBadInput, Pad) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_ERROR(pad(Tensor{}, {1, 1}), "pad");
  EXPECT_ERROR(pad(x, {1}), "pad: padding must hold a (before, after) pair", "1 numbers for x (2, 3)");
  EXPECT_ERROR(pad(x, {1, 1, 1, 1, 1, 1}), "6 numbers for x (2, 3)");
  EXPECT_ERROR(pad(x, {-2, -2}), "pad: cuts must leave an extent of 0 at least", "(-2, -2) for axis 1 of x (2, 3)");
  EXPECT_ERROR(pad(x, {-4, 5}), "(-4, 5) for axis 1");
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  EXPECT_ERROR(pad(x, {kLargest, kLargest}), "pad: the result's extents must fit in 63 bits");
  EXPECT_ERROR(pad(x, {-kLargest, -kLargest}), "cuts must leave");
}

TEST_P(Join, PadTakesWhatTheDTypeHolds) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  expect_values("rounded once", pad(Tensor::zeros({1}, on(kBFloat16)), {1, 0}, 0.3) == 0.3, {1, 0});
  expect_values("infinite", pad(Tensor::zeros({1}, on(kFloat16)), {1, 1}, -kInf), {-kInf, 0, -kInf});
  expect_values("bool", pad(Tensor::zeros({1}, on(kBool)), {0, 1}, 1), {0, 1});
  const auto ones = [&](DType dtype) { return Tensor::ones({2}, on(dtype)); };
  EXPECT_ERROR(pad(ones(kUInt8), {1, 1}, -1), "pad: a scalar takes the tensor's dtype", "got -1 for uint8 (2,)");
  EXPECT_ERROR(pad(ones(kUInt8), {1, 1}, 255.5), "pad: a scalar takes", "got 255.5 for uint8");
  EXPECT_ERROR(pad(ones(kInt32), {1, 1}, kInf), "pad: a scalar takes", "got inf for int32");
  EXPECT_ERROR(pad(ones(kInt64), {1, 1}, std::nan("")), "pad: a scalar takes", "got nan for int64");
  EXPECT_ERROR(pad(ones(kFloat16), {1, 1}, 1e6), "pad: a scalar takes", "got 1000000 for float16");
  EXPECT_ERROR(pad(ones(kBool), {1, 1}, 2), "pad: a scalar takes", "got 2 for bool");
  EXPECT_ERROR(pad(ones(kUInt8), {}, 256), "pad: a scalar takes", "got 256 for uint8");
}

}  // namespace
}  // namespace adjoint::testing
