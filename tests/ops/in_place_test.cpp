// In-place elementwise functions: each leaves the function's result in the tensor, through any strides, and is never
// recorded.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/factories.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

const std::vector<double> kValues{0.5, 0.25, 2.5, 0.125, 0.75, 1.375};

template <class InPlace, class Function>
void expect_in_place(const char* name, const InPlace& in_place, const Function& function) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16}) {
    const Tensor x = Tensor::from_vector(kValues, {2, 3}, {.dtype = dtype}), wanted = function(x);
    Tensor packed = x.clone(), columns = x.t().contiguous().t();
    in_place(packed);
    in_place(columns);
    expect_same_bits(name, packed, wanted);
    expect_same_bits(name, columns, wanted);
  }
}

TEST(InPlace, FunctionsOfElements) {
#define EXPECT_IN_PLACE(NAME) \
  expect_in_place(            \
      #NAME, [](Tensor& x) { EXPECT_EQ(&x.NAME##_(), &x); }, [](const Tensor& x) { return NAME(x); })
  EXPECT_IN_PLACE(abs);
  EXPECT_IN_PLACE(ceil);
  EXPECT_IN_PLACE(cos);
  EXPECT_IN_PLACE(exp);
  EXPECT_IN_PLACE(floor);
  EXPECT_IN_PLACE(log);
  EXPECT_IN_PLACE(neg);
  EXPECT_IN_PLACE(reciprocal);
  EXPECT_IN_PLACE(relu);
  EXPECT_IN_PLACE(round);
  EXPECT_IN_PLACE(rsqrt);
  EXPECT_IN_PLACE(sigmoid);
  EXPECT_IN_PLACE(sign);
  EXPECT_IN_PLACE(sin);
  EXPECT_IN_PLACE(sqrt);
  EXPECT_IN_PLACE(square);
  EXPECT_IN_PLACE(tanh);
  EXPECT_IN_PLACE(trunc);
#undef EXPECT_IN_PLACE
  expect_in_place(
      "pow", [](Tensor& x) { x.pow_(3); }, [](const Tensor& x) { return pow(x, 3); });
  const Tensor mask = tensor({{true, false, true}, {false, false, true}}), places = tensor({{0, 2}, {1, 1}});
  expect_in_place(
      "masked_fill", [&](Tensor& x) { x.masked_fill_(mask, 7); },
      [&](const Tensor& x) { return masked_fill(x, mask, 7); });
  expect_in_place(
      "scatter", [&](Tensor& x) { x.scatter_(1, places, zeros_like(x)); },
      [&](const Tensor& x) { return scatter(x, 1, places, zeros_like(x)); });
  expect_in_place(
      "scatter, a value", [&](Tensor& x) { x.scatter_(1, places, 3); },
      [&](const Tensor& x) { return scatter(x, 1, places, 3); });
  expect_in_place(
      "scatter_add", [&](Tensor& x) { x.scatter_add_(1, places, ones_like(x)); },
      [&](const Tensor& x) { return scatter_add(x, 1, places, ones_like(x)); });
  expect_in_place(
      "index_fill",
      [](Tensor& x) {
        x.index_fill_(1, tensor({0, 2}), 9);
      },
      [](const Tensor& x) {
        const Tensor nines = full_like(x.narrow(1, 0, 1), 9);
        return cat({nines, x.narrow(1, 1, 1), nines}, 1);
      });
}

TEST(InPlace, KeepsTheDType) {
  Tensor whole = tensor({4, -9});
  expect_values("integers", whole.abs_(), {4, 9});
  EXPECT_ERROR(whole.sqrt_(), "sqrt_: the result must have the tensor's dtype; got float32 for a tensor of int64");
  expect_values("unchanged", whole, {4, 9});
}

TEST(InPlace, IsNeverRecorded) {
  Tensor leaf = tensor({1.0, 2.0}, {.requires_grad = true});
  {
    Tape tape;
    EXPECT_ERROR(leaf.exp_(), "exp_: ");
    Tensor recorded = leaf * 2.0;
    EXPECT_ERROR(recorded.relu_(), "relu_: ");
    Tensor other = ones(2);
    EXPECT_ERROR(other.scatter_(0, tensor({0, 1}), leaf), "scatter_: ");
    other.exp_();
    EXPECT_FALSE(other.requires_grad());
    const PauseTape pause;
    leaf.neg_();
  }
  expect_values("paused", leaf, {-1, -2});
  EXPECT_TRUE(leaf.is_leaf());
  EXPECT_ERROR(Tensor().exp_(), "exp_: ");
}

TEST(InPlace, DrawsNumbers) {
  manual_seed(3);
  Tensor x = zeros({20000});
  x.uniform_();
  EXPECT_NEAR(x.mean().item<float>(), 0.5, 0.02);
  x.normal_();
  EXPECT_NEAR(x.std().item<float>(), 1.0, 0.03);
  x.bernoulli_(0.25);
  EXPECT_NEAR(x.mean().item<float>(), 0.25, 0.02);
  expect_same_bits("0 or 1", x, square(x));
  x.exponential_(2.0);
  EXPECT_NEAR(x.mean().item<float>(), 0.5, 0.02);
  EXPECT_GE(x.min().item<float>(), 0.0F);
  Tensor whole = zeros({1000}, {.dtype = kUInt8});
  whole.random_(3, 6);
  EXPECT_EQ(whole.min().item<std::uint8_t>(), 3);
  EXPECT_EQ(whole.max().item<std::uint8_t>(), 5);
  EXPECT_ERROR(x.exponential_(0.0), "exponential_: the rate must be positive");
  EXPECT_ERROR(x.bernoulli_(2.0), "bernoulli_: ");
}

}  // namespace
}  // namespace adjoint
