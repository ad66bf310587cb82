// Layers that are functions, or that rearrange elements: each returns its function's result, and runs its hooks.
#include <adjoint/core/tensor/factories.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/fold.h>
#include <adjoint/nn/functions.h>
#include <adjoint/nn/init.h>
#include <adjoint/nn/loss.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/nn/upsample.h>
#include <adjoint/ops/conv/conv.h>
#include <adjoint/ops/grid/grid.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

class FunctionLayers : public ::testing::Test {
 protected:
  FunctionLayers() { manual_seed(2); }
  template <class M, class... Inputs>
  void expect(M layer, const Tensor& wanted, const Inputs&... inputs) {
    expect_same_bits(to_string(layer), layer(inputs...), wanted);
    layer.register_forward_hook([](const Module&, const Tensor&, const Tensor& output) { return output + 1; });
    expect_same_bits(to_string(layer) + ", hooked", layer(inputs...), wanted + 1);
  }

  const Tensor x = Tensor::randn({2, 4, 6, 6}), y = Tensor::randn({2, 4, 6, 6});
};

TEST_F(FunctionLayers, OfElements) {
  expect(CELU(), celu(x), x);
  expect(CELU(0.5), celu(x, 0.5), x);
  expect(CELU({.alpha = 2.0}), celu(x, 2.0), x);
  expect(Softshrink(), softshrink(x, 0.5), x);
  expect(Softshrink(0.25), softshrink(x, 0.25), x);
  expect(Hardshrink({.lambda = 0.25}), hardshrink(x, 0.25), x);
  expect(Tanhshrink(), tanhshrink(x), x);
  expect(Threshold(0.1, 20), threshold(x, 0.1, 20), x);
  EXPECT_EQ(to_string(CELU(0.5)), "CELU(alpha=0.5)");
  expect_same_bits("in a Sequential", Sequential{CELU(), Threshold(0, 1)}(x), threshold(celu(x), 0, 1));
}

TEST_F(FunctionLayers, Rearrange) {
  const Tensor channels = arange(6).reshape({1, 6, 1});
  expect_values("shuffled", ChannelShuffle(2)(channels), {0, 3, 1, 4, 2, 5});
  expect_values("of three groups", ChannelShuffle(3)(channels), {0, 2, 4, 1, 3, 5});
  expect(ChannelShuffle(2), x.unflatten(1, {2, 2}).transpose(1, 2).flatten(1, 2), x);
  EXPECT_ERROR(ChannelShuffle(0), "ChannelShuffle: groups must be at least 1; got 0");
  EXPECT_ERROR(ChannelShuffle(4)(channels), "ChannelShuffle: groups must divide the channels", "(1, 6, 1)");
  expect(Unfold({.kernel_size = {2, 3}, .padding = 1}), unfold(x, {.kernel_size = {2, 3}, .padding = 1}), x);
  const Tensor columns = unfold(x, {.kernel_size = 2});
  expect(Fold({6, 6}, {.kernel_size = 2}), fold(columns, {6, 6}, {.kernel_size = 2}), columns);
  expect(UpsamplingNearest2d(2), interpolate(x, {.scale_factor = 2, .mode = "nearest"}), x);
  expect(UpsamplingBilinear2d(2), interpolate(x, {.scale_factor = 2, .mode = "bilinear", .align_corners = true}), x);
  expect(UpsamplingBilinear2d({.size = {7, 9}}),
         interpolate(x, {.size = {7, 9}, .mode = "bilinear", .align_corners = true}), x);
}

TEST_F(FunctionLayers, Compare) {
  expect(PairwiseDistance(), norm(x - y + 1e-6, 2.0, -1), x, y);
  expect(PairwiseDistance(1), norm(x - y + 1e-6, 1.0, -1), x, y);
  expect(PairwiseDistance({.keepdim = true}), norm(x - y + 1e-6, 2.0, -1, true), x, y);
  const Tensor sign = where(y > 0, 1, -1).to(kFloat32);
  expect(PoissonNLLLoss(), poisson_nll_loss(x, y), x, y);
  expect(PoissonNLLLoss({.log_input = false, .eps = 10.0, .reduction = "sum"}),
         poisson_nll_loss(x, y, false, "sum", 10.0), x, y);
  expect(HingeEmbeddingLoss({.margin = 2.0}), hinge_embedding_loss(x, sign, 2.0), x, sign);
  expect(MarginRankingLoss({.margin = 0.5, .reduction = "none"}), margin_ranking_loss(x, y, sign, 0.5, "none"), x, y,
         sign);
}

TEST_F(FunctionLayers, NamesStandForEnumerators) {
  const Tensor p = x.sigmoid(), q = y.sigmoid();
  expect_same_bits("sum", mse_loss(x, y, "sum"), mse_loss(x, y, Reduction::kSum));
  expect_same_bits("none", l1_loss(x, y, std::string("none")), l1_loss(x, y, Reduction::kNone));
  expect_same_bits("batchmean", kl_div(p, q, {.reduction = "batchmean"}), kl_div(p, q, Reduction::kBatchMean));
  expect_same_bits("a module", MSELoss({.reduction = "sum"})(x, y), mse_loss(x, y, "sum"));
  EXPECT_ERROR(mse_loss(x, y, "average"), "reduction: a name must be one of \"mean\", \"sum\", \"none\"");
  const Tensor grid = Tensor::rand({2, 5, 5, 2}) * 3.0 - 1.5;
  expect_same_bits("grid_sample", grid_sample(x, grid, {.mode = "nearest", .padding_mode = "border"}),
                   grid_sample(x, grid,
                               {.mode = GridSampleMode::kNearest, .padding_mode = GridSamplePadding::kBorder}));
  EXPECT_ERROR(grid_sample(x, grid, {.mode = "cubic"}), "grid_sample: a name must be one of \"bilinear\"");
  const Tensor named = zeros({6, 4}), numbered = zeros({6, 4});
  manual_seed(4);
  init::kaiming_normal_(named, {.mode = "fan_out", .nonlinearity = "relu"});
  manual_seed(4);
  init::kaiming_normal_(numbered, {.mode = init::FanMode::kFanOut, .nonlinearity = init::Nonlinearity::kReLU});
  expect_same_bits("kaiming_normal_", named, numbered);
  EXPECT_EQ(init::calculate_gain("tanh"), init::calculate_gain(init::Nonlinearity::kTanh));
  EXPECT_ERROR(init::calculate_gain("gelu"), "init: nonlinearity: a name must be one of \"linear\"");
}

TEST_F(FunctionLayers, ConvolutionsTakeNumbersInPyTorchsOrder) {
  const Tensor w = Tensor::randn({6, 2, 3, 3}), b = Tensor::randn({6}), up = Tensor::randn({4, 3, 3, 3});
  expect_same_bits("conv2d", conv2d(x, w, b, 2, 1, 1, 2), conv2d(x, w, b, {.stride = 2, .padding = 1, .groups = 2}));
  expect_same_bits("a stride alone", conv2d(x, w.repeat({1, 2, 1, 1}), {}, 2),
                   conv2d(x, w.repeat({1, 2, 1, 1}), {}, {.stride = 2}));
  expect_same_bits("conv_transpose2d", conv_transpose2d(x, up, {}, 2, 1, 1),
                   conv_transpose2d(x, up, {}, {.stride = 2, .padding = 1, .output_padding = 1}));
  const Tensor signal = x.flatten(2), line = w.flatten(2).repeat({1, 2, 1}), wide = up.flatten(2);
  expect_same_bits("conv1d", conv1d(signal, line, b, 3, 4, 2),
                   conv1d(signal, line, b, {.stride = 3, .padding = 4, .dilation = 2}));
  expect_same_bits("conv_transpose1d", conv_transpose1d(signal, wide, {}, 3, 2, 1, 1, 2),
                   conv_transpose1d(signal, wide, {}, {.stride = 3, .padding = 2, .output_padding = 1, .dilation = 2}));
}

TEST_F(FunctionLayers, ModulesAreMovedListedAndFoundByShortNames) {
  Sequential net{Conv2d(4, 4, 3), BatchNorm2d(4), Sequential{Conv2d(4, 2, 1)}};
  EXPECT_EQ(net.children().size(), 3U);
  EXPECT_EQ(net.modules().size(), 5U);
  EXPECT_EQ(net.buffers().size(), net.named_buffers().size());
  EXPECT_EQ(net.get_submodule("2.0").type(), "Conv2d");
  EXPECT_EQ(net.get_submodule(""), net);
  EXPECT_ERROR(net.get_submodule("2.1"), "get_submodule: the path must be a module's; got '2.1' in Sequential");
  net.half();
  EXPECT_EQ(net.parameters()[0].dtype(), kFloat16);
  net.bfloat16();
  EXPECT_EQ(net.parameters()[0].dtype(), kBFloat16);
  net.cpu();
  EXPECT_EQ(net.parameters()[0].device(), kCPU);
  int synchronised = 0;
  convert_sync_batchnorm(net).visit<BatchNorm2d>([&](auto& norm) { synchronised += norm.sync() ? 1 : 0; });
  EXPECT_EQ(synchronised, 1);
  EXPECT_TRUE(convert_sync_batchnorm(BatchNorm1d(3)).sync());
}

TEST_F(FunctionLayers, ParametersAsAVector) {
  const Conv2d conv(2, 3, 1);
  const Tensor vector = parameters_to_vector(conv.parameters());
  EXPECT_EQ(vector.shape(), (Shape{9}));
  expect_same_bits("weight", vector.narrow(0, 0, 6).reshape({3, 2, 1, 1}), conv.weight.detach());
  vector_to_parameters(arange(9.0), conv.parameters());
  expect_values("bias", conv.bias, {6, 7, 8});
  EXPECT_ERROR(vector_to_parameters(arange(8.0), conv.parameters()),
               "vector_to_parameters: the vector must have an element for each of the parameters' 9; got shape (8,)");
  EXPECT_ERROR(vector_to_parameters(arange(9), conv.parameters()), "dtype and device; got int64");
}

}  // namespace
}  // namespace adjoint::nn
