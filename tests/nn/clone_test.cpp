// clone: modules of every kind, with new tensors; sharing within a module is kept.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/clone.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/module_list.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/reparametrize.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/tests/nn/registry_modules.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

using Norm = std::optional<BatchNorm1d>;

// Everything that a class of one's own may have: an optional child, a shared layer, tied parameters, a list, handles in
// containers, a plain member.
class Net : public Module {
 public:
  explicit Net(bool normalised)
      : Module("Net"),
        first(register_module("first", Conv1d(2, 2, {.kernel_size = 1}))),
        again(register_module("again", static_cast<const Conv1d&>(first))),
        norm(register_module("norm", normalised ? Norm(BatchNorm1d(2)) : std::nullopt)),
        body(register_module("body", Sequential{Conv1d(2, 2, {.kernel_size = 1}), ReLU(), first})),
        blocks(register_module("blocks", ModuleList<Scaled>())),
        scale(register_parameter("scale", Tensor::ones({1}))),
        tied(register_parameter("tied", scale)),
        seen(register_buffer("seen", Tensor::zeros({}))) {
    for (int i = 0; i < 2; ++i) heads.push_back(register_module("head" + std::to_string(i), Linear(3, 1)));
    blocks.append(Scaled(1.5));
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = norm(again(first(x))) * scale + tied * factor;
    y = body(y);
    for (const Linear& head : heads) y = y + head(x);
    for (const Scaled& block : blocks) y = y + block(y.narrow(1, 0, 1));
    return y;
  }

  Child<Conv1d> first, again;
  Child<Norm> norm;
  Child<Sequential> body;
  Child<ModuleList<Scaled>> blocks;
  std::vector<Child<Linear>> heads;
  Parameter scale, tied;
  Buffer seen;
  double factor = 1.0;
};

const Tensor kInput = Tensor::arange(0.0, 12).reshape({2, 2, 3});

// The same values, in other tensors that are shared alike.
void expect_copies(const Module& original, const Module& copy) {
  const NamedTensors from = original.state_dict(), to = copy.state_dict();
  ASSERT_EQ(names(from), names(to));
  EXPECT_EQ(names(original.named_parameters()), names(copy.named_parameters()));
  EXPECT_EQ(to_string(original), to_string(copy));
  for (std::size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].second.dtype(), to[i].second.dtype());
    EXPECT_EQ(from[i].second.to_vector<double>(), to[i].second.to_vector<double>()) << from[i].first;
    EXPECT_NE(from[i].second.raw_data(), to[i].second.raw_data()) << from[i].first;
  }
}

template <class M>
void expect_independent(M original, const Tensor& x) {
  original.eval();
  M copy = clone(original);
  expect_copies(original, copy);
  EXPECT_FALSE(copy.training());
  const std::vector<float> before = values(original(x));
  EXPECT_EQ(values(copy(x)), before);
  for (Tensor& parameter : copy.parameters()) parameter.fill_(0.75);
  EXPECT_EQ(values(original(x)), before);
  EXPECT_EQ(values(copy(x)) == before, copy.num_parameters() == 0) << copy.type();
  copy.train();
  EXPECT_FALSE(original.training());
}

TEST(Clone, ALayerHasTensorsOfItsOwn) {
  const Tensor line = Tensor::randn({2, 4, 6});
  expect_independent(Conv1d(4, 2, {.kernel_size = 3}), line);
  expect_independent(ConvTranspose1d(4, 2, {.kernel_size = 3}), line);
  expect_independent(Linear(6, 3), line);
  expect_independent(PReLU(), line);
  expect_independent(BatchNorm1d(4), line);
  expect_independent(ReLU(), line);
  expect_independent(Sequential{Conv1d(4, 2, {.kernel_size = 3}), ReLU(), BatchNorm1d(2), LeakyReLU()}, line);
}

TEST(Clone, AClassOfOnesOwnNeedsNothing) {
  for (const bool normalised : {false, true}) {
    Net net(normalised);
    net.factor = 2.0;
    expect_independent(net, kInput);
    Net copy = clone(net);
    EXPECT_EQ(copy.factor, 2.0);
    EXPECT_EQ(copy.norm.has_value(), normalised);
    // A tensor in two places of the original is in two places of the copy.
    EXPECT_TRUE(copy.first == copy.again);
    EXPECT_TRUE(copy.body[2].as<Conv1d>() == copy.first);
    EXPECT_TRUE(same(copy.scale, copy.tied));
    EXPECT_FALSE(copy.first == net.first);
    // Members are handles on the clone's slots.
    EXPECT_TRUE(same(copy.heads[1].weight, copy.named_children()[normalised ? 6 : 5].second.parameters()[0]));
    copy.first.weight = Tensor::zeros({2, 2, 1});
    EXPECT_EQ(values(copy.again.weight), (std::vector<float>{0, 0, 0, 0}));
    copy.heads[0] = Linear(3, 1, {.bias = false});
    EXPECT_EQ(names(copy.state_dict()).size() + 1, names(net.state_dict()).size());
    copy.blocks.append(Scaled(1.0));
    EXPECT_EQ(net.blocks.size(), 1U);
    copy.norm = BatchNorm1d(2);
    EXPECT_EQ(net.norm.has_value(), normalised);
  }
}

TEST(Clone, TrainsByItself) {
  Net net(true);
  net.first.weight.requires_grad_(false);
  Net copy = clone(net);
  EXPECT_FALSE(copy.first.weight.requires_grad());
  EXPECT_TRUE(copy.scale.requires_grad());
  const std::vector<float> mean = values(net.norm->running_mean);
  {
    Tape tape;
    tape.backward(copy(kInput).sum());
    EXPECT_TRUE(copy.scale.grad().defined());
    EXPECT_FALSE(net.scale.grad().defined());
    EXPECT_EQ(values(net.norm->running_mean), mean);
    EXPECT_NE(values(copy.norm->running_mean), mean);
    // A clone of tensors with gradients has no gradients, and is not recorded.
    const std::size_t size = tape.size();
    const Net third = clone(copy);
    EXPECT_FALSE(third.scale.grad().defined());
    EXPECT_EQ(tape.size(), size);
  }
  net.to(kFloat64);
  EXPECT_EQ(clone(net).scale.dtype(), kFloat64);
}

TEST(Clone, ASequentialKeepsItsPairsAndItsFunctions) {
  Scaled inside(3.0);
  Sequential net{pointwise(-2.0), ReLU(), [inside](const Tensor& x) { return inside(x) + 1.0; }, inside};
  const Sequential copy = clone(net);
  net[0].as<Conv1d>().weight.fill_(2.0);
  inside.conv.weight.fill_(0.0);
  EXPECT_EQ(copy(kOne).item<float>(), 3.0F);  // relu(-2) -> 3 * 0 + 1 -> 3 * 1: the function's module is the clone's
  copy[0].as<Conv1d>().weight.fill_(1.0);
  EXPECT_EQ(copy(kOne).item<float>(), 12.0F);
  {
    const Sequential pair = clone(Sequential{pointwise(1.0), ReLU()});
    const Tape tape;
    pair(kOne);
    EXPECT_EQ(tape.size(), 2U);  // a leaf, one operation
  }
  net.append(Identity());
  EXPECT_EQ(copy.size(), 4U);
}

TEST(Clone, HooksComeAlong) {
  Scaled module(2.0);
  int calls = 0;
  const std::uint64_t id = module.conv.register_forward_hook([&](const Module&, const Tensor&, const Tensor& y) {
    ++calls;
    return y + 1.0;
  });
  Scaled copy = clone(module);
  EXPECT_EQ(at_one(copy), 3.0F);
  EXPECT_EQ(calls, 1);
  copy.conv.remove_hook(id);
  EXPECT_EQ(at_one(copy), 2.0F);
  EXPECT_EQ(at_one(module), 3.0F);
}

TEST(Clone, ReparametrisationsComeAlong) {
  Sequential net{weight_norm(Conv1d(2, 3, {.kernel_size = 2})), ReLU(),
                 spectral_norm(Conv1d(3, 2, {.kernel_size = 1}))};
  Sequential copy = clone(net);
  expect_copies(net, copy);
  copy.eval();
  net.eval();
  EXPECT_EQ(values(copy(kInput)), values(net(kInput)));
  const std::vector<float> before = values(net(kInput));
  for (Tensor& parameter : copy.parameters()) parameter.mul_(-2.0);
  EXPECT_EQ(values(net(kInput)), before);
  EXPECT_NE(values(copy(kInput)), before);
  // In training each reading iterates the clone's own vectors, which the clone's mode decides.
  copy.train();
  const std::vector<float> u = values(net.named_buffers()[0].second), v = values(copy.named_buffers()[0].second);
  copy.parameters().back().uniform_(-1.0, 1.0);
  copy(kInput);
  EXPECT_EQ(values(net.named_buffers()[0].second), u);
  EXPECT_NE(values(copy.named_buffers()[0].second), v);
  Conv1d first = copy[0].as<Conv1d>();
  remove_weight_norm(first);
  EXPECT_EQ(copy.named_parameters()[0].first, "0.weight");
  EXPECT_EQ(net.named_parameters()[0].first, "0.bias");
}

TEST(Clone, OfAChildIsAModuleOfItsOwn) {
  Scaled module(2.0);
  Conv1d copy = clone(module.conv);
  copy.weight.fill_(5.0);
  EXPECT_EQ(at_one(module), 2.0F);
  const Module base = clone(static_cast<const Module&>(module));
  EXPECT_EQ(names(base.state_dict()), names(module.state_dict()));
  EXPECT_FALSE(base == module);
}

class WithTensor : public Module {
 public:
  WithTensor() : Module("WithTensor"), scale(register_parameter("scale", Tensor::ones({1}))) {}
  Tensor scale;
};

class Uncopied : public Module {
 public:
  Uncopied() : Module("Uncopied") {}
  Uncopied(const Uncopied& other) : Module("Uncopied") { Module::operator=(other); }
};

TEST(Clone, RefusesWhatWouldBeTheOriginals) {
  const char* const what =
      "clone: a module must keep registered tensors as nn::Parameter or nn::Buffer; got a Tensor of 'scale' in "
      "WithTensor, which is the original's";
  EXPECT_ERROR(clone(WithTensor()), what);
  Module parent;
  const Child<WithTensor> child = parent.register_module("child", WithTensor());
  EXPECT_ERROR(clone(parent), what);
  EXPECT_ERROR(clone(Uncopied()), "clone: the copy constructor must copy the base class Module", "Uncopied");
  Scaled module;
  const Tensor held = module.scale;
  EXPECT_EQ(at_one(clone(module)), 1.0F);  // held by others, the original's tensor does not affect the clone
  const Scaled gone = std::move(module);
  EXPECT_ERROR(clone(module), "clone: the module must not have been moved from");
}

}  // namespace
}  // namespace adjoint::nn
