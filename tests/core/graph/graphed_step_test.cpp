// GraphedStep on the CPU: its behaviour without graphs. A device that only pretends to record shows which graph serves
// a call, the host's part in a replay, which memory is kept, and which calls are refused.
#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/graph/graphed_step.h>
#include <adjoint/core/graph/step_graphs.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/pretend_step_device.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

using detail::StepCapture;
using detail::StepGraphs;
using Tensors = std::vector<Tensor>;

Tensor parameter(const std::vector<double>& values) {
  return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())}, {.requires_grad = true});
}

struct Steps {
  explicit Steps(GraphedStep::Function step, const GraphedStepOptions& options = {.device = kCPU})
      : graphs(std::move(step), options, device) {}
  Tensors operator()(const Tensors& inputs = {}) { return graphs.run(inputs); }

  std::shared_ptr<PretendDevice> device = std::make_shared<PretendDevice>();
  StepGraphs graphs;
};

// ---- Without graphs.

TEST(GraphedStep, ThrowsWhereItWasMovedFrom) {
  GraphedStep step([](const Tensors&) -> Tensors { return {}; }, {.device = kCPU});
  const GraphedStep moved = std::move(step);
  EXPECT_ERROR(step(), "GraphedStep: it must hold a step; got one that was moved from");
  EXPECT_ERROR(step.reset(), "moved from");
  EXPECT_EQ(moved.num_graphs(), 0U);
}

TEST(GraphedStep, RunsTheFunctionOnTheCpu) {
  int runs = 0;
  Tensor w = parameter({1.0, 2.0});
  GraphedStep step(
      [&](const Tensors& in) -> Tensors {
        ++runs;
        Tape tape;
        const Tensor loss = (w * in[0]).sum();
        tape.backward(loss);
        EXPECT_EQ(loss.item<double>(), 11.0) << "reading is no error here";
        return {loss, Tensor()};
      },
      {.device = kCPU});
  for (int i = 1; i <= 4; ++i) {
    const Tensors out = step({Tensor::from_vector<float>({3.0F, 4.0F}, {2})});
    ASSERT_EQ(out.size(), 2U);
    expect_values("loss", out[0], {11.0});
    EXPECT_FALSE(out[0].requires_grad());
    EXPECT_FALSE(out[1].defined());
    expect_values("gradient", w.grad(), {3.0 * i, 4.0 * i});
    EXPECT_EQ(runs, i);
  }
  EXPECT_EQ(step.num_graphs(), 0U);
  EXPECT_EQ(step.bytes(), 0U);
  int told = 0;
  GraphedStep::on_replay([&] { ++told; });
  EXPECT_EQ(told, 1);
  GraphedStep moved = std::move(step);
  moved.reset();
}

TEST(GraphedStep, RefusesWhatItCannotBeMadeOf) {
  const auto nothing = [](const Tensors&) { return Tensors(); };
  EXPECT_ERROR(GraphedStep({}, {.device = kCPU}), "GraphedStep: the function must not be empty");
  EXPECT_ERROR(GraphedStep(nothing, {.device = kCPU, .warmup = 0}), "GraphedStep: warmup must be at least 1; got 0");
  EXPECT_ERROR(GraphedStep(nothing, {.device = kCPU, .max_graphs = 0}), "max_graphs must be at least 1; got 0");
  if (!cuda_is_available()) {
    EXPECT_ERROR(GraphedStep(nothing, {.device = kCUDA}), "GraphedStep", "cuda:0");
  }
  GraphedStep step(nothing, {.device = kCPU});
  EXPECT_ERROR(step({Tensor::zeros({2}), parameter({1.0})}), "GraphedStep: inputs must not require gradients",
               "input 1 of shape (1,)");
  Tape tape;
  EXPECT_ERROR(step(), "GraphedStep: no tape must record around the step");
}

// ---- Which graph serves a call.

TEST(GraphedStep, RunsThenCapturesThenReplays) {
  int runs = 0;
  Steps step([&](const Tensors& in) -> Tensors {
    ++runs;
    return {in[0] + in[0]};
  });
  const Tensor x = Tensor::ones({3});
  step({x});
  EXPECT_EQ(step.device->begun, 0);
  EXPECT_EQ(step.graphs.num_graphs(), 0U);
  step({x});
  EXPECT_EQ(step.device->begun, 1);
  EXPECT_EQ(step.device->launches, 1) << "what was captured has not run";
  EXPECT_EQ(runs, 2);
  step({x});
  step({x});
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(step.device->launches, 3);
  EXPECT_EQ(step.graphs.num_graphs(), 1U);
  EXPECT_GT(step.graphs.bytes(), 0U);
  EXPECT_LE(step.device->writes, 3) << "where the output goes, and nothing else";
  step.graphs.reset();
  EXPECT_EQ(step.graphs.num_graphs(), 0U);
  EXPECT_EQ(step.device->taken, 0U) << "all memory went back";
  step({x});
  EXPECT_EQ(step.device->begun, 2) << "what ran before is warm";
}

TEST(GraphedStep, AReplayWithoutMemoryForItsOutputsCountsNothing) {
  int replays = 0;
  Steps step([&](const Tensors& in) -> Tensors {
    GraphedStep::on_replay([&] { ++replays; });
    return {in[0] + in[0]};
  });
  const Tensor x = Tensor::ones({3});
  for (int i = 0; i < 3; ++i) step({x});
  const int replays_before = replays, launches_before = step.device->launches;
  observe_allocations([](std::size_t, Device) { throw OutOfMemoryError("as this test wants it"); });
  EXPECT_THROW(step({x}), OutOfMemoryError);
  observe_allocations(nullptr);
  EXPECT_EQ(replays, replays_before);
  EXPECT_EQ(step.device->launches, launches_before);
  expect_values("the next", step({x})[0], {2, 2, 2});
  EXPECT_EQ(replays, replays_before + 1);
}

TEST(GraphedStep, GivesTheGraphCopiesOfItsInputsAndTheCallerCopiesOfItsOutputs) {
  const Tensor kept = Tensor::full({2}, 5.0);
  auto device = std::make_shared<PretendDevice>();
  StepGraphs graphs(
      [&](const Tensors& in) -> Tensors {
        Tensor y = Tensor::zeros({2});
        device->kernels = [in = in[0].data<float>(), out = y.mutable_data<float>()] {
          for (int i = 0; i < 2; ++i) out[i] = 10 * in[i];
        };
        return {y, kept, in[0]};
      },
      {.device = kCPU}, device);
  graphs.run({Tensor::zeros({2})});
  std::vector<Tensors> outputs;
  for (const double value : {1.0, 2.0, 3.0}) outputs.push_back(graphs.run({Tensor::full({2}, value)}));
  EXPECT_EQ(device->begun, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    const double value = static_cast<double>(i) + 1.0;
    expect_values("an output", outputs[i][0], {10 * value, 10 * value});
    EXPECT_EQ(outputs[i][1].raw_data(), kept.raw_data()) << "what the step has not made is handed on";
    expect_values("an input that comes out", outputs[i][2], {value, value});
  }
}

TEST(GraphedStep, KeepsAGraphForEachKindOfInput) {
  Steps step([](const Tensors& in) -> Tensors { return {in[0].defined() ? in[0] + in[0] : in[1] + in[1]}; },
             {.device = kCPU, .max_graphs = 5});
  const Tensor other = Tensor::ones({1});
  const std::vector<Tensors> kinds{{Tensor::zeros({3})},
                                   {Tensor::zeros({4})},
                                   {Tensor::zeros({3}, {.dtype = kFloat64})},
                                   {Tensor(), other},
                                   {Tensor::zeros({3}), other}};
  for (int round = 0; round < 4; ++round) {
    for (const Tensors& inputs : kinds) step(inputs);
  }
  EXPECT_EQ(step.device->begun, 5);
  EXPECT_EQ(step.graphs.num_graphs(), 5U);
  {
    const AutocastGuard guard(kBFloat16);
    for (int i = 0; i < 3; ++i) step(kinds[0]);
    EXPECT_EQ(step.device->begun, 6) << "another region, another graph";
  }
  EXPECT_EQ(step.graphs.num_graphs(), 5U) << "at most as many as are allowed";
  set_float32_precision(Precision::kTF32);
  for (int i = 0; i < 3; ++i) step(kinds[0]);
  set_float32_precision(Precision::kFull);
  EXPECT_EQ(step.device->begun, 7);
  const GeneratorGuard seeded(Generator(17));
  step(kinds[4]);
  EXPECT_EQ(step.device->begun, 7) << "a step that draws nothing has no seed";
}

TEST(GraphedStep, KeepsAGraphForEachSeedOnlyWhereItDraws) {
  bool draws = false;
  const auto runs = [&](int seeds) {
    Steps step([&](const Tensors& in) -> Tensors {
      // As a kernel that draws moves it.
      if (draws) default_generator().seek(default_generator().offset() + 1);
      return {in[0] + in[0]};
    });
    for (int seed = 0; seed < seeds; ++seed) {
      const GeneratorGuard seeded(Generator(static_cast<std::uint64_t>(seed)));
      for (int i = 0; i < 3; ++i) step({Tensor::zeros({2})});
    }
    return step.device->begun;
  };
  EXPECT_EQ(runs(4), 1);
  draws = true;
  EXPECT_EQ(runs(4), 4) << "kernels hold the seed";
}

TEST(GraphedStep, LeavesNoCastInTheRegionAroundIt) {
  const Tensor weight = Tensor::ones({2, 3}).requires_grad_();
  Steps step([&](const Tensors& in) -> Tensors { return {matmul(weight, in[0])}; });
  const AutocastGuard guard(kBFloat16);
  for (int i = 0; i < 4; ++i) step({Tensor::ones({3})});
  EXPECT_EQ(step.device->begun, 1);
}

TEST(GraphedStep, DropsTheGraphUsedLongestAgo) {
  Steps step([](const Tensors& in) -> Tensors { return {in[0] + in[0]}; }, {.device = kCPU, .max_graphs = 2});
  const Tensor a = Tensor::zeros({1}), b = Tensor::zeros({2}), c = Tensor::zeros({3});
  for (int i = 0; i < 2; ++i) {
    for (const Tensor& x : {a, b, c}) step({x});  // c's replaces a's
  }
  EXPECT_EQ(step.device->begun, 3);
  step({b});
  step({a});  // replaces c's
  step({b});
  EXPECT_EQ(step.device->begun, 4);
  step({c});
  EXPECT_EQ(step.device->begun, 5);
}

TEST(GraphedStep, KeepsItsGraphsWithinABoundOfMemory) {
  constexpr std::size_t kMegabyte = std::size_t{1} << 20;
  Steps step(
      [](const Tensors& in) -> Tensors {
        Tensor large = Tensor::empty({in[0].numel(), 1024, 1024}, {.dtype = kUInt8});
        return {large};
      },
      {.device = kCPU, .max_bytes = 8 * kMegabyte});
  for (int round = 0; round < 2; ++round) {
    for (const std::int64_t n : {2, 3, 5}) {
      for (int i = 0; i < 3; ++i) step({Tensor::zeros({n}, {.dtype = kUInt8})});
      EXPECT_LE(step.graphs.bytes(), 8 * kMegabyte);
    }
  }
  EXPECT_GE(step.device->begun, 5) << "what 5 needs leaves no room for 2 and 3";
  const Tensor nine = Tensor::zeros({9}, {.dtype = kUInt8});
  step({nine});
  EXPECT_ERROR(step({nine}), "empty: out of memory on cpu for a captured step (GraphedStep)", "9437184 bytes",
               "at most 8388608");
  EXPECT_LE(step.graphs.bytes(), 8 * kMegabyte);
  for (int i = 0; i < 2; ++i) step({Tensor::zeros({2}, {.dtype = kUInt8})});
}

TEST(GraphedStep, CapturesAnewWhereParametersMovedOrAConditionFails) {
  Tensor w = Tensor::ones({2});
  bool holds = true;
  Steps step([&](const Tensors&) -> Tensors {
    if (StepCapture* capture = StepCapture::current()) capture->valid_while([&] { return holds; });
    return {w + w};
  });
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(step.device->begun, 1);
  w.impl()->storage = Tensor::ones({2}).impl()->storage;  // as a module does that is moved
  for (int i = 0; i < 2; ++i) step();
  EXPECT_EQ(step.device->begun, 2);
  holds = false;
  step();
  EXPECT_EQ(step.device->begun, 3);
  EXPECT_EQ(step.graphs.num_graphs(), 1U) << "those that do not hold are gone";
}

// ---- The host's part in a replay.

TEST(GraphedStep, DoesTheHostsPartInOrderAndWritesWhatChanged) {
  double lr = 1.0;
  int steps = 0;
  std::vector<std::string> log;
  std::vector<double> seen;
  auto device = std::make_shared<PretendDevice>();
  StepGraphs graphs(
      [&](const Tensors&) -> Tensors {
        ++steps;
        if (StepCapture* capture = StepCapture::current()) {
          const auto* at = capture->value<double>(lr * steps, [&] {
            log.emplace_back("count");
            return lr * ++steps;
          });
          device->kernels = [&, at] { seen.push_back(*at); };
        }
        GraphedStep::on_replay([&] {
          log.emplace_back("decay");
          lr *= 0.5;
        });
        return {};
      },
      {.device = kCPU}, device);
  for (int i = 0; i < 4; ++i) graphs.run({});
  EXPECT_EQ(seen, (std::vector<double>{0.5 * 2, 0.25 * 3, 0.125 * 4}));
  EXPECT_EQ(log, (std::vector<std::string>{"decay", "decay", "count", "decay", "count", "decay"}));
  EXPECT_EQ(device->writes, 3);
  lr = 0.0;
  for (int i = 0; i < 3; ++i) graphs.run({});
  EXPECT_EQ(device->writes, 4) << "zero again is no change";
  EXPECT_EQ(seen.back(), 0.0);
}

TEST(GraphedStep, HasRoomForManyValues) {
  auto device = std::make_shared<PretendDevice>();
  std::vector<const double*> at;
  double now = 0.0;
  StepGraphs graphs(
      [&](const Tensors&) -> Tensors {
        StepCapture* const capture = StepCapture::current();
        for (int i = 0; capture != nullptr && i < 1000; ++i) {
          at.push_back(capture->value<double>(i, [&now, i] { return now + i; }));
        }
        return {};
      },
      {.device = kCPU}, device);
  for (int i = 0; i < 3; ++i) {
    now = i;
    graphs.run({});
  }
  ASSERT_EQ(at.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(*at[static_cast<std::size_t>(i)], 2.0 + i);
}

TEST(GraphedStep, ReplaysLeaveGradientsAndVersionsAsTheStepDoes) {
  Tensor w = parameter({1.0, 2.0});
  Tensor buffer = Tensor::zeros({2});
  Steps step([&](const Tensors& in) -> Tensors {
    w.set_grad({});
    Tape tape;
    const Tensor loss = (w * in[0]).sum();
    tape.backward(loss);
    buffer.add_(in[0]);
    return {loss};
  });
  const Tensor x = Tensor::ones({2}), y = Tensor::ones({2}, {.dtype = kFloat32});
  step({x});
  step({x});
  const Tensor graphs_own = w.grad();
  w.set_grad({});
  const std::uint32_t before = buffer.impl()->storage->version(), of_w = w.impl()->storage->version();
  step({x});
  ASSERT_TRUE(w.grad().defined());
  EXPECT_EQ(w.grad().raw_data(), graphs_own.raw_data());
  EXPECT_GT(buffer.impl()->storage->version(), before) << "a tape that saved it must know";
  EXPECT_EQ(w.impl()->storage->version(), of_w) << "which the step does not write";
  EXPECT_EQ(step.device->begun, 1) << "a gradient that is set before it is read is no condition";
}

// Adding to an existing gradient and to none are two graphs; adding to a different tensor is a third.
TEST(GraphedStep, GradientsThatAStepAddsToChooseTheGraph) {
  Tensor w = parameter({1.0});
  Steps step([&](const Tensors& in) -> Tensors {
    Tape tape;
    tape.backward((w * in[0]).sum());
    return {};
  });
  const Tensor x = Tensor::ones({1});
  for (int update = 0; update < 5; ++update) {
    w.set_grad({});
    for (int i = 0; i < 3; ++i) step({x});
  }
  // One that adds to the warm-up's gradient, which is gone; one that makes a gradient, and one that adds to it.
  EXPECT_EQ(step.device->begun, 3);
  EXPECT_EQ(step.graphs.num_graphs(), 2U);
}

TEST(GraphedStep, AStepInsideAnotherIsPartOfIt) {
  Steps inner([](const Tensors& in) -> Tensors { return {in[0] + in[0]}; });
  Steps outer([&](const Tensors& in) -> Tensors { return inner({in[0]}); });
  const Tensor x = Tensor::ones({2});
  for (int i = 0; i < 2; ++i) outer({x});
  EXPECT_EQ(outer.device->begun, 1);
  EXPECT_EQ(inner.device->begun, 0);
}

// ---- Calls that are refused.

/// Calls a step twice; the second call runs `what`.
template <class F>
void second_call(const F& what) {
  bool captures = false;
  Steps step([&](const Tensors&) -> Tensors {
    if (captures) what();
    return {};
  });
  step();
  captures = true;
  step();
}

TEST(GraphedStep, NamesWhatCannotBeCaptured) {
  const Tensor x = Tensor::ones({1});
  EXPECT_ERROR(second_call([&] { x.item<float>(); }),
               "item: a captured step (GraphedStep) must not wait for the device", "float32 (1,) on cpu",
               "return the tensor from the step");
  EXPECT_ERROR(second_call([&] { x.to_vector<float>(); }), "to_vector: a captured step");
  EXPECT_ERROR(second_call([] { empty_cache(); }), "empty_cache: a captured step (GraphedStep) must run on one stream");
  EXPECT_ERROR(second_call([] {
                 Generator own(5);
                 Tensor t = Tensor::zeros({2});
                 fill_uniform(t, 0.0, 1.0, own);
               }),
               "fill_uniform: a captured step (GraphedStep) must draw from the thread's default generator", "seed 5");
  EXPECT_ERROR(second_call([] { default_generator().next(); }), "Generator::next");
  EXPECT_ERROR(second_call([] { manual_seed(7); }), "GraphedStep: a captured step must not set the seed; got 7 after");
  Tensor kept;
  EXPECT_ERROR(second_call([&] { kept = x + x; }),
               "GraphedStep: a tensor that a captured step makes must not outlive it", "made by add", "return it");
}

TEST(GraphedStep, AFailedCaptureLeavesGradientsAndRandomNumbers) {
  Tensor w = parameter({1.0});
  const Tensor before = Tensor::full({1}, 3.0);
  const Generator seeded(99);
  const GeneratorGuard guard(seeded);
  bool fails = false;
  Steps step([&](const Tensors&) -> Tensors {
    w.set_grad({});
    Tape tape;
    tape.backward((w * w).sum());
    if (fails) throw std::runtime_error("the program's own");
    return {};
  });
  step();
  w.set_grad(before);
  fails = true;
  EXPECT_THROW(step(), std::runtime_error);
  EXPECT_EQ(step.device->abandoned, 1);
  EXPECT_EQ(step.device->launches, 0);
  EXPECT_EQ(w.grad().raw_data(), before.raw_data());
  EXPECT_EQ(default_generator().offset(), seeded.offset());
  EXPECT_EQ(default_generator().device_base(), nullptr);
  EXPECT_EQ(step.graphs.bytes(), 0U);
  EXPECT_EQ(StepCapture::current(), nullptr);
  fails = false;
  for (int i = 0; i < 2; ++i) step();
  EXPECT_EQ(step.device->launches, 2);
}

}  // namespace
}  // namespace adjoint::testing
