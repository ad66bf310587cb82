// split, chunk and unbind on a tape: each is one call, whose gradient joins the gradients of the parts.
#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/view/view.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_values;

Tensor made(const Shape& shape) {
  return Tensor::from_vector(testing::integers(shape.numel(), 4, 7), shape, {.dtype = kFloat64}).requires_grad_();
}

TEST(Split, GradientsOfPartsThatAreUsedOrNot) {
  const Tensor x = made({2, 5});
  Tape tape;
  const std::vector<Tensor> columns = unbind(x, 1), halves = split(x, {2, 0, 3}, 1), rows = chunk(x, 2, 0);
  expect_values("one", gradient(columns[3].sum(), {x}, {.retain = true})[0], {0, 0, 0, 1, 0, 0, 0, 0, 1, 0});
  expect_values("some", gradient((columns[0] * 2.0 + columns[3]).sum(), {x}, {.retain = true})[0],
                {2, 0, 0, 1, 0, 2, 0, 0, 1, 0});
  expect_values("sizes",
                gradient((halves[0].sum() + halves[1].sum() + halves[2].sum() * 3.0), {x}, {.retain = true})[0],
                {1, 1, 3, 3, 3, 1, 1, 3, 3, 3});
  expect_values("rows", gradient((rows[0] * rows[1]).sum(), {x}, {.retain = true})[0], [&] {
    std::vector<double> values = x.to_vector<double>();
    std::rotate(values.begin(), values.begin() + 5, values.end());
    return values;
  }());
  // A part is a tensor that gradients can be asked for.
  expect_values("a part's", gradient((columns[1] * columns[2]).sum(), {columns[1]})[0], columns[2].to_vector<double>());
}

TEST(Split, DerivativesAreRightToTheSecondOrder) {
  const auto all = [](const std::vector<Tensor>& in) {
    Tensor product = in[0].select(1, 0);
    for (const Tensor& part : unbind(in[0], 1)) product = product * part;
    return product;
  };
  const auto some = [](const std::vector<Tensor>& in) {
    const std::vector<Tensor> parts = split(in[0], {2, 1, 1}, -1);
    return parts[0] * parts[2] * parts[0];
  };
  for (const DifferentiableFunction& f : {DifferentiableFunction(all), DifferentiableFunction(some)}) {
    EXPECT_TRUE(gradcheck(f, {made({3, 4})}));
    EXPECT_TRUE(gradgradcheck(f, {made({3, 4})}));
  }
}

TEST(Split, IsOneCallWhateverTheNumberOfParts) {
  const Tensor x = made({1000, 2});
  Tape tape;
  const Tensor y = x * 1.0;
  const std::size_t before = tape.size();
  const std::vector<Tensor> rows = unbind(y, 0);
  EXPECT_EQ(tape.size(), before + 1000);  // its results
  Tensor sum = rows[0];
  for (std::size_t i = 1; i < rows.size(); ++i) sum = sum + rows[i];
  tape.backward(sum.sum());
  expect_values("ones", x.grad(), std::vector<double>(2000, 1.0));
}

TEST(Split, PartsAreViews) {
  Tensor x = Tensor::zeros({2, 3});
  unbind(x, 1)[1].copy_(Tensor::ones({2}));
  expect_values("written", x, {0, 1, 0, 0, 1, 0});
  const Tensor leaf = made({2, 3});
  const std::vector<Tensor> outside = chunk(leaf, 3, 1);
  Tape tape;
  EXPECT_ERROR(outside[0] * 2.0, "a view of a tensor that requires a gradient must be made while the tape records");
  std::vector<Tensor> inside = chunk(leaf, 3, 1);
  EXPECT_ERROR(inside[0].zero_(), "zero_", "recorded");
}

}  // namespace
}  // namespace adjoint
