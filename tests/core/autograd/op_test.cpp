// Operators of several results, with tensors that only the gradient sees, operands that may be undefined, and one rule
// for all operands: on the tape, in hooks, in a recorded sweep.
#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

// (x, y[, z]) -> x y + z, x - y and the sign of x as int64; x is kept for the gradient, rather than saved as an
// operand.
struct SplitAttr {};

int kept_in_calls = 0;

void pair_kernel(Operands in, Results out, const SplitAttr&) {
  const auto* x = in[0].data<double>();
  const auto* y = in[1].data<double>();
  const auto* z = in[2].defined() ? in[2].data<double>() : nullptr;
  for (std::int64_t i = 0; i < in[0].numel(); ++i) {
    out[0].mutable_data<double>()[i] = x[i] * y[i] + (z == nullptr ? 0.0 : z[i]);
    out[1].mutable_data<double>()[i] = x[i] - y[i];
    out[2].mutable_data<std::int64_t>()[i] = x[i] < 0.0 ? -1 : 1;
  }
  if (!out[3].defined()) return;
  ++kept_in_calls;
  std::copy(x, x + in[0].numel(), out[3].mutable_data<double>());
}

Tensor or_zero(const Tensor& grad, const Tensor& like) { return grad.defined() ? grad : zeros_like(like); }

constinit const OpDef<SplitAttr> pair_op{
    .name = "pair",
    .infer = [](Operands in, const SplitAttr&) -> Specs {
      const TensorSpec same{in[0].shape(), in[0].dtype()};
      return {.specs = {same, same, {in[0].shape(), kInt64}, same}, .results = 3, .kept = 1};
    },
    .cpu = pair_kernel,
    .optional = 1U << 2,
    .joint_vjp = {[](const SplitAttr&, Needs needs) { return needs[0] ? kSaveIn1 : kSaveNone; },
                  [](const Ctx<SplitAttr>& c, Needs needs, Results grads) {
                    const Tensor& like = c.grads[0].defined() ? c.grads[0] : c.grads[1];
                    const Tensor product = or_zero(c.grads[0], like), difference = or_zero(c.grads[1], like);
                    // The kept x is no place on the tape, so a recorded sweep of this operator is of first order in x.
                    if (needs[0]) grads[0] = product * c.in[1] + difference;
                    if (needs[1]) grads[1] = product * c.outs[3] - difference;
                    if (needs[2]) grads[2] = product;
                  }}};

std::array<Tensor, kMaxResults> pair(const Tensor& x, const Tensor& y, const Tensor& z = {}) {
  return apply_all(pair_op, {x, y, z}, SplitAttr{});
}

class SeveralResults : public ::testing::Test {
 protected:
  static Tensor leaf(const std::vector<double>& values) {
    return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())},
                               {.dtype = kFloat64, .requires_grad = true});
  }
  const Tensor x = leaf({2, -3}), y = leaf({5, 7}), z = leaf({1, 1});
};

TEST_F(SeveralResults, HaveTheirGradientsTogetherAndAlone) {
  {
    Tape tape;
    const auto r = pair(x, y, z);
    EXPECT_EQ(r[2].to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, -1}));
    const auto both = tape.gradient((r[0] * 2.0 + r[1] * 3.0).sum(), {x, y, z}, {.retain = true});
    expect_values("x", both[0], {13, 17});
    expect_values("y", both[1], {1, -9});
    expect_values("z", both[2], {2, 2});
    const auto second = tape.gradient(r[1].sum(), {x, y}, {.retain = true});
    expect_values("x of the second alone", second[0], {1, 1});
    expect_values("y of the second alone", second[1], {-1, -1});
    const auto first = tape.gradient(r[0].sum(), {x, z});
    expect_values("x of the first alone", first[0], {5, 7});
    expect_values("z of the first alone", first[1], {1, 1});
  }
  Tape tape;
  const auto r = pair(x, y);
  tape.backward((r[1] * r[0]).sum());
  expect_values("x", x.grad(), {5 * (2 - 5) + 2 * 5, 7 * (-3 - 7) - 3 * 7});
}

TEST_F(SeveralResults, ThatCarryNoGradientAreNotRecorded) {
  Tape tape;
  const auto r = pair(x, y);
  EXPECT_TRUE(r[0].requires_grad());
  EXPECT_TRUE(r[1].requires_grad());
  EXPECT_FALSE(r[2].requires_grad());
  EXPECT_FALSE(r[3].defined());
}

TEST_F(SeveralResults, KeepTensorsOnlyForATape) {
  kept_in_calls = 0;
  (void)pair(x, y);
  EXPECT_EQ(kept_in_calls, 0);
  Tape tape;
  (void)pair(x.detach(), y.detach());
  EXPECT_EQ(kept_in_calls, 0);
  (void)pair(x, y);
  EXPECT_EQ(kept_in_calls, 1);
}

TEST_F(SeveralResults, AreTargetsAndHaveHooks) {
  Tape tape;
  const auto r = pair(x, y);
  int seen = 0;
  r[1].register_hook([&](const Tensor& grad) {
    ++seen;
    return grad * 10.0;
  });
  const auto found = tape.gradient((r[0] + r[1]).sum(), {r[0], r[1], x});
  EXPECT_EQ(seen, 1);
  expect_values("the first", found[0], {1, 1});
  expect_values("the second", found[1], {10, 10});
  expect_values("x", found[2], {15, 17});
}

TEST_F(SeveralResults, AreSweptOnce) {
  Tape tape;
  const auto r = pair(x, y);
  tape.backward(r[1].sum());
  EXPECT_ERROR(tape.backward(r[0].sum()), "backward: ", "pair", ".retain");
}

TEST_F(SeveralResults, MayNotChangeWhereTheyWereSaved) {
  Tape tape;
  const Tensor factor = y.detach().clone();
  const auto r = pair(x, factor);
  Tensor changed = factor;
  changed.mul_(2.0);
  EXPECT_ERROR(tape.backward(r[1].sum()), "operand 1 of pair");
}

TEST_F(SeveralResults, DifferentiateAgain) {
  const auto f = [](const std::vector<Tensor>& in) {
    const auto r = pair(in[0], in[1].detach(), in[2]);
    return r[0] * r[1] * in[2];
  };
  EXPECT_TRUE(gradcheck(f, {x, y.detach(), z}));
  EXPECT_TRUE(gradgradcheck(f, {x, y.detach(), z}));
}

TEST_F(SeveralResults, PassACheckpoint) {
  Tape tape;
  const Tensor out = checkpoint(
      [](const std::vector<Tensor>& in) {
        const auto r = pair(in[0], in[1]);
        return r[0] + r[1] * 3.0;
      },
      {x, y});
  const auto found = tape.gradient(out.sum(), {x, y});
  expect_values("x", found[0], {8, 10});
  expect_values("y", found[1], {-1, -6});
}

TEST_F(SeveralResults, SayWhichOperandIsMissing) {
  EXPECT_ERROR(pair(x, Tensor{}, z), "pair: ", "operand 1");
  EXPECT_ERROR(pair(Tensor{}, y, z), "pair: ", "operand 0");
  EXPECT_NO_THROW(pair(x, y, Tensor{}));
}

TEST(ApplyInto, RefusesAnotherShape) {
  static constinit const OpDef<NoAttr> twice_op{.name = "twice",
                                                .infer =
                                                    [](Operands in, const NoAttr&) {
                                                      return TensorSpec{in[0].shape(), in[0].dtype()};
                                                    },
                                                .cpu =
                                                    [](Operands in, Tensor& out, const NoAttr&) {
                                                      for (std::int64_t i = 0; i < out.numel(); ++i)
                                                        out.mutable_data<float>()[i] = 2 * in[0].data<float>()[i];
                                                    }};
  Tensor target = Tensor::zeros({2, 3});
  const Tensor from = Tensor::arange(0.0, 6).reshape({2, 3});
  apply_into(twice_op, target, Operands(&from, 1), NoAttr{});
  expect_values("contiguous", target, {0, 2, 4, 6, 8, 10});
  Tensor across = target.transpose(0, 1);
  const Tensor tall = from.reshape({3, 2});
  apply_into(twice_op, across, Operands(&tall, 1), NoAttr{});
  expect_values("transposed", target, {0, 4, 8, 2, 6, 10});
  EXPECT_ERROR(apply_into(twice_op, across, Operands(&from, 1), NoAttr{}), "twice: ", "(2, 3)", "(3, 2)");
}

}  // namespace
}  // namespace adjoint
