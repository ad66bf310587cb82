// Single operations: all or nothing.
#include <adjoint/adjoint.h>
#include <adjoint/tests/faults/faults.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

using Inputs = std::vector<Tensor>;

struct Operation {
  const char* name;
  std::function<Tensor(const Inputs&)> run;
  bool one_node = false;  // no operator is recorded before it that may stay on the tape if it fails
};

Tensor number(std::uint64_t value) { return Tensor::scalar(static_cast<double>(value), {.dtype = kFloat64}); }

Tensor with_values(const Shape& shape, std::uint64_t seed) {
  return Tensor::from_vector<double>(reals(shape.numel(), seed), shape, {.dtype = kFloat32});
}

// in[0] and in[1] are leaves of shape (2, 4, 6), in[2] a recorded tensor of it, in[3] a constant of it.
const std::vector<Operation>& operations() {
  static const std::vector<Operation> all{
      {"add, of one leaf twice", [](const Inputs& in) { return in[0] + in[0]; }, true},
      {"add", [](const Inputs& in) { return in[0] + in[1]; }, true},
      {"mul, broadcast", [](const Inputs& in) { return in[0] * in[1].narrow(0, 0, 1); }},
      {"where", [](const Inputs& in) { return where(in[0] > 0.0, in[1], in[2]); }},
      {"matmul", [](const Inputs& in) { return matmul(in[0], in[1].transpose(1, 2)); }},
      {"sum", [](const Inputs& in) { return in[0].sum({1}); }, true},
      {"var",
       [](const Inputs& in) {
         return var(in[2], {0, 2});
       }},
      {"max", [](const Inputs& in) { return in[1].amax({2}, true); }, true},
      {"argmax", [](const Inputs& in) { return argmax(in[1], 2); }, true},
      {"mse_loss", [](const Inputs& in) { return mse_loss(in[0], in[3]); }, true},
      {"permute",
       [](const Inputs& in) {
         return in[0].permute({2, 0, 1});
       },
       true},
      {"reshape, which must copy", [](const Inputs& in) { return in[0].transpose(0, 1).reshape({-1}); }},
      {"to", [](const Inputs& in) { return in[0].to(kFloat64); }, true},
      {"cat",
       [](const Inputs& in) {
         return cat({in[0], in[1], in[2], in[3], in[0]}, 1);
       },
       true},
      {"pad",
       [](const Inputs& in) {
         return pad(in[0], {1, -1, 2, 0});
       }},
      {"roll", [](const Inputs& in) { return roll(in[0], 2, 2); }},
      {"interpolate",
       [](const Inputs& in) {
         return interpolate(in[0], {.size = {7, 5}, .mode = Interpolation::kBilinear});
       }},
      {"conv1d", [](const Inputs& in) { return conv1d(in[0], in[1].narrow(2, 0, 3), {}, {.padding = 1}); }},
      {"conv2d and relu",
       [](const Inputs& in) {
         const Tensor weight = in[1].narrow(2, 0, 3).unsqueeze(3), bias = in[2].narrow(0, 0, 1).narrow(1, 0, 1);
         return conv2d(in[0].unsqueeze(3), weight, bias.narrow(2, 0, 2).reshape({2}),
                       {.activation = Activation::relu()});
       }},
      {"conv_transpose2d and silu",
       [](const Inputs& in) {
         const Tensor weight = in[1].narrow(0, 0, 1).reshape({4, 1, 2, 3});
         return conv_transpose2d(in[0].reshape({1, 4, 3, 4}), weight, {},
                                 {.stride = 2, .activation = Activation::silu()});
       }},
      {"checkpoint",
       [](const Inputs& in) {
         const auto f = [w = in[1]](const Inputs& x) { return x[0] * w + Tensor::rand(x[0].shape(), x[0].options()); };
         return checkpoint(f, {in[2]});
       },
       true},
      {"clone", [](const Inputs& in) { return in[2].clone(); }, true},
      {"rand",
       [](const Inputs&) {
         return Tensor::rand({3, 3});
       }},
      {"randn", [](const Inputs&) { return Tensor::randn({70000}, {.dtype = kBFloat16}); }},
      {"arange", [](const Inputs&) { return Tensor::arange(0.0, 9); }},
      {"eye", [](const Inputs&) { return Tensor::eye(3); }},
      {"a leaf", [](const Inputs&) { return Tensor::ones({3}, {.requires_grad = true}); }},
  };
  return all;
}

// Under a tape that has seen neither leaf or, `used`, both.
Trial recorded(const Operation& operation, bool used, Device device) {
  struct State {
    Tape tape;
    Inputs in;
    Tensor out;
  };
  const auto state = std::make_shared<State>();
  for (std::uint64_t i = 0; i < 4; ++i) state->in.push_back(with_values({2, 4, 6}, i).to(device));
  for (std::size_t i = 0; i < 3; ++i) state->in[i].requires_grad_();
  state->in[2] = used ? state->in[2] * state->in[0] + state->in[1] : state->in[2] * 2.0;
  return {.steps = {[state, &operation] { state->out = operation.run(state->in); }},
          .state =
              [state, &operation] {
                Inputs all = state->in;
                all.push_back(number(default_generator().offset()));
                if (operation.one_node) all.push_back(number(state->tape.size()));
                return all;
              },
          .results =
              [state] {
                Inputs all{state->out};
                if (!state->out.requires_grad()) return all;
                const Inputs leaves{state->in.begin(), state->in.begin() + 3};
                const Tensor ones = Tensor::ones(state->out.shape(), state->out.options());
                for (const Tensor& gradient :
                     state->tape.gradient(state->out, leaves, {.grad_output = ones, .allow_unused = true})) {
                  all.push_back(gradient);
                }
                return all;
              }};
}

// A trial that applies `change` to a tensor from `make`.
Trial in_place(const std::function<Tensor()>& make, const std::function<void(Tensor&)>& change) {
  const auto tensor = std::make_shared<Tensor>(make());
  const auto state = [tensor] { return Inputs{*tensor, number(default_generator().offset())}; };
  return {.steps = {[tensor, change] { change(*tensor); }}, .state = state, .results = [] { return Inputs{}; }};
}

void expect_operations(Device device) {
  const Threads one(1);
  for (const Operation& operation : operations()) {
    for (const bool used : {false, true}) {
      expect_all_or_nothing(operation.name, [&] { return recorded(operation, used, device); });
    }
  }
}

void expect_changes(Device device) {
  const Threads one(1);
  const std::vector<std::pair<const char*, std::function<Tensor()>>> targets{
      {"contiguous",
       [&] {
         return with_values({4, 6}, 1).to(device);
       }},
      {"transposed",
       [&] {
         return with_values({6, 4}, 1).to(device).transpose(0, 1);
       }},
      {"long",
       [&] {
         return with_values({40, 6000}, 1).to(device).narrow(1, 0, 5000);
       }},
  };
  const Tensor row = with_values({1, 6}, 2).to(device), number_of_its_own = with_values({}, 3).to(device);
  const std::vector<std::pair<const char*, std::function<void(Tensor&)>>> changes{
      {"fill_", [](Tensor& t) { t.fill_(2.0); }},
      {"mul_", [](Tensor& t) { t.mul_(3.0); }},
      {"add_", [&](Tensor& t) { t.add_(number_of_its_own, 0.5); }},
      {"add_ itself", [](Tensor& t) { t.add_(t.narrow(0, 1, 1)); }},
      {"copy_", [&](Tensor& t) { t.copy_(number_of_its_own.to(kFloat64)); }},
      {"copy_ itself", [](Tensor& t) { t.copy_(t.narrow(0, 0, 1)); }},
      {"uniform_", [](Tensor& t) { t.uniform_(1.0, 2.0); }},
      {"normal_", [](Tensor& t) { t.normal_(1.0, 2.0); }},
      {"requires_grad_", [](Tensor& t) { t.requires_grad_(); }},
      {"set_grad", [](Tensor& t) { t.set_grad(t.detach()); }},
      {"hooks",
       [](Tensor& t) {
         t.requires_grad_();
         t.remove_hook(t.register_hook([](const Tensor& g) { return g; }));
       }},
  };
  for (const auto& [of, target] : targets) {
    SCOPED_TRACE(of);
    for (const auto& [name, change] : changes)
      expect_all_or_nothing(name, [&, make = target, change = change] { return in_place(make, change); });
  }
}

// Adds 1 to its state and only then allocates, so that it is not all or nothing.
Trial hasty() {
  const auto tensor = std::make_shared<Tensor>(Tensor::zeros({2}));
  const auto add = [tensor] {
    tensor->mutable_data<float>()[1] += 1.0F;
    Tensor::empty({2});
  };
  return {.steps = {add}, .state = [tensor] { return Inputs{*tensor}; }, .results = [] { return Inputs{}; }};
}

// Leaks a tensor if its last allocation fails.
std::vector<std::unique_ptr<Tensor>> forgotten;
Trial careless() {
  forgotten.reserve(100);
  const auto forget = [] {
    forgotten.push_back(std::make_unique<Tensor>(Tensor::empty({2})));
    Tensor::empty({2});
    forgotten.pop_back();
  };
  return {.steps = {forget}, .state = [] { return Inputs{}; }, .results = [] { return Inputs{}; }};
}

int failures(const std::function<Trial()>& make) {
  const Threads one(1);
  ::testing::TestPartResultArray results;
  const ::testing::ScopedFakeTestPartResultReporter here(
      ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
  expect_all_or_nothing("", make);
  return results.size();
}

TEST(Faults, AreFoundByTheTrial) {
  EXPECT_GT(failures(hasty), 0);
  EXPECT_GT(failures(careless), 0);
  forgotten.clear();
  EXPECT_EQ(failures([] { return in_place([] { return Tensor::ones({2}); }, [](Tensor& t) { t.add_(t); }); }), 0);
}

TEST(Faults, InRecordedOperationsChangeNothing) { expect_operations(kCPU); }
TEST(Faults, InWritesInPlaceChangeNothing) { expect_changes(kCPU); }

TEST(FaultsCuda, InRecordedOperationsChangeNothing) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_operations(kCUDA);
}
TEST(FaultsCuda, InWritesInPlaceChangeNothing) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_changes(kCUDA);
}

}  // namespace
}  // namespace adjoint::testing
