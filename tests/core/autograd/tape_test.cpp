#include <adjoint/core/autograd/op.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/core/autograd/leaf.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace adjoint {
namespace {

using testing::leaf;
using testing::Values;
using testing::values;

TEST(Tape, AddsGradientsToLeaves) {
  Tensor x = leaf({1, 2, 3}), y = leaf({4, 5, 6});
  {
    Tape tape;
    tape.backward((x * y + x).sum());
  }
  EXPECT_EQ(values(x.grad()), (Values{5, 6, 7}));
  EXPECT_EQ(values(y.grad()), (Values{1, 2, 3}));
  const Tensor held = x.grad();
  {
    Tape tape;
    tape.backward((x * 2.0).sum());
  }
  EXPECT_EQ(values(held), (Values{7, 8, 9})) << "a second backward adds in place";
}

TEST(Tape, RecordsNothingWhereNothingNeedsIt) {
  const Tensor x = leaf({1}), constant = Tensor::ones({1}, {.dtype = kFloat64});
  EXPECT_FALSE((x * 2.0).requires_grad()) << "no tape";
  Tape tape;
  EXPECT_FALSE((constant * 2.0).requires_grad());
  EXPECT_EQ(tape.size(), 0U);
  EXPECT_FALSE((x < 2.0).requires_grad());
  {
    const PauseTape pause;
    EXPECT_EQ(Tape::current(), nullptr);
    EXPECT_FALSE((x * 2.0).requires_grad());
    Tape inner;
    EXPECT_TRUE((x * 2.0).requires_grad()) << "a tape made inside a pause records";
  }
  EXPECT_EQ(Tape::current(), &tape);
  EXPECT_TRUE((x * 2.0).requires_grad());
}

// Counts how often each gradient rule of a two-operand operator runs.
int rule_calls[2];
constinit const OpDef<NoAttr> counted_op{.name = "counted",
                                         .infer =
                                             [](Operands in, const NoAttr&) {
                                               return TensorSpec{in[0].shape(), in[0].dtype()};
                                             },
                                         .cpu = [](Operands in, Tensor& out, const NoAttr&) { out.copy_(in[0]); },
                                         .vjp = {{{kSaveNone,
                                                   [](const Ctx<NoAttr>& c) {
                                                     ++rule_calls[0];
                                                     return c.grad;
                                                   }},
                                                  {kSaveNone, [](const Ctx<NoAttr>& c) {
                                                     ++rule_calls[1];
                                                     return c.grad * 0.0;
                                                   }}}}};

TEST(Tape, NeverComputesAGradientThatNobodyNeeds) {
  rule_calls[0] = rule_calls[1] = 0;
  const Tensor x = leaf({1}), y = leaf({2}), constant = leaf({3}).detach();
  Tape tape;
  tape.backward(apply(counted_op, {x, constant}));
  EXPECT_EQ(rule_calls[0], 1);
  EXPECT_EQ(rule_calls[1], 0) << "the operand needs no gradient";
  const Tensor z = apply(counted_op, {x, y});
  tape.gradient(z, {x});
  EXPECT_EQ(rule_calls[0], 2);
  EXPECT_EQ(rule_calls[1], 0) << "the operand is not asked for";
  EXPECT_FALSE(y.grad().defined());
}

TEST(Tape, GradientLeavesGradAlone) {
  const Tensor x = leaf({3});
  Tape tape;
  const Tensor y = x * x, z = y * x;
  const auto gradients = tape.gradient(z, {x, y});
  EXPECT_EQ(values(gradients[0]), (Values{27}));
  EXPECT_EQ(values(gradients[1]), (Values{3})) << "recorded tensors may be asked for too";
  EXPECT_FALSE(x.grad().defined());
}

TEST(Tape, FunctionsSweepWithTheTapeThatRecords) {
  const Tensor x = leaf({2, 3});
  EXPECT_ERROR(backward(x.sum()), "backward: a tape must record on this thread; got none; make a Tape");
  EXPECT_ERROR(gradient(x.sum(), {x}), "gradient: a tape must record on this thread; got none; make a Tape");
  Tape tape;
  const Tensor y = (x * x * x).sum();
  const Tensor g = gradient(y, {x}, {.record = true})[0];
  EXPECT_EQ(values(g), (Values{12, 27}));
  backward(g.sum(), {.retain = true});
  EXPECT_EQ(values(x.grad()), (Values{12, 18}));
  {
    const PauseTape pause;
    EXPECT_ERROR(backward(y), "backward: a tape must record", "outside PauseTape");
  }
  Tape inner;
  EXPECT_ERROR(backward(y), "backward: the result must be recorded on this tape");
}

TEST(Tape, AnyOrder) {
  const Tensor x = leaf({2});
  Tape tape;
  Tensor y = x * x * x * x;
  const double derivatives[] = {32, 48, 48, 24};
  for (const double expected : derivatives) {
    y = tape.gradient(y, {x}, {.record = true})[0];
    EXPECT_DOUBLE_EQ(y.item<double>(), expected);
  }
}

TEST(Tape, BackwardThroughARecordedGradient) {
  Tensor x = leaf({1, 2});
  Tape tape;
  const Tensor g = tape.gradient((x * x * x).sum(), {x}, {.record = true})[0];
  tape.backward((g * g).sum());  // sum (3 x^2)^2 -> 36 x^3
  EXPECT_EQ(values(x.grad()), (Values{36, 288}));
}

TEST(Tape, AMillionOperationsInBoundedStack) {
  Tensor x = leaf({1});
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 1000000; ++i) y = y + 1.0;
  tape.backward(y);
  EXPECT_EQ(values(x.grad()), (Values{1}));
  EXPECT_EQ(y.item<double>(), 1000001.0);
}

TEST(Tape, UnusedInputsAreErrorsUnlessAllowed) {
  const Tensor x = leaf({1}), unused = leaf({1}), on_tape = leaf({1});
  Tape tape;
  const Tensor other = on_tape * 2.0, y = x * 2.0;
  EXPECT_ERROR(tape.gradient(y, {x, unused}), "each input must be on this tape; got input 1 of shape (1,)");
  EXPECT_ERROR(tape.gradient(y, {on_tape}, {.retain = true}),
               "the result must depend on each input; got no dependence on input 0");
  EXPECT_ERROR(tape.gradient(y, {x, x, unused, unused}, {.retain = true}), "got input 2 of shape (1,)");
  EXPECT_ERROR(tape.gradient(y, {x, other, on_tape}, {.retain = true}), "no dependence on input 1 of shape (1,)");
  EXPECT_ERROR(tape.gradient(y, {x, x, x, on_tape}, {.retain = true}), "no dependence on input 3 of shape (1,)");
  const auto gradients = tape.gradient(y, {unused, x, other}, {.allow_unused = true});
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_EQ(values(gradients[1]), (Values{2}));
  EXPECT_FALSE(gradients[2].defined());
}

TEST(Tape, ASecondSweepNeedsRetain) {
  Tensor x = leaf({3});
  Tape tape;
  const Tensor y = x * x;
  tape.backward(y, {.retain = true});
  tape.backward(y);
  EXPECT_EQ(values(x.grad()), (Values{12}));
  EXPECT_ERROR(tape.backward(y), "an earlier sweep must not have freed", "mul, call #", ".retain");
  EXPECT_EQ(values(x.grad()), (Values{12})) << "an error leaves every gradient as it was";
}

TEST(Tape, ASweepFreesWhatItPasses) {
  const Tensor x = leaf({3});
  Tape tape;
  Tensor y;
  std::weak_ptr<TensorImpl> saved;
  {
    const Tensor middle = x * x;
    saved = middle.impl_ptr();
    y = middle * middle;
  }
  EXPECT_FALSE(saved.expired());
  tape.backward(y);
  EXPECT_TRUE(saved.expired());
}

TEST(Tape, ResultsNeedAGradientToStartFrom) {
  Tensor x = leaf({1, 2});
  Tape tape;
  const Tensor y = x * x;
  EXPECT_ERROR(tape.backward(y),
               "backward: a result of several elements needs a gradient to start from; got shape (2,)");
  EXPECT_ERROR(tape.backward(y, {.grad_output = Tensor::ones({2})}),
               "grad_output must have the result's shape, dtype and device", "float32", "float64");
  tape.backward(y, {.grad_output = Tensor::from_vector<double>({1, 10}, {2}, {.dtype = kFloat64})});
  EXPECT_EQ(values(x.grad()), (Values{2, 40}));
}

TEST(Tape, UnrecordedResultsAreErrors) {
  const Tensor x = leaf({1});
  const Tensor before = x * 2.0;
  Tape tape;
  EXPECT_ERROR(tape.backward(before), "backward: the result must be recorded on this tape; got shape (1,)");
  EXPECT_ERROR(tape.backward(Tensor{}), "backward: result must be defined");
}

TEST(Tape, OperandsOfAnotherTapeAreErrors) {
  const Tensor x = leaf({1});
  Tensor gone;
  {
    Tape tape;
    gone = x * 3.0;
    Tape inner;
    EXPECT_ERROR(gone * 2.0, "mul", "must not be recorded on an outer live tape", "detach()");
  }
  EXPECT_EQ(gone.item<double>(), 3.0) << "readable";
  EXPECT_EQ((gone * 2.0).item<double>(), 6.0) << "usable where nothing records";
  Tape tape;
  EXPECT_ERROR(gone * 2.0, "recorded on a tape that is gone", "detach()");
  EXPECT_EQ((gone.detach() * x).item<double>(), 3.0);
}

TEST(Tape, NestedTapesEachHaveTheirOwn) {
  Tensor x = leaf({2});
  Tape outer;
  const Tensor y = x * x;
  {
    Tape inner;
    const Tensor z = x * x * x;
    EXPECT_EQ(values(inner.gradient(z, {x})[0]), (Values{12}));
    EXPECT_ERROR(outer.gradient(y, {x}, {.retain = true, .record = true}),
                 ".record needs this tape to be the innermost one");
  }
  outer.backward(y);
  EXPECT_EQ(values(x.grad()), (Values{4}));
}

TEST(Tape, ThreadsShareLeaves) {
  Tensor x = leaf({1, 1});
  std::vector<std::thread> threads;
  constexpr int kThreads = 4, kSteps = 50;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int step = 0; step < kSteps; ++step) {
        Tape tape;
        tape.backward((x * 3.0).sum());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(values(x.grad()), (Values{3.0 * kThreads * kSteps, 3.0 * kThreads * kSteps}));
}

TEST(Tape, ThreadsShareLeavesWhoseHooksComeAndGo) {
  Tensor x = leaf({1, 1});
  std::thread sweeps([&] {
    for (int step = 0; step < 200; ++step) {
      Tape tape;
      tape.backward((x * 3.0).sum());
    }
  });
  for (int i = 0; i < 200; ++i) x.remove_hook(x.register_hook([](const Tensor& gradient) { return gradient * 1.0; }));
  sweeps.join();
  EXPECT_EQ(values(x.grad()), (Values{600, 600}));
}

TEST(Tape, LeavesNeverShareAGradientThatIsAddedToInPlace) {
  Tensor x = leaf({1, 1}), y = leaf({1, 1});
  const Tensor ones = leaf({1, 1}).detach();
  {
    Tape tape;
    tape.backward(x + y, {.record = true, .grad_output = ones});
  }
  {
    Tape tape;
    tape.backward(x * 2.0, {.grad_output = ones});
  }
  EXPECT_EQ(values(x.grad()), (Values{3, 3}));
  EXPECT_EQ(values(y.grad()), (Values{1, 1}));
  EXPECT_EQ(values(ones), (Values{1, 1}));
}

TEST(Tape, AddsToGradientsOfEveryKind) {
  Tensor x = leaf({1, 2});
  for (const bool record : {true, true, false}) {  // on a tape that is gone by the next
    Tape tape;
    tape.backward((x * x).sum(), {.record = record});
  }
  EXPECT_EQ(values(x.grad()), (Values{6, 12}));
  x.set_grad(leaf({5}).detach().expand({2}));
  Tape tape;
  tape.backward(x.sum());
  EXPECT_EQ(values(x.grad()), (Values{6, 6}));
}

TEST(InPlace, ThrowsWhereItWouldCorruptAGradient) {
  Tensor x = leaf({1, 2});
  x.add_(Tensor::ones({2}, {.dtype = kFloat64}));
  EXPECT_EQ(values(x), (Values{2, 3})) << "a leaf, while nothing records";
  Tape tape;
  EXPECT_ERROR(x.fill_(0), "fill_", "a leaf that requires a gradient while a tape records", "PauseTape");
  Tensor y = x * 2.0;
  EXPECT_ERROR(y.mul_(2), "mul_", "must not change a recorded tensor", "detach().clone()");
  {
    const PauseTape pause;
    EXPECT_ERROR(y.narrow(0, 0, 1).zero_(), "must not change a view of a recorded tensor");
    x.fill_(5);
  }
  EXPECT_EQ(values(y), (Values{4, 6}));
}

TEST(InPlace, AMovedVersionIsAnErrorAtTheSweep) {
  Tensor x = leaf({1, 2});
  Tensor constant = leaf({3, 4}).detach();
  Tape tape;
  const Tensor y = (x * constant).sum();
  constant.mutable_data<double>()[0] = 9.0;
  EXPECT_ERROR(tape.backward(y), "operand 1 of mul, call #", "was changed in place after it was saved", "clone()");
  const Tensor z = constant * x;
  constant.mutable_data<double>()[1] = 9.0;
  EXPECT_ERROR(tape.backward(z.sum()), "operand 0 of mul, call #", "was changed in place after it was saved");
  EXPECT_FALSE(x.grad().defined());
}

TEST(Hooks, SeeTheWholeGradientAndMayReplaceIt) {
  Tensor x = leaf({1});
  std::vector<double> seen;
  const auto id = x.register_hook([&](const Tensor& grad) {
    seen.push_back(grad.item<double>());
    return grad * 10.0;
  });
  {
    Tape tape;
    const Tensor y = x * 2.0;
    y.register_hook([&](const Tensor& grad) {
      seen.push_back(grad.item<double>());
      return Tensor{};
    });
    tape.backward(y * 3.0 + y * 4.0);
  }
  EXPECT_EQ(seen, (Values{7, 14})) << "summed over both uses";
  EXPECT_EQ(values(x.grad()), (Values{140}));
  x.remove_hook(id);
  Tape tape;
  tape.backward(x * 1.0);
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_ERROR(x.detach().register_hook({}), "register_hook: the tensor must require a gradient");
  x.register_hook([](const Tensor&) { return Tensor::ones({3}); });
  EXPECT_ERROR(tape.backward(x * 1.0), "register_hook: a hook must return nothing, or a gradient of the same shape");
}

TEST(Hooks, MayRemoveThemselves) {
  Tensor x = leaf({1});
  int calls = 0;
  std::uint64_t id = 0;
  id = x.register_hook([&](const Tensor&) {
    x.remove_hook(id);
    ++calls;
    return Tensor{};
  });
  for (int sweep = 0; sweep < 2; ++sweep) {
    Tape tape;
    tape.backward(x * 2.0);
  }
  EXPECT_EQ(calls, 1);
}

TEST(Tape, FreesWhatASweepHasPassedUnlessToldToRetain) {
  constexpr std::int64_t kCount = 100000;
  for (const bool retain : {false, true}) {
    Tensor x = Tensor::ones({kCount}).requires_grad_();
    Tape tape;
    std::vector<std::size_t> saved;  // from the result back
    Tensor y = x;
    for (int i = 0; i < 4; ++i) {
      y = y * y;
      y.register_hook([&](const Tensor&) {
        saved.push_back(memory_stats(kCPU)[MemoryCategory::kSaved].in_use);
        return Tensor{};
      });
    }
    y = y.sum();
    tape.backward(y, {.retain = retain});
    ASSERT_EQ(saved.size(), 4U);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(saved[i] - saved[i + 1], retain ? 0 : kCount * sizeof(float)) << "call " << i;
    }
  }
}

TEST(Tape, ASweepThatThrowsLeavesGradientsAndCanBeMadeAgainWithRetain) {
  for (const bool retain : {false, true}) {
    Tensor x = leaf({3}), w = leaf({2});
    Tape tape;
    const Tensor y = x * x, z = y * w;
    bool throws = true;
    y.register_hook([&](const Tensor&) {
      if (throws) throw Error("as this test wants it");
      return Tensor{};
    });
    EXPECT_ERROR(tape.backward(z, {.retain = retain}), "as this test wants it");
    EXPECT_FALSE(x.grad().defined() || w.grad().defined());
    throws = false;
    if (retain) {
      tape.backward(z);
      EXPECT_EQ(values(x.grad()), (Values{12}));
    } else {
      EXPECT_ERROR(tape.backward(z), "an earlier sweep must not have freed", ".retain");
      EXPECT_FALSE(w.grad().defined());
    }
  }
}

class Anomaly : public ::testing::Test {
 protected:
  void SetUp() override { set_anomaly_mode(true); }
  void TearDown() override { set_anomaly_mode(false); }
};

TEST_F(Anomaly, NamesTheForwardCall) {
  const Tensor x = leaf({0, 1}), zero = leaf({0, 0}).detach();
  Tape tape;
  const Tensor y = (x.sqrt() * zero + x).sum();  // 0 / 0
  EXPECT_ERROR(tape.backward(y), "anomaly: a gradient became NaN in the gradient of sqrt((2,) float64), call #");
}

}  // namespace
}  // namespace adjoint
