// Operations on a tree of modules: apply, typed visits, the paths in errors, children that may be absent.
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/module_list.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/tests/nn/registry_modules.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

// As in a U-Net: it reports its own errors, and runs no hooks.
class Up : public Module {
 public:
  Up() : Module("Up"), up(register_module("up", ConvTranspose1d(2, 1, {.kernel_size = 2, .stride = 2}))) {}
  Tensor operator()(const Tensor& x, const Tensor& skip, const OutputSize1d& size = {}) const {
    return cat({up(x, size), skip}, 1);
  }
  Child<ConvTranspose1d> up;
};

class Decoder : public Module {
 public:
  Decoder()
      : Module("Decoder"),
        ups(register_module("ups", ModuleList<Up>{Up(), Up()})),
        head(register_module("head", Sequential{Conv1d(2, 3, {.kernel_size = 1}), ReLU(), Linear(4, 1)})) {}
  Tensor operator()(const Tensor& x, const Tensor& skip) const { return head(ups[1](x, skip)); }
  Child<ModuleList<Up>> ups;
  Child<Sequential> head;
};

class UNet : public Module {
 public:
  UNet() : Module("UNet"), decoder(register_module("decoder", Decoder())) {}
  Tensor operator()(const Tensor& x, const Tensor& skip) const { return decoder(x, skip); }
  Child<Decoder> decoder;
};

Tensor line(std::int64_t channels, std::int64_t length) { return Tensor::ones({1, channels, length}); }

std::string message(const auto& statement) {
  try {
    statement();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool begins(const std::string& text, const std::string& with) {
  return text.rfind(with, 0) == 0 ? true : (std::cerr << text << '\n', false);
}

// ---- Errors.

TEST(ModulePaths, ErrorsTellWhereTheModuleStands) {
  UNet net;
  EXPECT_EQ(net(line(2, 2), line(1, 4)).shape(), (Shape{1, 3, 1}));
  EXPECT_TRUE(begins(message([&] { net(line(3, 2), line(1, 4)); }), "decoder.ups.1.up: conv_transpose1d: "));
  EXPECT_TRUE(begins(message([&] { net(line(2, 2), line(1, 5)); }), "decoder.ups.1: cat: "));
  EXPECT_TRUE(begins(message([&] { net(line(2, 2), line(2, 4)); }), "decoder.head.0: conv1d: "));
  EXPECT_TRUE(begins(message([&] { net(line(2, 3), line(1, 6)); }), "decoder.head.2: Linear: "));
  // Wherever in the tree the call begins.
  EXPECT_TRUE(begins(message([&] { net.decoder.ups[0](line(3, 2), line(1, 4)); }), "decoder.ups.0.up: conv_"));
  EXPECT_TRUE(begins(message([&] { net.decoder.ups[0].up(line(3, 2)); }), "decoder.ups.0.up: conv_transpose1d: "));
  EXPECT_TRUE(begins(message([&] { net.decoder.head[2](line(3, 2)); }), "decoder.head.2: Linear: "));
  const ConvTranspose1d alone(2, 1, {.kernel_size = 2});
  EXPECT_TRUE(begins(message([&] { alone(line(3, 2)); }), "conv_transpose1d: "));
  // A root may be put somewhere, and be taken away again.
  Module parent;
  Child<UNet> child = parent.register_module("unet", net);
  EXPECT_TRUE(begins(message([&] { net(line(3, 2), line(1, 4)); }), "unet.decoder.ups.1.up: conv_transpose1d: "));
  child = UNet();
  EXPECT_TRUE(begins(message([&] { net(line(3, 2), line(1, 4)); }), "decoder.ups.1.up: conv_transpose1d: "));
}

TEST(ModulePaths, DefaultsAndBracesPassThroughAChild) {
  const UNet net;
  const Up& plain = net.decoder.ups[0];
  EXPECT_EQ(net.decoder.ups[0](line(2, 2), line(1, 4), {.output_size = 4}).shape(),
            plain(line(2, 2), line(1, 4)).shape());
  EXPECT_EQ(net.decoder.ups[0].up(line(2, 2), {.output_size = 5}).size(-1), 5);
}

TEST(ModulePaths, OfHooksAndOfFusedPairs) {
  Sequential net{Conv1d(1, 1, {.kernel_size = 1}), ReLU(), [](const Tensor& x) { return x.reshape({7}); }};
  EXPECT_TRUE(begins(message([&] { net(line(2, 2)); }), "0: conv1d: "));
  EXPECT_TRUE(begins(message([&] { net(line(1, 2)); }), "2: reshape: "));
  ReLU relu = net[1].as<ReLU>();
  relu.register_forward_hook([](const Module&, const Tensor&, const Tensor& y) { return y.narrow(0, 5, 1); });
  EXPECT_TRUE(begins(message([&] { net(line(1, 2)); }), "1: narrow: "));
}

class Overloaded : public Module {
 public:
  Overloaded() : Module("Overloaded"), conv(register_module("conv", pointwise(2.0))) {}
  Tensor operator()(const Tensor& x) const { return conv(x); }
  Tensor operator()(const Tensor& x, double factor) const { return conv(x) * factor; }
  Child<Conv1d> conv;
};

class Counting : public Module {
 public:
  Counting() : Module("Counting") {}
  Tensor operator()(const Tensor& x) { return x * static_cast<double>(++calls); }
  int calls = 0;
};

TEST(ModulePaths, CallsOfOtherKindsStayAsTheyAre) {
  Module parent;
  const auto overloaded = parent.register_module("overloaded", Overloaded());
  EXPECT_EQ(overloaded(kOne, 3.0).item<float>(), 6.0F);
  EXPECT_TRUE(begins(message([&] { overloaded(line(2, 2)); }), "overloaded.conv: conv1d: "));
  auto counting = parent.register_module("counting", Counting());
  counting(kOne);
  EXPECT_EQ(counting(kOne).item<float>(), 2.0F);
}

class OwnError : public Error {
 public:
  explicit OwnError(int value) : Error("own: it went wrong"), code(value) {}
  int code;
};

TEST(ModulePaths, ExceptionsKeepTheirClass) {
  int kind = 0;
  const Sequential net{Identity(), Sequential{[&](const Tensor& x) {
                         if (kind == 0) throw OwnError(7);
                         if (kind == 1) throw OutOfMemoryError("empty: no memory");
                         if (kind == 2) throw std::runtime_error("not ours");
                         return x;
                       }}};
  try {
    net(kOne);
    FAIL();
  } catch (const OwnError& error) {
    EXPECT_EQ(error.code, 7);
    EXPECT_STREQ(error.what(), "1.0: own: it went wrong");
  }
  kind = 1;
  try {
    net(kOne);
    FAIL();
  } catch (const OutOfMemoryError& error) {
    EXPECT_STREQ(error.what(), "1.0: empty: no memory");
  }
  kind = 2;
  try {
    net(kOne);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "not ours");
  }
  kind = 3;
  EXPECT_EQ(net(kOne).item<float>(), 1.0F);
}

// ---- apply, visit.

TEST(ModuleTree, AppliesChildrenFirst) {
  const UNet net;
  std::string order;
  net.apply([&](Module& module) {
    order += module.type() + " ";
    for (Tensor& parameter : module.parameters()) parameter.fill_(1.0);
  });
  EXPECT_EQ(order, "ConvTranspose1d Up ConvTranspose1d Up ModuleList Conv1d ReLU Linear Sequential Decoder UNet ");
  for (const Tensor& parameter : net.parameters()) EXPECT_EQ(values(parameter)[0], 1.0F);
  // Once, however often it is registered.
  const ReLU shared;
  int calls = 0;
  const Sequential twice{shared, Sequential{shared}};
  twice.apply([&](Module&) { ++calls; });
  EXPECT_EQ(calls, 3);
}

TEST(ModuleTree, VisitsModulesUnderTheirOwnType) {
  UNet net;
  int ups = 0;
  net.visit<Up>([&](auto& up) {
    ++ups;
    up.up.weight = Tensor::full({2, 1, 2}, 3.0);
  });
  EXPECT_EQ(ups, 2);
  EXPECT_EQ(values(net.decoder.ups[1].up.weight), (std::vector<float>{3, 3, 3, 3}));
  std::vector<std::int64_t> kernels;
  net.visit<Conv1d>([&](const Conv1d& conv) { kernels.push_back(conv.options().kernel_size); });
  EXPECT_EQ(kernels, std::vector<std::int64_t>{1});
  net.decoder.head = Sequential{pointwise(1.0), Sequential{pointwise(2.0)}, pointwise(3.0)};
  std::string weights;
  net.visit<Conv1d>(
      [&](auto& conv) { weights += std::to_string(static_cast<int>(conv.weight.template item<float>())); });
  EXPECT_EQ(weights, "123");
  net.visit<Module>([&](auto&) { FAIL() << "a base is not the type itself"; });
  net.visit<UNet>([&](auto&) { FAIL() << "the root is not below itself"; });
  net.decoder.visit<Sequential>([&](Sequential& s) { s.append(pointwise(4.0)); });
  EXPECT_EQ(net.decoder.head.size(), 4U);
}

class Unique : public Module {
 public:
  explicit Unique(double value) : Module("Unique"), factor(std::make_unique<double>(value)) {}
  Tensor operator()(const Tensor& x) const { return x * *factor; }
  std::unique_ptr<double> factor;
};

TEST(ModuleTree, TakesModulesThatCannotBeCopied) {
  Module parent;
  const auto child = parent.register_module("child", Unique(3.0));
  EXPECT_EQ(child(kOne).item<float>(), 3.0F);
  EXPECT_EQ(parent.named_children()[0].second.type(), "Unique");
}

TEST(ModuleTree, OneModuleMayStandInTreesOfSeveralThreads) {
  const Conv1d conv = pointwise(2.0);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const Sequential net{Identity(), conv};
        const std::string text = message([&] { net(line(2, 2)); });
        right += text.find("conv1d: ") != std::string::npos && text[0] == '1';
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 800);
}

// ---- Children that may be absent.

class Block : public Module {
 public:
  explicit Block(bool normalised)
      : Module("Block"),
        conv(register_module("conv", pointwise(2.0))),
        norm(register_module("norm", normalised ? std::optional(BatchNorm1d(1)) : std::nullopt)) {}
  Tensor operator()(const Tensor& x) const { return norm(conv(x)); }
  Child<Conv1d> conv;
  Child<std::optional<BatchNorm1d>> norm;
};

TEST(OptionalChild, ComesAndGoes) {
  Block block(false);
  const Block copy = block;
  EXPECT_FALSE(block.norm);
  EXPECT_EQ(block(kOne).item<float>(), 2.0F);
  EXPECT_EQ(names(block.state_dict()), std::vector<std::string>{"conv.weight"});
  EXPECT_EQ(block.named_children().size(), 1U);
  EXPECT_EQ(to_string(block),
            "Block(\n  (conv): Conv1d(1, 1, kernel_size=(1,), stride=(1,), bias=False)\n  (norm): None\n)");
  EXPECT_ERROR(block.register_module("norm", ReLU()), "register_module: a name must be free; got 'norm'");
  block.eval();
  block.norm = BatchNorm1d(1);
  ASSERT_TRUE(copy.norm);
  EXPECT_EQ(names(copy.named_parameters()), (std::vector<std::string>{"conv.weight", "norm.weight", "norm.bias"}));
  block.norm->bias = Tensor::full({1}, 5.0);
  block.eval();
  EXPECT_NEAR(copy(kOne).item<float>(), 7.0F, 1e-4);
  EXPECT_TRUE(begins(message([&] { copy.norm(line(2, 2)); }), "norm: BatchNorm1d: "));
  int seen = 0;
  block.visit<BatchNorm1d>([&](auto&) { ++seen; });
  EXPECT_EQ(seen, 1);
  block.norm = std::nullopt;
  EXPECT_FALSE(copy.norm.has_value());
  EXPECT_EQ(copy(kOne).item<float>(), 2.0F);
  block.visit<BatchNorm1d>([&](auto&) { ++seen; });
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(names(copy.state_dict()), std::vector<std::string>{"conv.weight"});
}

TEST(OptionalChild, FollowsItsModule) {
  Block with(true), without(false);
  const Block other_with = with, other_without = without;
  std::swap(with, without);
  EXPECT_FALSE(with.norm);
  EXPECT_TRUE(without.norm);
  without.norm = std::nullopt;
  EXPECT_FALSE(other_with.norm);
  with.norm = BatchNorm1d(1);
  EXPECT_TRUE(other_without.norm);
  without = with;
  EXPECT_TRUE(*without.norm == *with.norm);
  with.norm = std::nullopt;
  EXPECT_FALSE(without.norm);
  // Between slots the module is shared.
  Block third(true);
  third.norm = other_with.norm;
  EXPECT_FALSE(third.norm);
  Child<std::optional<BatchNorm1d>> loose;
  EXPECT_ERROR(loose = std::nullopt, "Child::operator=: the handle must be on a slot; got an empty one without one");
}

}  // namespace
}  // namespace adjoint::nn
