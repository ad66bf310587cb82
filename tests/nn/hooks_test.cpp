// Hooks before and after a module's call.
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/embedding.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/pad.h>
#include <adjoint/nn/pool.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/nn/upsample.h>
#include <adjoint/tests/nn/registry_modules.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace adjoint::nn {
namespace {

// A program's module, which does not run hooks.
class Doubled : public Module {
 public:
  Doubled() : Module("Doubled") {}
  Tensor operator()(const Tensor& x) const { return x * 2.0; }
};

TEST(Hooks, SeeAndReplaceInputAndResult) {
  Conv1d conv = pointwise(3.0);
  std::string order;
  const std::uint64_t before = conv.register_forward_pre_hook([&](const Module& module, const Tensor& input) {
    order += module.type() + " ";
    EXPECT_EQ(values(input), std::vector<float>{1.0F});
    return input + 1.0;
  });
  const std::uint64_t after = conv.register_forward_hook([&](const Module&, const Tensor& input, const Tensor& output) {
    order += "after ";
    EXPECT_EQ(values(input), std::vector<float>{2.0F});
    return output * 10.0;
  });
  conv.register_forward_hook([&](const Module&, const Tensor&, const Tensor& output) {
    EXPECT_EQ(values(output)[0], order.find("after") == std::string::npos ? 3.0F : 60.0F);
    return Tensor();
  });
  const Tensor x = Tensor::ones({1, 1, 1});
  const Conv1d copy = conv;
  EXPECT_EQ(values(copy(x)), std::vector<float>{60.0F});
  EXPECT_EQ(order, "Conv1d after ");
  order.clear();
  conv.remove_hook(before);
  conv.remove_hook(after);
  EXPECT_EQ(values(conv(x)), std::vector<float>{3.0F});
  EXPECT_ERROR(conv.remove_hook(after), "Module::remove_hook: the id must be a hook's", "Conv1d");
}

TEST(Hooks, RunOnceForEveryLayerOfASequential) {
  std::vector<std::string> seen;
  const auto watch = [&](Module module) {
    module.register_forward_hook([&](const Module& called, const Tensor&, const Tensor&) {
      seen.push_back(called.type());
      return Tensor();
    });
  };
  Conv1d conv = pointwise(-1.0);
  ReLU relu;
  Doubled doubled;
  Linear linear(1, 1);
  Sequential net{conv, relu, doubled, linear, Identity()};
  const Tensor x = Tensor::ones({1, 1, 1}), plain = net(x);
  for (const Module& module : {Module(net), Module(conv), Module(relu), Module(doubled), Module(linear)}) watch(module);
  EXPECT_EQ(values(net(x)), values(plain));
  EXPECT_EQ(seen, (std::vector<std::string>{"Conv1d", "ReLU", "Doubled", "Linear", "Sequential"}));
}

template <class M>
void expect_hook_runs(M layer, const Tensor& x) {
  int calls = 0;
  layer.register_forward_hook([&](const Module&, const Tensor&, const Tensor&) {
    ++calls;
    return Tensor();
  });
  const M& alone = layer;
  alone(x);
  EXPECT_EQ(calls, 1) << layer.type() << " called alone";
  Sequential net{layer};
  net(x);
  EXPECT_EQ(calls, 2) << layer.type() << " in a Sequential";
}

TEST(Hooks, RunInEveryKindOfLayer) {
  const Tensor x = Tensor::ones({2, 4, 6, 6});
  expect_hook_runs(MaxPool2d(2), x);
  expect_hook_runs(AvgPool2d(2), x);
  expect_hook_runs(AdaptiveAvgPool2d(1), x);
  expect_hook_runs(ZeroPad2d(1), x);
  expect_hook_runs(Upsample({.scale_factor = 2.0}), x);
  expect_hook_runs(Dropout2d(), x);
  expect_hook_runs(Unflatten(1, {2, 2}), x);
  expect_hook_runs(PixelShuffle(2), x);
  expect_hook_runs(PixelUnshuffle(2), x);
  expect_hook_runs(BatchNorm2d(4), x);
  expect_hook_runs(GroupNorm(2, 4), x);
  expect_hook_runs(Conv2d(4, 2, {.kernel_size = 3}), x);
  expect_hook_runs(ConvTranspose2d(4, 2, {.kernel_size = 3}), x);
  expect_hook_runs(Embedding(3, 2), Tensor::zeros({2}, {.dtype = kInt64}));
}

TEST(Hooks, MayRemoveThemselvesAndMayThrow) {
  Conv1d conv = pointwise(1.0);
  std::uint64_t id = 0;
  int calls = 0;
  id = conv.register_forward_pre_hook([&](const Module&, const Tensor&) {
    ++calls;
    conv.remove_hook(id);
    return Tensor();
  });
  const Tensor x = Tensor::ones({1, 1, 1});
  conv(x);
  conv(x);
  EXPECT_EQ(calls, 1);
  conv.register_forward_pre_hook([](const Module&, const Tensor&) -> Tensor { throw std::runtime_error("stop"); });
  EXPECT_THROW(conv(x), std::runtime_error);
  EXPECT_THROW(conv(x), std::runtime_error);
  EXPECT_ERROR(conv.register_forward_pre_hook({}), "register_forward_pre_hook: the hook must not be empty");
  EXPECT_ERROR(conv.register_forward_hook({}), "register_forward_hook: the hook must not be empty");
}

}  // namespace
}  // namespace adjoint::nn
