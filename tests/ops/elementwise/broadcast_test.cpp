// Broadcasting, refusals and in-place updates.
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/absent_device.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_values;
using testing::integers;
using testing::non_contiguous;
using testing::on_absent_device;

struct BroadcastCase {
  Shape a, b, result;
};

// The element of `values` (of `shape`) at `flat` of the result.
double broadcast_at(const std::vector<double>& values, const Shape& shape, const Shape& result, std::int64_t flat) {
  std::int64_t offset = 0, pitch = 1;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t position = flat % result[result.size() - 1 - i];
    flat /= result[result.size() - 1 - i];
    if (i >= shape.size()) continue;
    const std::int64_t extent = shape[shape.size() - 1 - i];
    offset += (extent == 1 ? 0 : position) * pitch;
    pitch *= extent;
  }
  return values[static_cast<std::size_t>(offset)];
}

TEST(Broadcast, FollowsNumPy) {
  const BroadcastCase cases[] = {
      {{2, 3}, {3}, {2, 3}},
      {{3}, {2, 3}, {2, 3}},
      {{2, 3}, {}, {2, 3}},
      {{2, 1}, {1, 3}, {2, 3}},
      {{4, 1, 5}, {3, 1}, {4, 3, 5}},
      {{1}, {1, 1, 1}, {1, 1, 1}},
      {{2, 3, 4, 5}, {3, 1, 1}, {2, 3, 4, 5}},
      {{0, 3}, {1, 3}, {0, 3}},
      {{1, 3}, {0, 1}, {0, 3}},
      {{}, {}, {}},
      {{60, 1, 70}, {1, 50, 1}, {60, 50, 70}},
  };
  for (const BroadcastCase& c : cases) {
    const std::vector<double> a = integers(c.a.numel(), 9, 1), b = integers(c.b.numel(), 9, 2);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < c.result.numel(); ++i) {
      expected.push_back(broadcast_at(a, c.a, c.result, i) - broadcast_at(b, c.b, c.result, i));
    }
    const std::string what = to_string(c.a) + " - " + to_string(c.b);
    const Tensor result = Tensor::from_vector<double>(a, c.a) - Tensor::from_vector<double>(b, c.b);
    EXPECT_EQ(result.shape(), c.result) << what;
    expect_values(what, result, expected);
    expect_values(what + ", strided", non_contiguous(a, c.a, {}) - non_contiguous(b, c.b, {}), expected);
  }
}

TEST(Broadcast, GradientsAreSummedBack) {
  Tape tape;
  const Tensor a = Tensor::ones({2, 1, 3}, {.requires_grad = true});
  const Tensor b = Tensor::full({4, 1}, 2.0, {.requires_grad = true});
  tape.backward((a * b).sum());
  EXPECT_EQ(a.grad().shape(), (Shape{2, 1, 3}));
  expect_values("a", a.grad(), std::vector<double>(6, 8.0));
  expect_values("b", b.grad(), std::vector<double>(4, 6.0));
}

TEST(Broadcast, WhereTakesThreeShapes) {
  const Tensor condition = Tensor::from_vector<double>({1, 0}, {2, 1}, {.dtype = kBool});
  const Tensor a = Tensor::from_vector<double>({1, 2, 3}, {3});
  expect_values("where", where(condition, a, Tensor::scalar(-1.0)), {1, 2, 3, -1, -1, -1});
}

TEST(ElementwiseErrors, NameTheOperatorTheRuleAndTheValues) {
  const Tensor f = Tensor::ones({2, 3});
  const Tensor i = Tensor::ones({2, 3}, {.dtype = kInt64});
  const Tensor b = Tensor::ones({2, 3}, {.dtype = kBool});
  const Tensor d = Tensor::ones({2, 3}, {.dtype = kFloat64});
  EXPECT_ERROR(f + d, "add: operands must share one dtype; got float32 (2, 3) and float64 (2, 3)", "to()");
  EXPECT_ERROR(f * d.narrow(0, 0, 1), "mul: operands must share one dtype; got float32 (2, 3) and float64 (1, 3)");
  EXPECT_ERROR(f - Tensor::ones({4}), "sub: ", "(2, 3)", "(4,)");
  EXPECT_ERROR(f * on_absent_device({2, 3}), "mul: operands must be on one device; got cpu and cuda:0", "to()");
  EXPECT_ERROR(b + b, "add: the dtype must be numeric; got bool (2, 3)");
  EXPECT_ERROR(-b, "neg: the dtype must be numeric; got bool");
  EXPECT_ERROR(i.to(kUInt8) + 256, "add: a scalar takes the tensor's dtype and must fit it exactly; got 256 for uint8");
  EXPECT_ERROR(i.to(kUInt8) - -1, "sub: a scalar takes the tensor's dtype", "-1 for uint8");
  EXPECT_ERROR(i * ((std::int64_t{1} << 53) + 1), "mul: an integer scalar must not be beyond 2^53", "for int64 (2, 3)");
  EXPECT_ERROR(clamp(i.to(kUInt8), -1, 2), "clamp: a scalar takes the tensor's dtype");
  EXPECT_ERROR(pow(i, -1), "pow: integers have no negative powers; got exponent -1 for int64 (2, 3)");
  EXPECT_ERROR(clamp(f, std::nan(""), 2.0), "clamp: bounds must not be NaN");
  EXPECT_ERROR(where(f, f, f), "where: the condition must be bool; got float32 (2, 3)");
  EXPECT_ERROR(where(b, f, d), "where: operands must share one dtype; got float32 (2, 3) and float64 (2, 3)");
  EXPECT_ERROR(prelu(f, Tensor::ones({2})), "prelu: weight must have one element, or one for each", "(2, 3)", "(2,)");
  EXPECT_ERROR(prelu(f, Tensor::ones({1, 3})), "prelu: weight must have one element");
  EXPECT_ERROR(f + Tensor{}, "add: the second operand must be defined");
  EXPECT_ERROR(Tensor{} + f, "add: the first operand must be defined");
  EXPECT_ERROR(Tensor{} + 1.0, "add: the tensor must be defined");
  EXPECT_ERROR(exp(Tensor{}), "exp: ");
  EXPECT_ERROR(where(Tensor{}, f, f), "where: the first operand must be defined");
}

TEST(InPlace, AddsAndScales) {
  Tensor x = Tensor::from_vector<double>({1, 2, 3, 4, 5, 6}, {2, 3});
  x.add_(Tensor::ones({2, 3}), 2.0);
  expect_values("add_", x, {3, 4, 5, 6, 7, 8});
  x.add_(Tensor::from_vector<double>({1, 2, 3}, {3}), -1.0);
  expect_values("broadcast", x, {2, 2, 2, 5, 5, 5});
  x.mul_(0.5);
  expect_values("mul_", x, {1, 1, 1, 2.5, 2.5, 2.5});
  x.add_(x);
  expect_values("itself", x, {2, 2, 2, 5, 5, 5});
  for (const DType dtype : {kFloat16, kBFloat16, kFloat64, kInt32, kInt64, kUInt8}) {
    Tensor y = Tensor::full({5}, 3, {.dtype = dtype});
    expect_values(to_string(dtype), y.add_(Tensor::full({5}, 4, {.dtype = dtype}), 2.0).mul_(2.0),
                  std::vector<double>(5, 22.0));
  }
}

TEST(InPlace, WritesThroughViews) {
  Tensor x = Tensor::arange(0.0, 12).reshape({3, 4});
  Tensor column = x.narrow(1, 1, 2).transpose(0, 1);
  column.add_(Tensor::from_vector<double>({100, 200}, {2, 1}));
  expect_values("add_", x, {0, 101, 202, 3, 4, 105, 206, 7, 8, 109, 210, 11});
  column.mul_(0.0);
  expect_values("mul_", x, {0, 0, 0, 3, 4, 0, 0, 7, 8, 0, 0, 11});
  // An operand that shares memory is read whole before anything is written.
  Tensor square = Tensor::arange(0.0, 4).reshape({2, 2});
  square.add_(square.transpose(0, 1));
  expect_values("transposed", square, {0, 3, 3, 6});
  Tensor line = Tensor::arange(0.0, 5);
  Tensor(line.narrow(0, 1, 4)).add_(line.narrow(0, 0, 4));
  expect_values("shifted", line, {0, 1, 3, 5, 7});
  Tensor none = Tensor::zeros({0, 2});
  EXPECT_EQ(none.add_(Tensor::ones({2})).mul_(2.0).numel(), 0);
}

TEST(InPlace, RefusesWhatItCannotDo) {
  Tensor x = Tensor::ones({2, 3});
  EXPECT_ERROR(x.add_(Tensor::ones({2, 2, 3})),
               "add_: the operand must broadcast to the tensor's shape; got operand (2, 2, 3)");
  EXPECT_ERROR(x.add_(Tensor::ones({4})), "add_: ", "(2, 3)", "(4,)");
  EXPECT_ERROR(x.add_(Tensor::ones({2, 3}, {.dtype = kFloat64})),
               "add_: the tensor's dtype must hold the operand's; got operand float64 (2, 3), tensor float32 (2, 3)");
  EXPECT_ERROR(x.to(kInt64).mul_(x), "mul_: the tensor's dtype must hold the operand's", "float32", "int64");
  EXPECT_ERROR(x.to(kBool).add_(x.to(kInt64)), "add_: the tensor's dtype must hold the operand's", "int64", "bool");
  EXPECT_ERROR(x.add_(Tensor{}), "add_: the operand must be defined");
  EXPECT_ERROR(x.to(kInt64).mul_(0.5), "mul_: a scalar takes the tensor's dtype");
  EXPECT_ERROR(x.to(kBool).mul_(1.0), "mul_: the dtype must be numeric");
  Tensor wide = Tensor::ones({2, 1}).expand({2, 3});
  EXPECT_ERROR(wide.mul_(2.0), "must not share memory; got an expanded tensor of shape (2, 3)");
  expect_values("unchanged", x, std::vector<double>(6, 1.0));

  Tensor leaf = Tensor::ones({3}, {.requires_grad = true});
  leaf.mul_(2.0);
  Tape tape;
  EXPECT_ERROR(leaf.mul_(2.0), "mul_: ");
  EXPECT_ERROR(leaf.add_(Tensor::ones({3})), "add_: ");
  Tensor y = leaf * 3.0;
  EXPECT_ERROR(y.add_(Tensor::ones({3})), "add_: ");
  // Values that a gradient needs must not have moved since.
  Tensor plain = Tensor::ones({3});
  const Tensor product = leaf * plain;
  plain.mul_(2.0);
  EXPECT_ERROR(tape.backward(product.sum()), "mul");
}

}  // namespace
}  // namespace adjoint
