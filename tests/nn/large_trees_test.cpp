// Large trees of modules: building and reading them takes time in proportion to their size.
#include <adjoint/nn/activation.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/module_list.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <ctime>
#include <string>

namespace adjoint::nn {
namespace {

// Of this process, other programs' left out.
double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TEST(LargeTrees, ManyLayersAreAppended) {
  constexpr int kLayers = 20000;
  const double before = seconds();
  Sequential net;
  for (int i = 0; i < kLayers; ++i) net.append(ReLU());
  EXPECT_EQ(net.size(), static_cast<std::size_t>(kLayers));
  EXPECT_EQ(net.named_modules().size(), static_cast<std::size_t>(kLayers) + 1);
  EXPECT_EQ(net(Tensor::ones({1})).item<float>(), 1.0F);
  EXPECT_LT(seconds() - before, 3.0) << "27 s for half as many where each append copied all";
  EXPECT_ERROR(net.append("777", ReLU()), "a name must be free; got '777'");
}

TEST(LargeTrees, OneLayerStandsInManyPlaces) {
  constexpr int kPlaces = 20000;
  const double before = seconds();
  const ReLU one;
  Sequential net;
  for (int i = 0; i < kPlaces; ++i) net.append(one);
  EXPECT_LT(seconds() - before, 3.0);
}

TEST(LargeTrees, DeepOnesAreBuiltFromEitherEnd) {
  constexpr int kDepth = 2000;
  const double before = seconds();
  Sequential outermost{Linear(1, 1)};
  for (int i = 0; i < kDepth; ++i) {
    Sequential next;
    next.append(outermost);
    outermost = next;
  }
  EXPECT_EQ(outermost.named_modules().size(), static_cast<std::size_t>(kDepth) + 2);
  EXPECT_EQ(outermost.parameters().size(), 2U);
  EXPECT_EQ(outermost(Tensor::ones({1, 1})).numel(), 1);
  Sequential top, inner = top;
  for (int i = 0; i < kDepth; ++i) {
    Sequential next;
    inner.append(next);
    next.append(ReLU());
    inner = next;
  }
  EXPECT_EQ(top.named_modules().size(), 2U * static_cast<std::size_t>(kDepth) + 1);
  EXPECT_LT(seconds() - before, 3.0) << "6 s for 800 where each step named all modules";
  EXPECT_ERROR(inner.append(top), "a module must not be put inside itself");
  EXPECT_ERROR(inner.append(Sequential(top)), "a module must not be put inside itself");
}

TEST(LargeTrees, ListsGrowAndDeepOnesPrint) {
  constexpr int kModules = 8000, kDepth = 800;
  const double before = seconds();
  ModuleList<Linear> list;
  for (int i = 0; i < kModules; ++i) list.append(Linear(1, 1));
  EXPECT_EQ(list.size(), static_cast<std::size_t>(kModules));
  Sequential deep{ReLU()};
  for (int i = 0; i < kDepth; ++i) {
    Sequential next;
    next.append(deep);
    deep = next;
  }
  EXPECT_TRUE(to_string(deep).starts_with("Sequential(\n  (0): Sequential(\n    (0): Sequential(\n      (0)"));
  EXPECT_LT(seconds() - before, 3.0);
}

TEST(LargeTrees, ACallGoesOnWithTheStepsThatItBeganWith) {
  Sequential net;
  net.append([&](const Tensor& x) {
    net.append(ReLU());
    return x + 1.0;
  });
  net.append([](const Tensor& x) { return x * 2.0; });
  EXPECT_EQ(net(Tensor::ones({1})).item<float>(), 4.0F);
  EXPECT_EQ(net.size(), 3U);
}

}  // namespace
}  // namespace adjoint::nn
