// Layers, losses and initialisers as PyTorch's users write them: each line is next to PyTorch's call, and gives the
// same as the options by name.
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/embedding.h>
#include <adjoint/nn/init.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/loss.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/pad.h>
#include <adjoint/nn/pool.h>
#include <adjoint/nn/recurrent.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/nn/transformer.h>
#include <adjoint/nn/upsample.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;

// Rejected by the compiler because they are ambiguous: empty braces as a number.
template <class M>
concept TakesBraces = requires {
  M({});
};
template <class M>
concept TakesBracesBehindOne = requires {
  M(4, {});
};
template <class M>
concept TakesBracesBehindTwo = requires {
  M(4, 4, {});
};
template <class T>
concept TakesBracesAsGain = requires(T tensor) {
  init::xavier_uniform_(tensor, {});
};

Tensor images() { return Tensor::from_vector(testing::integers(2 * 4 * 8 * 6, 50, 5), {2, 4, 8, 6}); }
Tensor signals() { return Tensor::from_vector(testing::integers(2 * 4 * 12, 50, 6), {2, 4, 12}); }

// One layer, written in two ways: it prints the same and, with the same parameters, computes the same bits.
template <class M>
void expect_one(M spelt, const M& named, const Tensor& x) {
  const std::string printed = to_string(named);
  EXPECT_EQ(to_string(spelt), printed);
  spelt.load_state_dict(named.state_dict());
  expect_same_bits(printed, spelt(x), named(x));
}

TEST(Spellings, Convolutions) {
  const Tensor x = images(), s = signals();
  expect_one(Conv1d(4, 6, 3), Conv1d(4, 6, {.kernel_size = 3}), s);
  expect_one(Conv1d(4, 6, 3, 2), Conv1d(4, 6, {.kernel_size = 3, .stride = 2}), s);
  expect_one(Conv1d(4, 6, 3, 2, 1), Conv1d(4, 6, {.kernel_size = 3, .stride = 2, .padding = 1}), s);
  expect_one(Conv2d(4, 6, 3), Conv2d(4, 6, {.kernel_size = 3}), x);
  expect_one(Conv2d(4, 6, 3, 1, 1), Conv2d(4, 6, {.kernel_size = 3, .padding = 1}), x);
  expect_one(Conv2d(4, 6, {3, 5}, {2, 1}, {4, 2}),
             Conv2d(4, 6, {.kernel_size = {3, 5}, .stride = {2, 1}, .padding = {4, 2}}), x);
  expect_one(Conv2d(4, 6, Size2(3, 5)), Conv2d(4, 6, {.kernel_size = {3, 5}}), x);
  expect_one(ConvTranspose1d(4, 6, 4, 2, 1), ConvTranspose1d(4, 6, {.kernel_size = 4, .stride = 2, .padding = 1}), s);
  expect_one(ConvTranspose2d(4, 6, 4, 2, 1), ConvTranspose2d(4, 6, {.kernel_size = 4, .stride = 2, .padding = 1}), x);
  expect_one(ConvTranspose2d(4, 6, 2, 2), ConvTranspose2d(4, 6, {.kernel_size = 2, .stride = 2}), x);
  expect_one(ConvTranspose1d(4, 6, 3, 2, 1, 1),
             ConvTranspose1d(4, 6, {.kernel_size = 3, .stride = 2, .padding = 1, .output_padding = 1}), s);
  expect_one(ConvTranspose2d(4, 6, 3, 2, 1, {1, 0}),
             ConvTranspose2d(4, 6, {.kernel_size = 3, .stride = 2, .padding = 1, .output_padding = {1, 0}}), x);
  expect_one(Conv1d(4, 6, 3, 1, 4, 4, 2, false),
             Conv1d(4, 6, {.kernel_size = 3, .padding = 4, .dilation = 4, .groups = 2, .bias = false}), s);
  expect_one(Conv2d(4, 6, 3, 1, 1, {1, 2}, 2, false),
             Conv2d(4, 6, {.kernel_size = 3, .padding = 1, .dilation = {1, 2}, .groups = 2, .bias = false}), x);
  expect_one(ConvTranspose1d(4, 6, 4, 2, 1, 0, 2, false, 3),
             ConvTranspose1d(4, 6,
                             {.kernel_size = 4, .stride = 2, .padding = 1, .dilation = 3, .groups = 2, .bias = false}),
             s);
  expect_one(ConvTranspose2d(4, 6, 4, 2, 1, 0, 2, false, {3, 2}),
             ConvTranspose2d(
                 4, 6, {.kernel_size = 4, .stride = 2, .padding = 1, .dilation = {3, 2}, .groups = 2, .bias = false}),
             x);
  const Tensor volume = Tensor::randn({1, 4, 5, 6, 7});
  expect_one(Conv3d(4, 6, 3), Conv3d(4, 6, {.kernel_size = 3}), volume);
  expect_one(Conv3d(4, 6, {3, 5, 1}, {2, 1, 1}, {1, 2, 0}),
             Conv3d(4, 6, {.kernel_size = {3, 5, 1}, .stride = {2, 1, 1}, .padding = {1, 2, 0}}), volume);
  expect_one(Conv3d(4, 6, 3, 1, "same"), Conv3d(4, 6, {.kernel_size = 3, .padding = kSame}), volume);
  expect_one(Conv3d(4, 6, 3, 1, 1, {1, 2, 1}, 2, false),
             Conv3d(4, 6, {.kernel_size = 3, .padding = 1, .dilation = {1, 2, 1}, .groups = 2, .bias = false}), volume);
  expect_one(Conv3d(4, 6, {1, 3, 3}, {.padding = {0, 1, 1}}),
             Conv3d(4, 6, {.kernel_size = {1, 3, 3}, .padding = {0, 1, 1}}), volume);
  expect_one(ConvTranspose3d(4, 6, 3, 2, 1, {1, 0, 1}),
             ConvTranspose3d(4, 6, {.kernel_size = 3, .stride = 2, .padding = 1, .output_padding = {1, 0, 1}}), volume);
  expect_one(ConvTranspose3d(4, 6, 4, {.stride = 2, .padding = 1}),
             ConvTranspose3d(4, 6, {.kernel_size = 4, .stride = 2, .padding = 1}), volume);
  EXPECT_ERROR(Conv2d(4, 6, 0), "Conv2d: kernel_size must be at least 1; got (0, 0)");

  // A pair in braces is a size, and options may follow the kernel's size.
  expect_one(Conv2d(4, 6, {3, 5}), Conv2d(4, 6, {.kernel_size = {3, 5}}), x);
  expect_one(ConvTranspose2d(4, 6, {3, 2}), ConvTranspose2d(4, 6, {.kernel_size = {3, 2}}), x);
  expect_one(Conv2d(4, 6, 3, {2, 1}), Conv2d(4, 6, {.kernel_size = 3, .stride = {2, 1}}), x);
  expect_one(Conv2d(4, 6, 3, {.padding = 1}), Conv2d(4, 6, {.kernel_size = 3, .padding = 1}), x);
  expect_one(Conv2d(4, 6, {3, 1}, {.padding = {1, 0}, .bias = false}),
             Conv2d(4, 6, {.kernel_size = {3, 1}, .padding = {1, 0}, .bias = false}), x);
  expect_one(Conv1d(4, 6, 3, {.stride = 2}), Conv1d(4, 6, {.kernel_size = 3, .stride = 2}), s);
  expect_one(ConvTranspose1d(4, 6, 4, {.stride = 2}), ConvTranspose1d(4, 6, {.kernel_size = 4, .stride = 2}), s);
  expect_one(ConvTranspose2d(4, 6, 4, {.stride = 2, .padding = 1}),
             ConvTranspose2d(4, 6, {.kernel_size = 4, .stride = 2, .padding = 1}), x);
  EXPECT_ERROR(Conv2d(4, 6, 3, {.kernel_size = 3}), "Conv2d: kernel_size must be given once");

  // Words for padding and its mode.
  expect_one(Conv1d(4, 6, 3, {.padding = "same"}), Conv1d(4, 6, {.kernel_size = 3, .padding = kSame}), s);
  expect_one(Conv2d(4, 6, 3, {.padding = "same"}), Conv2d(4, 6, {.kernel_size = 3, .padding = kSame}), x);
  expect_one(Conv2d(4, 6, 3, 1, "same"), Conv2d(4, 6, {.kernel_size = 3, .padding = kSame}), x);
  expect_one(Conv2d(4, 6, 3, {.padding = "valid"}), Conv2d(4, 6, {.kernel_size = 3}), x);
  expect_one(Conv2d(4, 6, 3, {.padding = 1, .padding_mode = "reflect"}),
             Conv2d(4, 6, {.kernel_size = 3, .padding = 1, .padding_mode = PadMode::kReflect}), x);
  expect_one(Conv1d(4, 6, 3, {.padding = 1, .padding_mode = "zeros"}), Conv1d(4, 6, {.kernel_size = 3, .padding = 1}),
             s);
  EXPECT_ERROR(Conv2d(4, 6, 3, {.padding = "full"}),
               "padding: a name must be one of \"same\", \"valid\"; got \"full\"");
  EXPECT_ERROR(Conv2d(4, 6, 3, {.padding_mode = "mirror"}), "pad: a name must be one of \"constant\", \"reflect\"");
}

TEST(Spellings, Pools) {
  const Tensor x = images(), s = signals();
  expect_one(MaxPool1d(2, 2), MaxPool1d(2), s);
  expect_one(MaxPool1d(3, 2, 1), MaxPool1d(3, {.stride = 2, .padding = 1}), s);
  expect_one(AvgPool1d(2, 2), AvgPool1d(2), s);
  expect_one(AvgPool1d(3, 1, 1), AvgPool1d(3, {.stride = 1, .padding = 1}), s);
  expect_one(MaxPool2d(2, 2), MaxPool2d(2), x);
  expect_one(MaxPool2d(3, 2, 1), MaxPool2d(3, {.stride = 2, .padding = 1}), x);
  expect_one(MaxPool2d({3, 2}), MaxPool2d(Size2(3, 2)), x);
  expect_one(MaxPool2d({3}), MaxPool2d(3), x);
  expect_one(MaxPool2d({3, 2}, 2), MaxPool2d(Size2(3, 2), {.stride = 2}), x);
  expect_one(MaxPool2d({3, 2}, Size2(2, 1)), MaxPool2d(Size2(3, 2), {.stride = {2, 1}}), x);
  expect_one(MaxPool2d({3, 2}, {2, 1}, {1, 0}), MaxPool2d(Size2(3, 2), {.stride = {2, 1}, .padding = {1, 0}}), x);
  expect_one(AvgPool2d(2, 2), AvgPool2d(2), x);
  expect_one(AvgPool2d(3, 2, 1), AvgPool2d(3, {.stride = 2, .padding = 1}), x);
  expect_one(AdaptiveAvgPool1d(5), AdaptiveAvgPool1d{5}, s);
  expect_one(AdaptiveMaxPool1d(5), AdaptiveMaxPool1d{5}, s);
  expect_one(AdaptiveAvgPool2d({3, 5}), AdaptiveAvgPool2d(Size2(3, 5)), x);
  expect_one(AdaptiveAvgPool2d({3}), AdaptiveAvgPool2d(3), x);
  expect_one(AdaptiveMaxPool2d({3, 5}), AdaptiveMaxPool2d(Size2(3, 5)), x);
  EXPECT_EQ(to_string(MaxPool1d(3, {.stride = 2})), to_string(MaxPool1d(3, 2)));
  expect_one(MaxPool2d(3, {2, 1}), MaxPool2d(3, {.stride = {2, 1}}), x);
  expect_one(AvgPool2d(3, {2, 1}), AvgPool2d(3, {.stride = {2, 1}}), x);
  EXPECT_EQ(to_string(MaxUnpool2d(4, {2, 1})), to_string(MaxUnpool2d(4, {.stride = {2, 1}})));

  expect_same_bits("max_pool1d", max_pool1d(s, 3, 2, 1), max_pool1d(s, 3, {.stride = 2, .padding = 1}));
  expect_same_bits("max_pool2d", max_pool2d(x, {3, 2}, {2, 1}, {1, 0}),
                   max_pool2d(x, {3, 2}, {.stride = {2, 1}, .padding = {1, 0}}));
  expect_same_bits("avg_pool1d", avg_pool1d(s, 3, 2, 1), avg_pool1d(s, 3, {.stride = 2, .padding = 1}));
  expect_same_bits("avg_pool2d", avg_pool2d(x, 3, 2, 1), avg_pool2d(x, 3, {.stride = 2, .padding = 1}));

  const auto [largest, places] = MaxPool2d(2, 2).with_indices(x);
  expect_same_bits("MaxUnpool2d(2, 2)", MaxUnpool2d(2, 2)(largest, places), MaxUnpool2d(2)(largest, places));
  const auto [peaks, at] = MaxPool1d(3, 2, 1).with_indices(s);
  expect_same_bits("MaxUnpool1d(3, 2, 1)", MaxUnpool1d(3, 2, 1)(peaks, at, 12),
                   MaxUnpool1d(3, {.stride = 2, .padding = 1})(peaks, at, 12));
  EXPECT_EQ(to_string(MaxUnpool2d({3, 2}, {2, 1}, {1, 0})),
            "MaxUnpool2d(kernel_size=(3, 2), stride=(2, 1), padding=(1, 0))");
  EXPECT_EQ(to_string(MaxUnpool1d(2, 2)), "MaxUnpool1d(kernel_size=2, stride=2, padding=0)");
}

TEST(Spellings, Norms) {
  const Tensor x = images(), s = signals(), rows = x.reshape({16, 24});
  expect_one(BatchNorm1d(4), BatchNorm1d(4, {.eps = 1e-5}), s);
  expect_one(BatchNorm2d(4), BatchNorm2d(4, {.momentum = 0.1}), x);
  expect_one(InstanceNorm1d(4), InstanceNorm1d(4, {.affine = false}), s);
  expect_one(InstanceNorm2d(4), InstanceNorm2d(4, {.affine = false}), x);
  expect_one(GroupNorm(2, 4), GroupNorm(2, 4, {.affine = true}), x);
  expect_one(LayerNorm(24), LayerNorm(Shape{24}), rows);
  expect_one(LayerNorm({24}), LayerNorm(Shape{24}), rows);
  expect_one(LayerNorm({8, 6}), LayerNorm(Shape{8, 6}), x);
  expect_one(LayerNorm({24}, {.eps = 1e-6}), LayerNorm(Shape{24}, {.eps = 1e-6}), rows);
  expect_one(LayerNorm{24}, LayerNorm(Shape{24}), rows);
  expect_one(RMSNorm(24), RMSNorm(Shape{24}), rows);
  expect_one(RMSNorm({24}), RMSNorm(Shape{24}), rows);
  expect_one(RMSNorm({8, 6}), RMSNorm(Shape{8, 6}), x);
  expect_one(BatchNorm1d(4, 0.8), BatchNorm1d(4, {.eps = 0.8}), s);
  expect_one(BatchNorm2d(4, 0.8), BatchNorm2d(4, {.eps = 0.8}), x);
  expect_one(BatchNorm2d(4, 1e-3, 0.01), BatchNorm2d(4, {.eps = 1e-3, .momentum = 0.01}), x);
  expect_one(BatchNorm2d(4, 1, std::nullopt), BatchNorm2d(4, {.eps = 1.0, .momentum = {}}), x);
  expect_one(SyncBatchNorm(4, 1e-3, 0.01), SyncBatchNorm(4, {.eps = 1e-3, .momentum = 0.01}), x);
  expect_one(InstanceNorm1d(4, 0.8), InstanceNorm1d(4, {.eps = 0.8}), s);
  expect_one(InstanceNorm2d(4, 0.8), InstanceNorm2d(4, {.eps = 0.8}), x);
  expect_one(GroupNorm(2, 4, 1e-6), GroupNorm(2, 4, {.eps = 1e-6}), x);
  expect_one(LayerNorm(24, 1e-6), LayerNorm(Shape{24}, {.eps = 1e-6}), rows);
  expect_one(LayerNorm({8, 6}, 1e-6), LayerNorm(Shape{8, 6}, {.eps = 1e-6}), x);
  expect_one(RMSNorm(24, 1e-6), RMSNorm(Shape{24}, {.eps = 1e-6}), rows);
  static_assert(!TakesBracesBehindOne<BatchNorm1d> && !TakesBracesBehindOne<BatchNorm2d>);
  static_assert(!TakesBracesBehindOne<SyncBatchNorm> && !TakesBracesBehindTwo<GroupNorm>);
  static_assert(!TakesBracesBehindOne<InstanceNorm1d> && !TakesBracesBehindOne<InstanceNorm2d>);
  static_assert(!TakesBracesBehindOne<LayerNorm> && !TakesBracesBehindOne<RMSNorm>);
  EXPECT_ERROR(LayerNorm({0}), "LayerNorm: normalized_shape must have extents of at least 1; got (0,)");
}

TEST(Spellings, Activations) {
  const Tensor x = images() * 0.1, s = signals() * 0.1;
  expect_one(LeakyReLU(0.2), LeakyReLU({.negative_slope = 0.2}), x);
  expect_one(ELU(1.0), ELU(), x);
  expect_one(ELU(0.5), ELU({.alpha = 0.5}), x);
  expect_one(Hardtanh(-2, 2), Hardtanh({.min_val = -2.0, .max_val = 2.0}), x);
  expect_one(Softplus(2), Softplus({.beta = 2.0}), x);
  expect_one(Softplus(2, 10), Softplus({.beta = 2.0, .threshold = 10.0}), x);
  expect_one(PReLU(4), PReLU({.num_parameters = 4}), x);
  expect_one(PReLU(4, 0.1), PReLU({.num_parameters = 4, .init = 0.1}), x);
  expect_one(Snake(4), Snake({.num_parameters = 4}), x);
  expect_one(GLU(1), GLU({.dim = 1}), x);
  expect_one(Softmax(1), Softmax({.dim = 1}), x);
  expect_same_bits("softmax", Softmax(1)(x), softmax(x, 1));
  expect_one(LogSoftmax(-1), LogSoftmax({.dim = -1}), s);
  expect_same_bits("log_softmax", LogSoftmax(1)(x), log_softmax(x, 1));
  EXPECT_EQ(to_string(LogSoftmax(1)), "LogSoftmax(dim=1)");
  EXPECT_ERROR(Softmax(4)(x), "softmax: axis must lie in [-4, 4); got 4");
  static_assert(!TakesBraces<LeakyReLU> && !TakesBraces<Hardtanh> && !TakesBraces<GLU>);

  // No result is written over its input, so nothing accepts PyTorch's inplace.
  static_assert(!std::is_constructible_v<ReLU, bool> && !std::is_constructible_v<LeakyReLU, double, bool>);

  const GELU tanh({.approximate = GeluApproximation::kTanh});
  expect_one(GELU({.approximate = "tanh"}), tanh, x);
  EXPECT_ERROR(GELU({.approximate = "erf"}), "GELU: a name must be one of \"none\", \"tanh\"; got \"erf\"");
  expect_same_bits("gelu, tanh", tanh(x), gelu_tanh(x));
  expect_same_bits("gelu", GELU()(x), gelu(x));
  EXPECT_EQ(tanh.activation(), Activation::gelu_tanh());
  EXPECT_EQ(to_string(tanh), "GELU(approximate=tanh)");
  EXPECT_ERROR(GELU({.approximate = static_cast<GeluApproximation>(2)}), "GELU: a value of GeluApproximation", "2");
  const Conv2d conv(4, 4, 3, 1, 1);
  expect_same_bits("in a Sequential", Sequential{conv, tanh}(x), conv.activated(x, Activation::gelu_tanh()));
}

TEST(Spellings, Shapes) {
  const Tensor x = images();
  expect_one(Flatten(1), Flatten(), x);
  expect_one(Flatten(2), Flatten({.start_dim = 2}), x);
  expect_one(Flatten(0, 1), Flatten({.start_dim = 0, .end_dim = 1}), x);
  expect_one(Unflatten(1, {2, 2}), Unflatten(1, Shape{2, 2}), x);
  expect_one(PixelShuffle(2), PixelShuffle{2}, x);
  expect_one(PixelUnshuffle(2), PixelUnshuffle{2}, x);
  expect_one(Identity(), Identity{}, x);
  expect_one(Upsample({.scale_factor = 2}), Upsample({.scale_factor = {2.0, 2.0}}), x);
  expect_one(Upsample(12), Upsample({.size = 12}), x);
  expect_one(Upsample(Size2(12, 5)), Upsample({.size = {12, 5}}), x);
  expect_one(Upsample(0, 2.0, "bilinear", true),
             Upsample({.scale_factor = 2.0, .mode = Interpolation::kBilinear, .align_corners = true}), x);
  expect_one(Upsample({.scale_factor = 2, .mode = "nearest"}), Upsample({.scale_factor = 2}), x);
  EXPECT_ERROR(Upsample({.size = 3, .mode = "cubic"}),
               "interpolate: a name must be one of \"nearest\", \"nearest-exact\"");
  expect_same_bits("pad", pad(x, {1, 1}, "reflect"), pad(x, {1, 1}, PadMode::kReflect));
  expect_one(ReflectionPad2d(1), ReflectionPad2d({1, 1, 1, 1}), x);
  expect_one(ReplicationPad2d({1, 2, 0, 1}), ReplicationPad2d(std::vector<std::int64_t>{1, 2, 0, 1}), x);
  expect_one(CircularPad1d(1), CircularPad1d({1, 1}), signals());
  expect_one(ZeroPad2d(2), ZeroPad2d({2, 2, 2, 2}), x);
  expect_one(ConstantPad2d(2, 3.5), ConstantPad2d({2, 2, 2, 2}, 3.5), x);
  expect_one(Linear(6, 3), Linear(6, 3, {.bias = true}), x);
  expect_one(Linear(6, 3, false), Linear(6, 3, {.bias = false}), x);
  const Tensor indices = Tensor::from_vector<std::int64_t>({0, 9, 4}, {3}, {.dtype = kInt64});
  expect_one(Embedding(10, 3), Embedding(10, 3, {.norm_type = 2.0}), indices);
  expect_one(Embedding(10, 3, 0), Embedding(10, 3, {.padding_idx = 0}), indices);
  expect_one(Embedding(10, 3, -1), Embedding(10, 3, {.padding_idx = 9}), indices);
  EXPECT_ERROR(Embedding(10, 3, 10), "Embedding: padding_idx must be one of the 10 rows; got 10");
  static_assert(!TakesBracesBehindTwo<Linear> && !TakesBracesBehindTwo<Embedding>);
}

TEST(Spellings, Sequences) {
  const Tensor x = signals().narrow(2, 0, 4);
  const auto same_output = [&](auto spelt, const auto& named) {
    EXPECT_EQ(to_string(spelt), to_string(named));
    spelt.load_state_dict(named.state_dict());
    expect_same_bits(to_string(named), spelt(x).output, named(x).output);
  };
  same_output(RNN(4, 3, 2), RNN(4, 3, {.num_layers = 2}));
  same_output(LSTM(4, 3, 2), LSTM(4, 3, {.num_layers = 2}));
  same_output(GRU(4, 3, 2), GRU(4, 3, {.num_layers = 2}));
  const GRU gru(4, 3);
  const Tensor h_0 = Tensor::ones({1, 4, 3});
  expect_same_bits("a state", gru(x, h_0).output, gru(x, {.h_0 = h_0}).output);
  const LSTM lstm(4, 3);
  expect_same_bits("two states", lstm(x, {h_0, h_0}).h_n, lstm(x, {.h_0 = h_0, .c_0 = h_0}).h_n);
  expect_one(RNNCell(4, 3, false), RNNCell(4, 3, {.bias = false}), x[0]);
  expect_one(GRUCell(4, 3, false), GRUCell(4, 3, {.bias = false}), x[0]);
  EXPECT_EQ(to_string(LSTMCell(4, 3, false)), to_string(LSTMCell(4, 3, {.bias = false})));
  EXPECT_EQ(MultiheadAttention(4, 2, 0.25).options().dropout, 0.25);
  expect_one(TransformerEncoderLayer(4, 2, 8, 0.0),
             TransformerEncoderLayer(4, 2, {.dim_feedforward = 8, .dropout = 0.0, .activation = Activation::relu()}),
             x);
  static_assert(!TakesBracesBehindTwo<RNN> && !TakesBracesBehindTwo<LSTM> && !TakesBracesBehindTwo<GRU>);
  static_assert(!TakesBracesBehindTwo<LSTMCell> && !TakesBracesBehindTwo<MultiheadAttention> &&
                !TakesBracesBehindTwo<TransformerDecoderLayer>);
}

TEST(Spellings, Dropouts) {
  const Tensor x = images();
  const auto drops = [&](const auto& spelt, const auto& named) {
    manual_seed(11);
    const Tensor y = spelt(x);
    manual_seed(11);
    expect_same_bits(to_string(named), y, named(x));
    EXPECT_EQ(to_string(spelt), to_string(named));
  };
  drops(Dropout(0.2), Dropout({.p = 0.2}));
  drops(Dropout2d(0.2), Dropout2d({.p = 0.2}));
  expect_same_bits("of an integer", Dropout(1)(x), Tensor::zeros(x.shape()));
  static_assert(!TakesBraces<Dropout> && !TakesBraces<Dropout2d> && !TakesBraces<Flatten>);
  EXPECT_ERROR(Dropout(2), "Dropout: p must be between 0 and 1; got 2");
}

TEST(Spellings, Losses) {
  const Tensor x = Tensor::rand({2, 3, 4}), y = Tensor::rand({2, 3, 4});
  const Tensor classes = Tensor::from_vector<std::int64_t>({0, 2}, {2}, {.dtype = kInt64});
  const Tensor scores = Tensor::rand({2, 3});
  const Reduction sum = Reduction::kSum;
  EXPECT_EQ(MSELoss()(x, y).shape(), Shape{});
  EXPECT_EQ(L1Loss({.reduction = Reduction::kNone})(x, y).shape(), x.shape());
  expect_same_bits("CharbonnierLoss", CharbonnierLoss()(x, y), charbonnier_loss(x, y));
  expect_same_bits("its options", CharbonnierLoss({.eps = 0.1, .reduction = sum})(x, y),
                   charbonnier_loss(x, y, 0.1, sum));
  expect_same_bits("DiceLoss", DiceLoss()(x, y), dice_loss(x, y));
  expect_same_bits("its options", DiceLoss({.reduction = sum, .smooth = 1.0, .squared = true})(x, y),
                   dice_loss(x, y, {.reduction = sum, .smooth = 1.0, .squared = true}));
  expect_same_bits("CrossEntropyLoss", CrossEntropyLoss()(scores, classes), cross_entropy(scores, classes));
  const Tensor weights = Tensor::from_vector({0.5F, 1.0F, 2.0F}, {3}), both = Tensor::rand({2, 3});
  expect_same_bits("CrossEntropyLoss(weight)", CrossEntropyLoss(weights)(scores, classes),
                   cross_entropy(scores, classes, {.weight = weights}));
  expect_same_bits("NLLLoss(weight)", NLLLoss(weights)(scores, classes),
                   nll_loss(scores, classes, {.weight = weights}));
  expect_same_bits("BCELoss(weight)", BCELoss(weights)(scores, both),
                   binary_cross_entropy(scores, both, {.weight = weights}));
  expect_same_bits("BCEWithLogitsLoss(weight)", BCEWithLogitsLoss(weights)(scores, both),
                   binary_cross_entropy_with_logits(scores, both, {.weight = weights}));
  EXPECT_EQ(CrossEntropyLoss{weights}.state_dict().size(), 1U);
  const auto sums = [&](auto loss, auto function, const Tensor& input, const Tensor& target) {
    EXPECT_EQ(to_string(loss), loss.type() + std::string("()"));
    expect_same_bits(loss.type(), loss(input, target), function(input, target));
    EXPECT_NE(loss(input, target).template item<float>(), decltype(loss)()(input, target).template item<float>());
  };
#define EXPECT_SUMS(Loss, function, input, target) \
  sums(                                            \
      Loss(sum), [&](const Tensor& i, const Tensor& t) { return function(i, t, sum); }, input, target)
#define EXPECT_ROW(Kind, Functor, function, Module, ...) EXPECT_SUMS(Module, function, x, y);
#define EXPECT_ROW_PX(Kind, Functor, function, Module, parameter, value) \
  sums(                                                                  \
      Module(sum), [&](const Tensor& i, const Tensor& t) { return function(i, t, value, sum); }, x, y);
  ADJOINT_LOSSES(EXPECT_ROW, EXPECT_ROW, EXPECT_ROW_PX)
#undef EXPECT_ROW
#undef EXPECT_ROW_PX
  EXPECT_SUMS(BCELoss, binary_cross_entropy, x, y);
  EXPECT_SUMS(BCEWithLogitsLoss, binary_cross_entropy_with_logits, x, y);
  EXPECT_SUMS(CrossEntropyLoss, cross_entropy, scores, classes);
  EXPECT_SUMS(NLLLoss, nll_loss, scores, classes);
  EXPECT_SUMS(KLDivLoss, kl_div, x, y);
  EXPECT_SUMS(DiceLoss, dice_loss, x, y);
#undef EXPECT_SUMS
  expect_same_bits("kl_div", kl_div(x, y, Reduction::kBatchMean), kl_div(x, y, {.reduction = Reduction::kBatchMean}));
  static_assert(std::is_constructible_v<NLLLoss, Parameter> && !std::is_constructible_v<MSELoss, Tensor>);
  EXPECT_EQ(to_string(DiceLoss()), "DiceLoss()");
  EXPECT_ERROR(CharbonnierLoss({.eps = 0.0})(x, y), "charbonnier_loss: eps must be positive");
  EXPECT_ERROR(DiceLoss()(scores, scores), "dice_loss: ", "(2, 3)");
}

TEST(Spellings, Initialisers) {
  const Tensor a = Tensor::empty({4, 3}), b = Tensor::empty({4, 3});
  const auto fill = [&](const char* name, auto spelt, auto named) {
    manual_seed(5);
    spelt(a);
    manual_seed(5);
    named(b);
    expect_same_bits(name, a, b);
  };
  fill(
      "xavier_uniform_", [](const Tensor& t) { init::xavier_uniform_(t, 2.0); },
      [](const Tensor& t) { init::xavier_uniform_(t, {.gain = 2.0}); });
  fill(
      "xavier_normal_", [](const Tensor& t) { init::xavier_normal_(t, 2); },
      [](const Tensor& t) { init::xavier_normal_(t, {.gain = 2.0}); });
  fill(
      "kaiming_normal_", [](const Tensor& t) { init::kaiming_normal_(t, 0.2); },
      [](const Tensor& t) { init::kaiming_normal_(t, {.a = 0.2}); });
  fill(
      "kaiming_uniform_", [](const Tensor& t) { init::kaiming_uniform_(t, 1); },
      [](const Tensor& t) { init::kaiming_uniform_(t, {.a = 1.0}); });
  fill(
      "calculate_gain",
      [](const Tensor& t) { init::xavier_uniform_(t, init::calculate_gain(init::Nonlinearity::kTanh)); },
      [](const Tensor& t) { init::xavier_uniform_(t, {.gain = 5.0 / 3.0}); });
  init::orthogonal_(a, 2);
  init::uniform_(a, -1, 1);
  init::normal_(a, 0, 0.02);
  init::constant_(a, 1);
  init::kaiming_normal_(a, {.mode = init::FanMode::kFanOut, .nonlinearity = init::Nonlinearity::kReLU});
  init::trunc_normal_(a, 0, 0.02);
  EXPECT_TRUE(isfinite(a).all().item<bool>());
  static_assert(!TakesBracesAsGain<Tensor>);
}

}  // namespace
}  // namespace adjoint::nn
