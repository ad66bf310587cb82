#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/tests/core/autograd/leaf.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace adjoint {
namespace {

using testing::leaf;
using testing::Values;
using testing::values;

Tensor two_layers(const std::vector<Tensor>& in) { return in[0] * in[0] * in[1] + in[0]; }

TEST(Checkpoint, GivesTheSameGradientsOfAnyOrder) {
  const Tensor x = leaf({1, 2, 3}), w = leaf({2, -1, 4});
  Tape tape;
  const auto plain = tape.gradient(two_layers({x * 2.0, w}).sum(), {x, w});
  const auto again = tape.gradient(checkpoint(two_layers, {x * 2.0, w}).sum(), {x, w});
  EXPECT_EQ(values(plain[0]), values(again[0]));
  EXPECT_EQ(values(plain[1]), values(again[1]));
  const auto through = [](const std::vector<Tensor>& in) { return checkpoint(two_layers, {in[0] * in[1], in[1]}); };
  EXPECT_TRUE(gradcheck(through, {x.detach(), w.detach()}));
  EXPECT_TRUE(gradgradcheck(through, {x.detach(), w.detach()}));
}

TEST(Checkpoint, FindsTheLeavesThatTheFunctionCaptures) {
  Tensor x = leaf({1, 2}), w = leaf({3, 4});
  int calls = 0;
  int hook_calls = 0;
  w.register_hook([&](const Tensor&) {
    ++hook_calls;
    return Tensor{};
  });
  const auto f = [&](const std::vector<Tensor>& in) {
    ++calls;
    return in[0] * w * w;
  };
  Tape tape;
  tape.backward((checkpoint(f, {x}) + w).sum());
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(hook_calls, 1);
  EXPECT_EQ(values(w.grad()), (Values{7, 17}));
  EXPECT_EQ(values(x.grad()), (Values{9, 16}));
  const Tensor recorded = x * 2.0;
  EXPECT_ERROR(checkpoint([&](const std::vector<Tensor>& in) { return in[0] * recorded; }, {w}), "outer live tape",
               "checkpoint");
}

TEST(Checkpoint, OfAFunctionThatGivesBackWhatItGot) {
  const auto identity = [](const std::vector<Tensor>& in) {
    return checkpoint([](const auto& x) { return x[0]; }, in);
  };
  EXPECT_TRUE(gradcheck(identity, {leaf({1, 2}).detach()}));
  EXPECT_TRUE(gradgradcheck([&](const auto& in) { return identity({in[0] * in[0]}); }, {leaf({1, 2}).detach()}));
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  Tape tape;
  const Tensor y = checkpoint([&](const std::vector<Tensor>&) { return w; }, {x});
  EXPECT_EQ(values(tape.gradient((y * y).sum(), {w}, {.retain = true})[0]), (Values{6, 8}));
  const Tensor recorded = x * 2.0;
  EXPECT_ERROR(checkpoint([&](const std::vector<Tensor>&) { return recorded; }, {w}), "outer live tape", "checkpoint");
}

// Follows its input, and scales by its current state, so that the gradient depends on the state.
struct Follower {
  bool copies = false;  // so that another call may precede the sweep
  Tensor state = leaf({1, 1}).detach();

  Tensor operator()(const std::vector<Tensor>& in) const {
    Tensor own = state;
    {
      const PauseTape pause;
      own.mul_(0.5).add_(in[0], 0.5);
    }
    return in[0] * in[0] * (copies ? state.clone() : state);
  }
};

TEST(Checkpoint, StateThatTheFunctionWritesInPlaceMovesOnce) {
  for (const bool record : {false, true}) {
    Follower plain, kept;
    Tensor x = leaf({3, 5}), y = leaf({3, 5}), w = leaf({2, 7});
    {
      Tape tape;
      tape.backward((plain({x}) * w).sum(), {.record = record});
    }
    const Values of_w = values(w.grad());
    w.set_grad({});
    Tape tape;
    const Tensor out = checkpoint(kept, {y});
    const Values after_first = values(kept.state);
    EXPECT_EQ(after_first, (Values{2, 3}));
    // Another call updates the state, which the operator after the checkpoint has saved.
    const Tensor loss = (out * w).sum();
    tape.backward(loss, {.retain = true, .record = record});
    EXPECT_EQ(values(kept.state), after_first);
    EXPECT_EQ(values(y.grad()), values(x.grad()));
    EXPECT_EQ(values(w.grad()), of_w);
    y.set_grad({});
    kept({y.detach()});
    const Values moved = values(kept.state);
    tape.backward(loss, {.retain = true, .record = record});
    EXPECT_EQ(values(kept.state), moved) << "as before the sweep, not as after the first run";
    EXPECT_EQ(values(y.grad()), values(x.grad()));
  }
}

TEST(Checkpoint, WhatSavedTheStateAfterwardsStaysRight) {
  Follower follower;
  Tensor x = leaf({3, 5});
  Tape tape;
  const Tensor out = checkpoint(follower, {x}), shifted = out * follower.state;
  tape.backward(shifted.sum(), {.retain = true});
  EXPECT_EQ(values(x.grad()), (Values{2 * 3 * 2 * 2, 2 * 5 * 3 * 3}));
  tape.backward(shifted.sum());
  EXPECT_EQ(values(x.grad()), (Values{48, 180}));
}

TEST(Checkpoint, StateMovesOnceInNestsAndInSequence) {
  Follower plain{.copies = true}, kept;
  const auto twice = [](const Follower& f, const Tensor& x) { return f({f({x}) * 0.1}); };
  const auto nested = [&](const std::vector<Tensor>& in) { return checkpoint(kept, {checkpoint(kept, in) * 0.1}); };
  Tensor x = leaf({3, 5}), y = leaf({3, 5}), z = leaf({3, 5});
  Tape tape;
  tape.backward(twice(plain, x).sum());
  tape.backward(nested({y}).sum());
  EXPECT_EQ(values(kept.state), values(plain.state));
  EXPECT_EQ(values(y.grad()), values(x.grad()));
  kept.state.fill_(1.0);
  tape.backward(checkpoint(nested, {z}).sum());
  EXPECT_EQ(values(kept.state), values(plain.state));
  EXPECT_EQ(values(z.grad()), values(x.grad()));
}

TEST(Checkpoint, OfAFunctionThatThrowsLeavesItsStateAsItWas) {
  Follower kept;
  const Tensor x = leaf({3, 5});
  bool fails = true;
  const auto failing = [&](const std::vector<Tensor>& in) {
    Tensor out = kept(in);
    ADJOINT_CHECK(!fails, "failing: fails");
    return out;
  };
  Tape tape;
  EXPECT_ERROR(checkpoint(failing, {x}), "failing: fails");
  EXPECT_EQ(values(kept.state), (Values{1, 1}));
  fails = false;
  const Tensor y = checkpoint(failing, {x}).sum();
  fails = true;
  EXPECT_ERROR(tape.backward(y), "failing: fails");
  EXPECT_EQ(values(kept.state), (Values{2, 3})) << "as before the sweep";
}

TEST(Checkpoint, OfAFunctionWhoseResultDependsOnNothing) {
  Tensor x = leaf({1, 2});
  const Tensor constant = leaf({3, 4}).detach();
  for (const bool record : {false, true}) {
    Tape tape;
    const Tensor y = checkpoint([&](const std::vector<Tensor>&) { return constant; }, {x});
    EXPECT_EQ(values(y), (Values{3, 4}));
    x.set_grad({});
    tape.backward((y + x).sum(), {.record = record});
    EXPECT_EQ(values(x.grad()), (Values{1, 1}));
  }
}

TEST(Checkpoint, KeepsInputsInsteadOfIntermediateResults) {
  const Tensor x = leaf({1, 2});
  std::weak_ptr<TensorImpl> inside;
  Tape tape;
  Tensor y = checkpoint(
      [&](const std::vector<Tensor>& in) {
        const Tensor squared = in[0] * in[0];
        inside = squared.impl_ptr();
        return squared * squared;
      },
      {x});
  EXPECT_TRUE(inside.expired());
  EXPECT_EQ(tape.size(), 2U);
  const std::weak_ptr<TensorImpl> result = y.impl_ptr();
  y = {};
  EXPECT_TRUE(result.expired()) << "nobody's gradient needs it";
}

TEST(Checkpoint, DrawsTheSameRandomNumbersAgain) {
  Tensor x = leaf({1, 1, 1});
  std::vector<double> masks;
  manual_seed(4);
  Tape tape;
  const Tensor y = checkpoint(
      [&](const std::vector<Tensor>& in) {
        const Tensor mask = Tensor::rand({3}, {.dtype = kFloat64});
        masks.push_back(mask.sum().item<double>());
        return in[0] * mask;
      },
      {x});
  const double next = Tensor::rand({1}, {.dtype = kFloat64}).item<double>();
  manual_seed(4);
  Tensor::rand({3}, {.dtype = kFloat64});
  EXPECT_EQ(next, Tensor::rand({1}, {.dtype = kFloat64}).item<double>());
  tape.backward(y.sum());
  ASSERT_EQ(masks.size(), 2U);
  EXPECT_EQ(masks[0], masks[1]);
  EXPECT_EQ(values(x.grad()), values(y));
}

}  // namespace
}  // namespace adjoint
