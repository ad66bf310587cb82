// The interface that PyTorch users expect: members, updates by operators, indexing, printing.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

TEST(Interface, UpdatesByOperators) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    Tensor x = Tensor::from_vector({1.0, 2.0, 3.0, 4.0}, {2, 2}, {.dtype = dtype});
    const Tensor same = x, row = Tensor::from_vector({2.0, 4.0}, {2}, {.dtype = dtype});
    x += row;
    expect_values("+=", same, {3, 6, 5, 8});
    x -= row;
    expect_values("-=", same, {1, 2, 3, 4});
    x *= row;
    expect_values("*=", same, {2, 8, 6, 16});
    x /= row;
    expect_values("/=", same, {1, 2, 3, 4});
    x += 1.0;
    x -= 3.0;
    x *= 4.0;
    x /= 2.0;
    expect_values("scalars", same, {-2, 0, 2, 4});
    x *= x.transpose(0, 1);  // reads the elements that it writes
    expect_values("itself", same, {4, 0, 0, 16});
    Tensor column = x.transpose(0, 1).narrow(0, 0, 1);
    column += 5.0;
    expect_values("a strided view", same, {9, 0, 5, 16});
  }
  Tensor integers = Tensor::from_vector({1, 2, 3}, {3}, {.dtype = kInt32});
  integers *= integers;
  integers += 2.0;
  expect_values("int32", integers, {3, 6, 11});
}

TEST(Interface, UpdatesThatCannotBeAreErrors) {
  Tensor x = Tensor::ones({2, 3});
  EXPECT_ERROR(x *= Tensor::ones({3, 2}), "mul_: ");
  EXPECT_ERROR(x /= Tensor::ones({4, 2, 3}), "div_: the operand must broadcast to the tensor's shape");
  EXPECT_ERROR(x *= Tensor::ones({3}, {.dtype = kFloat64}), "mul_: ");
  EXPECT_ERROR(x += Tensor{}, "add_: the operand must be defined");
  EXPECT_ERROR(x *= 1e300, "mul_: ");
  Tensor integers = Tensor::ones({2}, {.dtype = kInt32});
  EXPECT_ERROR(integers /= integers, "div_: ");
  EXPECT_ERROR(integers += 0.5, "add_: ");
  const Tensor leaf = Tensor::ones({2}, {.requires_grad = true});
  Tape tape;
  Tensor y = leaf * 2.0;
  EXPECT_ERROR(y *= y, "mul_: ");
  EXPECT_ERROR(y -= 1.0, "sub_: ");
  Tensor z = leaf;
  EXPECT_ERROR(z += 1.0, "add_: ");
}

TEST(Interface, MembersAreTheFunctions) {
  const Tensor x = Tensor::from_vector({0.25, 0.5, 0.75}, {3});
  expect_same_bits("exp", x.exp(), exp(x));
  expect_same_bits("pow", x.pow(2.0), pow(x, 2.0));
  expect_same_bits("clamp", x.clamp(0.3, 0.6), clamp(x, 0.3, 0.6));
  expect_values("isnan", x.isnan(), {0, 0, 0});
  expect_values("masked_fill", x.masked_fill(x > 0.3, 9.0), {0.25, 9, 9});
  expect_values("amin", x.amin(), {0.25});
  expect_values("argmax", x.argmax(0), {2});
  expect_values("cumsum", x.cumsum(0), {0.25, 0.75, 1.5});
  EXPECT_EQ(x.chunk(2).size(), 2U);
  const Tensor grid = Tensor::arange(0.0, 6).reshape({2, 3});
  expect_values("index", grid.index({kEllipsis, Slice(0, {}, 2)}), {0, 2, 3, 5});
  expect_values("mask", grid.index({grid > 3.0}), {4, 5});
  expect_values("norm of an axis", grid.norm(1.0, 1), {3, 12});
}

TEST(Interface, IndexesTheFirstAxis) {
  const Tensor x = Tensor::arange(0.0, 6).reshape({2, 3});
  expect_values("row", x[1], {3, 4, 5});
  expect_values("element", x[-1][0], {3});
  x[0].fill_(7.0);
  expect_values("a view", x, {7, 7, 7, 3, 4, 5});
  EXPECT_ERROR(x[2], "select: ");
}

TEST(Interface, GradientsCanBeScaled) {
  const Tensor x = Tensor::from_vector({1.f, 2.f}, {2}, {.requires_grad = true});
  {
    Tape tape;
    tape.backward((x * x).sum());
  }
  x.grad() *= 0.5;
  x.grad().add_(1.0);
  expect_values("gradient", x.grad(), {2, 3});
}

TEST(Interface, PrintsShapesDtypesAndDevices) {
  std::ostringstream out;
  out << Shape{2, 3} << ' ' << kBFloat16 << ' ' << kCPU;
  EXPECT_EQ(out.str(), "(2, 3) bfloat16 cpu");
}

TEST(Interface, AFrozenModelAndNoTapeAreDifferentErrors) {
  const Tensor frozen = Tensor::ones({1}), leaf = Tensor::ones({1}, {.requires_grad = true});
  const Tensor before = leaf * 2.0;
  Tape tape;
  EXPECT_ERROR(tape.backward(before), "nothing ran while this tape recorded");
  const Tensor loss = frozen * 2.0;
  EXPECT_ERROR(tape.backward(loss), "1 operations ran", "is the model frozen?");
  const Tensor recorded = leaf * 3.0;
  EXPECT_ERROR(tape.backward(loss), "from a tensor that requires a gradient");
  Tape inner;
  EXPECT_ERROR(inner.backward(recorded), "it was recorded on another tape");
}

// Constants alone, so nothing is recorded: the tape counts the calls of all threads.
TEST(Interface, TasksCallOperatorsUnderTheirCallersTape) {
  const Tensor frozen = Tensor::ones({4});
  Tape tape;
  parallel_for(64, [&](std::int64_t) { EXPECT_EQ((frozen * 2.0).sum().item<float>(), 8.0F); });
  EXPECT_ERROR(tape.backward(frozen.sum()), "129 operations ran", "is the model frozen?");
}

TEST(Interface, AnomalyModeFindsWhatTheForwardPassMakes) {
  struct Anomaly {
    Anomaly() { set_anomaly_mode(true); }
    ~Anomaly() { set_anomaly_mode(false); }
  } const on;
  const Tensor x = Tensor::from_vector({0.0, 1.0}, {2}, {.requires_grad = true});
  Tape tape;
  EXPECT_ERROR(log(x), "log: in anomaly mode finite operands must give finite results", "result 0 of shape (2,)");
  EXPECT_EQ(tape.size(), 0U) << "nothing was recorded";
  EXPECT_ERROR(sqrt(x - 1.0), "sqrt: in anomaly mode", "operands of shapes (2,)");
  const Tensor infinite = Tensor::full({2}, 1.0) / 0.0;  // not recorded: a constant such as a mask
  EXPECT_NO_THROW(x * infinite) << "what comes in is not finite";
}

}  // namespace
}  // namespace adjoint
