// Optimisers and clipping where an allocation fails: all or nothing.
#include <adjoint/core/parallel.h>
#include <adjoint/core/tape.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/support/failing_new.h>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace adjoint::optim {
namespace {

using adjoint::testing::Failure;
using adjoint::testing::for_each_failing_allocation;

/// Four parameters of three dtypes, one longer than a parallel range, one whose gradient is not contiguous.
struct Net {
  std::vector<Tensor> parameters{
      Tensor::full({40000}, 1.0, {.requires_grad = true}),
      Tensor::full({3}, 2.0, {.dtype = kFloat64, .requires_grad = true}),
      Tensor::full({5}, 3.0, {.dtype = kFloat16, .requires_grad = true}),
      Tensor::full({2, 3}, 4.0, {.requires_grad = true}),
  };

  Net() {
    for (std::size_t i = 0; i < 3; ++i) set_gradient(i, Tensor::full(parameters[i].shape(), 0.25));
    parameters[3].set_grad(Tensor::full({3, 2}, 0.5).view_as({2, 3}, {1, 2}, 0));
  }
  void set_gradient(std::size_t i, const Tensor& gradient) {
    parameters[i].set_grad(gradient.to(parameters[i].dtype()));
  }
};

using Values = std::vector<std::vector<double>>;

Values values_of(const NamedTensors& tensors) {
  Values values;
  for (const auto& [name, tensor] : tensors) values.push_back(tensor.to_vector<double>());
  return values;
}

/// Everything that a step or a clip may change.
Values everything(const Net& net, const Optimizer& optimizer) {
  Values values = values_of(optimizer.state_dict());
  for (const Tensor& p : net.parameters) {
    values.push_back(p.to_vector<double>());
    values.push_back(p.grad().to_vector<double>());
  }
  return values;
}

using Make = std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)>;

const std::vector<Make>& optimisers() {
  static const std::vector<Make> makes{
      [](const std::vector<Tensor>& p) { return std::make_unique<SGD>(p, SGDOptions{.lr = 0.1, .momentum = 0.9}); },
      [](const std::vector<Tensor>& p) { return std::make_unique<Adam>(p, AdamOptions{.amsgrad = true}); },
      [](const std::vector<Tensor>& p) { return std::make_unique<AdamW>(p); },
  };
  return makes;
}

/// Runs `act` after `steps` steps, each of its allocations failing in turn; a failed one must have changed nothing, and
/// a retry must give what an undisturbed run gives.
void expect_all_or_nothing(const Make& make, int steps, const std::function<void(Net&, Optimizer&)>& act) {
  const auto started = [&](Net& net) {
    auto optimizer = make(net.parameters);
    for (int t = 0; t < steps; ++t) optimizer->step();
    return optimizer;
  };
  Net undisturbed;
  const auto reference = started(undisturbed);
  act(undisturbed, *reference);
  const Values expected = everything(undisturbed, *reference);

  for (const Failure failure : {Failure::kOnce, Failure::kForGood}) {
    Net net;
    const auto optimizer = started(net);
    const Values before = everything(net, *optimizer);
    const int failures = for_each_failing_allocation(
        failure, [&] { act(net, *optimizer); },
        [&](int n) { ASSERT_EQ(everything(net, *optimizer), before) << "after failing allocation " << n; });
    EXPECT_GT(failures, 3);
    EXPECT_EQ(everything(net, *optimizer), expected);
  }
}

TEST(FailingAllocation, AStepIsAllOrNothing) {
  for (const Make& make : optimisers()) {
    for (const int steps : {0, 2}) expect_all_or_nothing(make, steps, [](Net&, Optimizer& o) { o.step(); });
  }
}

TEST(FailingAllocation, SoIsTheFirstStepWhoseThreadsAreNotThereYet) {
  for (const Make& make : optimisers()) {
    expect_all_or_nothing(make, 1, [](Net&, Optimizer& o) {
      const int threads = num_threads();
      set_num_threads(threads + 1);
      set_num_threads(2);
      o.step();
    });
  }
}

TEST(FailingAllocation, ClippingIsAllOrNothing) {
  expect_all_or_nothing(optimisers()[0], 1, [](Net& net, Optimizer&) {
    clip_grad_norm_({net.parameters[0], net.parameters[2], net.parameters[3]}, 0.5, {.error_if_nonfinite = true});
  });
  expect_all_or_nothing(optimisers()[0], 1, [](Net& net, Optimizer&) { clip_grad_value_(net.parameters, 0.125); });
}

TEST(FailingAllocation, ClippingRecordedGradientsIsAllOrNothing) {
  Net net;
  {
    Tape tape;
    Tensor sum = Tensor::zeros({}, {.requires_grad = true});
    for (const std::size_t i : {std::size_t{0}, std::size_t{3}}) {
      net.parameters[i].set_grad({});
      sum = sum + (net.parameters[i] * net.parameters[i]).sum();
    }
    tape.backward(sum, {.record = true});
  }
  const std::vector<Tensor> clipped{net.parameters[0], net.parameters[3]};
  ASSERT_TRUE(clipped[1].grad().requires_grad());
  for_each_failing_allocation(
      Failure::kOnce, [&] { clip_grad_value_(clipped, 1.5); },
      [&](int n) { ASSERT_TRUE(clipped[0].grad().requires_grad() && clipped[1].grad().requires_grad()) << n; });
  for (const Tensor& p : clipped) EXPECT_EQ(p.grad().to_vector<float>().back(), 1.5F);
}

TEST(FailingAllocation, LoadingStateIsAllOrNothing) {
  for (const Make& make : optimisers()) {
    Net other;
    const auto source = make(other.parameters);
    for (int t = 0; t < 3; ++t) source->step();
    source->set_lr(0.03125);
    const NamedTensors state = source->state_dict();
    expect_all_or_nothing(make, 1, [&](Net&, Optimizer& o) { o.load_state_dict(state); });
  }
}

}  // namespace
}  // namespace adjoint::optim
