// The calls that a user's functions may make while a sweep runs.
#include <adjoint/core/autograd/custom.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/core/autograd/leaf.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace adjoint {
namespace {

using testing::leaf;
using testing::Values;
using testing::values;

// Gradients of x + y where a hook on `x` tries `edit` on its gradient, which y's shares.
void expect_refused(const std::function<void(Tensor)>& edit, const char* op) {
  SCOPED_TRACE(op);
  Tensor x = leaf({1, 2}), y = leaf({3, 4});
  const Tensor seed = leaf({5, 6}).detach();
  bool refused = false;
  const auto hook = x.register_hook([&](const Tensor& gradient) {
    refused = testing::throws_error([&] { edit(gradient); },
                                    {op, "a gradient must not change in place while a sweep still uses it", "clone()"});
    return Tensor{};
  });
  Tape tape;
  tape.backward(x + y, {.grad_output = seed});
  x.remove_hook(hook);
  EXPECT_TRUE(refused);
  EXPECT_EQ(values(x.grad()), (Values{5, 6}));
  EXPECT_EQ(values(y.grad()), (Values{5, 6}));
  EXPECT_EQ(values(seed), (Values{5, 6}));
}

TEST(Hooks, ThatChangeTheirGradientInPlaceAreErrors) {
  const Tensor ones = Tensor::ones({2}, {.dtype = kFloat64});
  expect_refused([](Tensor g) { g.mul_(2.0); }, "mul_");
  expect_refused([&](Tensor g) { g.add_(ones); }, "add_");
  expect_refused([](Tensor g) { g.zero_(); }, "zero_");
  expect_refused([&](Tensor g) { g.copy_(ones); }, "copy_");
  expect_refused([](Tensor g) { g.uniform_(0, 1); }, "uniform_");
  expect_refused([](Tensor g) { g.normal_(0, 1); }, "normal_");
  expect_refused([](Tensor g) { g.mutable_data<double>()[0] = 7.0; }, "mutable_data");
  expect_refused([](Tensor g) { static_cast<double*>(g.raw_mutable_data())[0] = 7.0; }, "raw_mutable_data");
  expect_refused([](Tensor g) { g.detach().mul_(2.0); }, "mul_");
  expect_refused([](Tensor g) { g.narrow(0, 1, 1).mul_(2.0); }, "mul_");
  expect_refused([](Tensor g) { g.reshape({2, 1}).fill_(1.0); }, "fill_");
}

TEST(Hooks, ThatThrowTheRefusalEndTheSweepAndChangeNothing) {
  Tensor x = leaf({1, 2}), y = leaf({3, 4});
  const auto hook = x.register_hook([](const Tensor& gradient) { return Tensor(gradient).mul_(2.0); });
  Tape tape;
  const Tensor z = (x + y).sum();
  EXPECT_ERROR(tape.backward(z), "mul_", "a gradient must not change in place");
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(y.grad().defined());
  x.remove_hook(hook);
  tape.backward(z);
  EXPECT_EQ(values(x.grad()), (Values{1, 1})) << "the same sweep again";
}

TEST(Hooks, MayNotChangeWhatAnotherHookSawOrGaveOrWhatTheSweepStartedFrom) {
  Tensor x = leaf({1}), y = leaf({1});
  Tensor seed = leaf({4}).detach(), seen, given = leaf({9}).detach();
  int refused = 0;
  Tape tape;
  const Tensor middle = x * 1.0 + y, z = middle + 0.0;
  z.register_hook([&](const Tensor& gradient) {
    seen = gradient;
    return Tensor{};
  });
  middle.register_hook([&](const Tensor&) { return given; });
  x.register_hook([&](const Tensor&) {
    for (Tensor* held : {&seed, &seen, &given}) {
      refused += testing::throws_error([&] { held->zero_(); }, {"a gradient must not change in place"}) ? 1 : 0;
    }
    return Tensor{};
  });
  tape.backward(z, {.grad_output = seed});
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(values(x.grad()), (Values{9}));
  EXPECT_EQ(values(y.grad()), (Values{9}));
  for (Tensor* held : {&seed, &seen, &given}) held->zero_();  // the sweep is done
  EXPECT_EQ(values(x.grad()), (Values{9})) << "no leaf shares what a hook gave";
  EXPECT_EQ(values(y.grad()), (Values{9}));
}

TEST(Hooks, MayChangeAClone) {
  Tensor x = leaf({1, 2});
  x.register_hook([](const Tensor& gradient) { return gradient.clone().mul_(3.0); });
  Tape tape;
  tape.backward(x.sum());
  EXPECT_EQ(values(x.grad()), (Values{3, 3}));
}

TEST(Hooks, ThatChangeWhatALaterGradientNeedsAreErrors) {
  Tensor x = leaf({2}), y = leaf({3});
  Tensor constant = leaf({5}).detach();
  Tape tape;
  const Tensor middle = x * constant;
  middle.register_hook([&](const Tensor&) { return constant.zero_(), Tensor{}; });
  EXPECT_ERROR(tape.backward(middle * y), "operand 1 of mul", "was changed in place after it was saved");
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(y.grad().defined()) << "although the sweep had y's gradient";
}

TEST(Hooks, MaySweepAndSetGradientsThemselves) {
  Tensor x = leaf({2}), other = leaf({1});
  Tape tape;
  const Tensor y = x * x, loss = other * 5.0;
  y.register_hook([&](const Tensor&) {
    tape.backward(loss, {.retain = true});
    Tape own;
    own.backward(other * 7.0);
    x.set_grad(leaf({100}).detach());
    return Tensor{};
  });
  tape.backward(y);
  EXPECT_EQ(values(other.grad()), (Values{12}));
  EXPECT_EQ(values(x.grad()), (Values{104}));
}

TEST(Hooks, ThatSweepOverTheSameNodesAgainAreErrorsWithoutRetain) {
  Tensor x = leaf({2});
  Tape tape;
  const Tensor y = x * x, z = y * 3.0;
  int calls = 0;
  y.register_hook([&](const Tensor&) {
    if (++calls == 1) tape.backward(z);
    return Tensor{};
  });
  EXPECT_ERROR(tape.backward(z), "an earlier sweep must not have freed", ".retain");
  EXPECT_EQ(values(x.grad()), (Values{12})) << "the inner sweep's alone";
}

TEST(Hooks, ThatSweepToThemselvesWithoutEndAreErrors) {
  Tensor x = leaf({2});
  Tape tape;
  const Tensor y = x * x, z = y * 3.0;
  int calls = 0;
  const auto again = y.register_hook([&](const Tensor&) {
    ++calls;
    tape.backward(z, {.retain = true});
    return Tensor{};
  });
  EXPECT_ERROR(tape.backward(z, {.retain = true}), "backward: a hook must not begin a sweep that comes to it again");
  EXPECT_FALSE(x.grad().defined());
  EXPECT_LT(calls, 20);
  y.remove_hook(again);
  const auto current = y.register_hook([&](const Tensor&) { return backward(z), Tensor{}; });
  EXPECT_ERROR(tape.backward(z, {.retain = true}), "backward: a tape must record on this thread; got none");
  EXPECT_ERROR(tape.backward(z, {.record = true}), "backward: ");
  y.remove_hook(current);
  // The gradient of a leaf, each time by a new tape.
  const auto of_leaf = x.register_hook([&](const Tensor&) {
    Tape own;
    return own.gradient((x * 2.0).sum(), {x})[0];
  });
  EXPECT_ERROR(tape.backward(z, {.retain = true}), "gradient: a hook must not begin a sweep that comes to it again");
  x.remove_hook(of_leaf);
  tape.backward(z);
  EXPECT_EQ(values(x.grad()), (Values{12}));
}

TEST(Hooks, GradientsOfAProgramThatSweepToThemselvesWithoutEndAreErrors) {
  Tensor x = leaf({2});
  Tape tape;
  Tensor loss;
  loss = custom(
      "own", {x}, [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 2.0}; },
      [&](const CustomCall& call) -> std::vector<Tensor> {
        tape.backward(loss, {.retain = true});
        return {call.grads[0] * 2.0};
      })[0];
  EXPECT_ERROR(tape.backward(loss, {.retain = true}), "backward: own must not begin a sweep that comes to it again");
  EXPECT_FALSE(x.grad().defined());
}

TEST(Hooks, ThatEndTheTapeOrLeaveOneBehindAreErrors) {
  Tensor x = leaf({2});
  for (const bool record : {false, true}) {
    auto tape = std::make_unique<Tape>();
    const Tensor y = x * 1.0;
    y.register_hook([&](const Tensor&) { return tape.reset(), Tensor{}; });
    EXPECT_ERROR(tape->backward(y * x, {.record = record}), "register_hook", "must leave the tape that sweeps alive");
    EXPECT_EQ(tape, nullptr);
    EXPECT_EQ(Tape::current(), nullptr);
  }
  std::unique_ptr<Tape> left;
  std::unique_ptr<PauseTape> pause;
  Tape tape;
  const auto id = x.register_hook([&](const Tensor&) { return left = std::make_unique<Tape>(), Tensor{}; });
  EXPECT_ERROR(tape.backward(x * x), "register_hook", "end the tapes and pauses that it makes");
  left.reset();
  x.remove_hook(id);
  x.register_hook([&](const Tensor&) { return pause = std::make_unique<PauseTape>(), Tensor{}; });
  EXPECT_ERROR(tape.backward(x * x, {.record = true}), "register_hook", "end the tapes and pauses that it makes");
  pause.reset();
  EXPECT_EQ(Tape::current(), &tape);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Hooks, OfTensorsWhoseTapeIsGoneOrAnotherThreadsAreErrors) {
  const auto nothing = [](const Tensor&) { return Tensor{}; };
  const Tensor x = leaf({1});
  Tensor gone;
  {
    Tape tape;
    gone = x * 2.0;
    std::thread([&] {
      EXPECT_ERROR(gone.register_hook(nothing), "register_hook: the tensor's tape must be alive on this thread");
    }).join();
    gone.remove_hook(gone.register_hook(nothing));
  }
  EXPECT_ERROR(gone.register_hook(nothing),
               "register_hook: the tensor's tape must be alive on this thread; got shape (1,)");
  gone.remove_hook(1);
  Tape another;
  EXPECT_ERROR(gone.register_hook(nothing), "register_hook: the tensor's tape must be alive on this thread");
}

TEST(Hooks, ThatAreEmptyAreErrors) {
  Tensor x = leaf({1});
  Tape tape;
  const Tensor y = x * 2.0;
  EXPECT_ERROR(x.register_hook({}), "register_hook: the hook must be a function");
  EXPECT_ERROR(y.register_hook(GradientHook{}), "register_hook: the hook must be a function");
  EXPECT_ERROR(Tensor{}.register_hook([](const Tensor& g) { return g; }), "register_hook: tensor must be defined");
  tape.backward(y);
  EXPECT_EQ(values(x.grad()), (Values{2}));
}

TEST(CheckpointFunction, MustBeThereAndLeaveInputsAndTapesAlone) {
  const Tensor x = leaf({1}), w = leaf({2});
  using Inputs = std::vector<Tensor>;
  EXPECT_ERROR(checkpoint({}, {x}), "checkpoint: f must be a function");
  Tensor constant = leaf({3}).detach();
  Tape tape;
  EXPECT_ERROR(checkpoint({}, {x}), "checkpoint: f must be a function");
  EXPECT_ERROR(checkpoint([](const Inputs&) { return Tensor{}; }, {x}), "the function's result must be defined");
  EXPECT_ERROR(checkpoint([](const Inputs& in) { return Tensor(in[1]).mul_(2.0), in[0] * in[1]; }, {x, constant}),
               "checkpoint: the function must not change its inputs in place", "input 1");
  EXPECT_ERROR(checkpoint([](const Inputs& in) { return Tensor(in[0]).mul_(2.0), in[0] * in[1]; }, {constant, x}),
               "checkpoint: the function must not change its inputs in place", "input 0");
  std::unique_ptr<Tape> left;
  EXPECT_ERROR(checkpoint([&](const Inputs& in) { return left = std::make_unique<Tape>(), in[0]; }, {x}),
               "checkpoint: the function must end the tapes and pauses that it makes");
  left.reset();
  EXPECT_EQ(Tape::current(), &tape);
  EXPECT_EQ(tape.size(), 0U) << "nothing that failed is recorded";
}

TEST(CheckpointFunction, MayNotEndTheTapeThatRecords) {
  Tensor x = leaf({1});
  auto tape = std::make_unique<Tape>();
  EXPECT_ERROR(checkpoint([&](const std::vector<Tensor>& in) { return tape.reset(), in[0] * in[0]; }, {x}),
               "checkpoint: the function must not end the tape that records");
  EXPECT_EQ(Tape::current(), nullptr);
}

TEST(CheckpointFunction, MayEndNoTapeInItsSecondRun) {
  Tensor x = leaf({1});
  auto tape = std::make_unique<Tape>();
  int runs = 0;
  const Tensor y = checkpoint(
      [&](const std::vector<Tensor>& in) {
        if (++runs == 2) tape.reset();
        return in[0] * in[0];
      },
      {x * 2.0});
  EXPECT_ERROR(tape->backward(y), "backward: the gradient of checkpoint must leave the tape that sweeps alive");
  EXPECT_FALSE(x.grad().defined());
}

TEST(CheckpointFunction, MaySweepItsOwnTapeAgainInItsSecondRun) {
  Tensor x = leaf({3}), w = leaf({2});
  Tape tape;
  int runs = 0;
  Tensor y;
  y = checkpoint(
      [&](const std::vector<Tensor>& in) {
        if (++runs == 2) tape.backward(y);
        return in[0] * w;
      },
      {x});
  tape.backward(y);
  EXPECT_EQ(values(x.grad()), (Values{4})) << "both sweeps'";
  EXPECT_EQ(values(w.grad()), (Values{6}));
}

}  // namespace
}  // namespace adjoint
