// A training step: every operation of it all or nothing.
#include <adjoint/adjoint.h>
#include <adjoint/tests/faults/faults.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

using Inputs = std::vector<Tensor>;

Tensor with_values(const Shape& shape, std::uint64_t seed, Device device) {
  return Tensor::from_vector<double>(reals(shape.numel(), seed), shape, {.dtype = kFloat32}).to(device);
}

// A network of parts that each record in their own way: an activation in a convolution, a checkpoint, hooks.
struct Training {
  explicit Training(Device device)
      : body(nn::Conv2d(1, 2, {.kernel_size = 2}), nn::SiLU(), nn::Flatten()),
        head(nn::Linear(8, 2)),
        x(with_values({1, 1, 3, 3}, 1, device)),
        target(with_values({1, 2}, 2, device)) {
    const PauseTape pause;
    body.to(device);
    head.to(device);
    Inputs parameters = body.parameters();
    for (const Tensor& parameter : head.parameters()) parameters.push_back(parameter);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].copy_(with_values(parameters[i].shape(), 10 + i, device));
    parameters[1].register_hook([](const Tensor& gradient) { return gradient * 0.5; });
    optimizer = std::make_unique<optim::Adam>(parameters);
    for (const auto& [name, tensor] : body.state_dict())
      other.emplace_back(name, with_values(tensor.shape(), 20 + other.size(), device));
  }

  void forward() {
    const Tensor features = checkpoint([this](const Inputs& in) { return body(in[0]); }, {x});
    features.register_hook([](const Tensor&) { return Tensor{}; });
    loss = mse_loss(head(features), target);
  }

  Inputs state() const {
    Inputs all = optimizer->parameters();
    for (const auto& [name, tensor] : optimizer->state_dict()) all.push_back(tensor);
    return all;
  }

  nn::Sequential body;
  nn::Sequential head;
  Tensor x, target, loss;
  std::unique_ptr<optim::Adam> optimizer;
  NamedTensors other;
  Tape tape;
};

Trial training(Device device) {
  const auto t = std::make_shared<Training>(device);
  return {.steps = {[t] { t->forward(); }, [t] { t->tape.backward(t->loss, {.retain = true}); },
                    [t] { t->tape.backward(t->loss, {.retain = true}); },  // adds in place
                    [t] { optim::clip_grad_norm_(t->optimizer->parameters(), 0.1); }, [t] { t->optimizer->step(); },
                    [t] { t->optimizer->zero_grad(); }, [t] { t->body.load_state_dict(t->other); }},
          .state = [t] { return t->state(); },
          .results = [t] { return Inputs{t->loss}; }};
}

// Other operations on a trained network.
Trial after_training(Device device) {
  const auto t = std::make_shared<Training>(device);
  const auto step = [t] { t->optimizer->step(); };
  t->forward();
  t->tape.backward(t->loss);
  t->optimizer->step();
  t->forward();
  return {.steps = {[t] { t->tape.backward(t->loss, {.record = true}); },
                    [t] { optim::clip_grad_value_(t->optimizer->parameters(), 0.05); },
                    [t] { t->optimizer->load_state_dict(t->optimizer->state_dict()); }, step,
                    [t] {
                      const PauseTape pause;
                      t->body.to(kFloat64);
                    },
                    step},
          .state = [t] { return t->state(); },
          .results = [t] { return Inputs{t->loss}; }};
}

Trial sgd(Device device) {
  struct State {
    Tensor x;
    std::unique_ptr<optim::SGD> optimizer;
  };
  const auto s = std::make_shared<State>();
  s->x = with_values({3, 5}, 1, device).requires_grad_();
  s->optimizer = std::make_unique<optim::SGD>(Inputs{s->x}, optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  const auto sweep = [s] {
    Tape tape;
    tape.backward(square(s->x).sum());
  };
  const auto step = [s] { s->optimizer->step(); };
  return {.steps = {sweep, step, sweep, step},
          .state =
              [s] {
                Inputs all{s->x};
                for (const auto& [name, tensor] : s->optimizer->state_dict()) all.push_back(tensor);
                return all;
              },
          .results = [] { return Inputs{}; }};
}

// Modules are built and loaded; a failure leaves them as they were.
Trial building() {
  struct State {
    nn::Sequential net;
    nn::Module module;
  };
  const auto s = std::make_shared<State>();
  const auto values_of = [](const nn::Module& module) {
    Inputs all;
    for (const auto& [name, tensor] : module.state_dict()) all.push_back(tensor);
    return all;
  };
  return {.steps = {[s] { s->net.append(nn::ReLU()); }, [s] { s->net.append(nn::Tanh()); },
                    [s] { s->module.register_parameter("a parameter", Tensor::ones({2})); },
                    [s] { s->module.register_buffer("a buffer of some length", Tensor::ones({2})); },
                    [s] { s->module.register_module("a child of some length", s->net); },
                    [s] { s->net = nn::clone(s->net); }},
          .state =
              [s, values_of] {
                Inputs all = values_of(s->module);
                all.push_back(Tensor::scalar(static_cast<double>(s->net.size())));
                all.push_back(Tensor::scalar(static_cast<double>(s->net.named_children().size())));
                all.push_back(Tensor::scalar(static_cast<double>(s->module.named_children().size())));
                return all;
              },
          .results = [] { return Inputs{}; }};
}

TEST(TrainingFaults, ChangeNothing) {
  const Threads one(1);
  expect_all_or_nothing("a step", [] { return training(kCPU); });
  expect_all_or_nothing("after it", [] { return after_training(kCPU); });
  expect_all_or_nothing("SGD", [] { return sgd(kCPU); });
}

TEST(TrainingFaults, ChangeNoModule) { expect_all_or_nothing("building", building); }

// Each trial makes its pool again, because threads and their scratch memory may fail too. Which allocation is the n-th
// is then random; that nothing changes is not.
TEST(TrainingFaults, ChangeNothingOnSeveralThreads) {
  const Threads two(2);
  expect_all_or_nothing("a large convolution", [] {
    set_num_threads(1);
    set_num_threads(2);
    struct State {
      Tensor x, weight, loss;
      Tape tape;
    };
    const auto s = std::make_shared<State>();
    s->x = with_values({2, 3, 33, 35}, 1, kCPU).requires_grad_();
    s->weight = with_values({5, 3, 3, 3}, 2, kCPU).requires_grad_();
    return Trial{.steps = {[s] { s->loss = conv2d(s->x, s->weight, {}, {.padding = 1}).sum(); },
                           [s] { s->tape.backward(s->loss, {.retain = true}); },
                           [s] { s->tape.backward(s->loss, {.retain = true}); }},
                 .state =
                     [s] {
                       return Inputs{s->x, s->weight};
                     },
                 .results = [s] { return Inputs{s->loss}; }};
  });
}

TEST(TrainingFaultsCuda, ChangeNothing) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_all_or_nothing("a step", [] { return training(kCUDA); });
  expect_all_or_nothing("after it", [] { return after_training(kCUDA); });
  expect_all_or_nothing("SGD", [] { return sgd(kCUDA); });
}

}  // namespace
}  // namespace adjoint::testing
