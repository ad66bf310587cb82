// Pooling, padding, upsampling and channel dropout as modules, ModuleList, and convolutions' padding modes.
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/module_list.h>
#include <adjoint/nn/pad.h>
#include <adjoint/nn/pool.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/nn/streaming.h>
#include <adjoint/nn/upsample.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_near;
using testing::expect_same_bits;

Tensor image() { return Tensor::from_vector(testing::integers(2 * 4 * 6 * 7, 50, 3), {2, 4, 6, 7}); }
Tensor volume() { return Tensor::from_vector(testing::integers(2 * 4 * 5 * 6 * 7, 50, 5), {2, 4, 5, 6, 7}); }
Tensor signal() { return Tensor::from_vector(testing::integers(2 * 4 * 9, 50, 4), {2, 4, 9}); }

TEST(PoolLayers, CallTheFunctions) {
  const Tensor x = image(), s = signal();
  expect_same_bits("MaxPool2d", MaxPool2d(3, {.stride = 2, .padding = 1})(x),
                   max_pool2d(x, 3, {.stride = 2, .padding = 1}));
  expect_same_bits("stride alone", MaxPool2d(3, 2)(x), max_pool2d(x, 3, {.stride = 2}));
  expect_same_bits("AvgPool2d", AvgPool2d(Size2(2, 3))(x), avg_pool2d(x, {2, 3}));
  expect_same_bits("MaxPool1d", MaxPool1d(2)(s), max_pool1d(s, 2));
  expect_same_bits("AvgPool1d", AvgPool1d(3, {.padding = 1})(s), avg_pool1d(s, 3, {.padding = 1}));
  expect_same_bits("AdaptiveAvgPool2d", AdaptiveAvgPool2d({2, 3})(x), adaptive_avg_pool2d(x, {2, 3}));
  expect_same_bits("AdaptiveMaxPool2d", AdaptiveMaxPool2d(2)(x), adaptive_max_pool2d(x, 2));
  expect_same_bits("AdaptiveAvgPool1d", AdaptiveAvgPool1d(4)(s), adaptive_avg_pool1d(s, 4));
  expect_same_bits("AdaptiveMaxPool1d", AdaptiveMaxPool1d(4)(s), adaptive_max_pool1d(s, 4));
  const auto [y, indices] = MaxPool2d(2).with_indices(x);
  expect_same_bits("MaxUnpool2d", MaxUnpool2d(2)(y, indices, {6, 7}),
                   max_unpool2d(y, indices, 2, {.output_size = {6, 7}}));
  const auto [line, places] = MaxPool1d(2).with_indices(s);
  expect_same_bits("MaxUnpool1d", MaxUnpool1d(2)(line, places), max_unpool1d(line, places, 2));
  const auto [largest, at] = AdaptiveMaxPool2d({2, 3}).with_indices(x);
  expect_same_bits("AdaptiveMaxPool2d", largest, adaptive_max_pool2d(x, {2, 3}));
  expect_same_bits("its indices", at, adaptive_max_pool2d_with_indices(x, {2, 3}).second);
  const auto [peaks, peaks_at] = AdaptiveMaxPool1d(4).with_indices(s);
  expect_same_bits("AdaptiveMaxPool1d", peaks, adaptive_max_pool1d(s, 4));
  expect_same_bits("its indices", peaks_at, adaptive_max_pool1d_with_indices(s, 4).second);
  EXPECT_ERROR(Sequential{AdaptiveMaxPool1d(4)}[0].as<AdaptiveMaxPool1d>().with_indices(Tensor::ones({3})),
               "0: adaptive_max_pool1d");
  EXPECT_EQ(to_string(MaxPool2d(2)), "MaxPool2d(kernel_size=2, stride=2, padding=0)");
  EXPECT_EQ(to_string(MaxPool1d(3, {.stride = 2, .dilation = 2})),
            "MaxPool1d(kernel_size=3, stride=2, padding=0, dilation=2)");
  EXPECT_EQ(to_string(AdaptiveAvgPool2d({2, 3})), "AdaptiveAvgPool2d(output_size=(2, 3))");
  EXPECT_EQ(to_string(MaxPool2d({2, 1})), "MaxPool2d(kernel_size=(2, 1), stride=(2, 1), padding=0)");
  EXPECT_EQ(to_string(AvgPool2d({2, 1}, {.stride = {1, 3}})),
            "AvgPool2d(kernel_size=(2, 1), stride=(1, 3), padding=0)");
  EXPECT_EQ(to_string(MaxPool2d({3, 2}, 1)), "MaxPool2d(kernel_size=(3, 2), stride=1, padding=0)");
  EXPECT_EQ(to_string(MaxPool2d{2, 1}), "MaxPool2d(kernel_size=2, stride=1, padding=0)");
  EXPECT_EQ(to_string(MaxUnpool2d({2, 1})), "MaxUnpool2d(kernel_size=(2, 1), stride=(2, 1), padding=0)");
  EXPECT_ERROR(MaxPool2d(0), "MaxPool2d: kernel_size must be at least 1; got 0");
  EXPECT_ERROR(AvgPool1d(2, {.stride = -1}), "AvgPool1d: stride must be at least 0; got -1");
  EXPECT_ERROR(AdaptiveMaxPool1d(-1), "AdaptiveMaxPool1d: output_size must be at least 0; got -1");
}

TEST(PoolLayers, OfVolumesCallTheFunctions) {
  const Tensor x = volume();
  expect_same_bits("MaxPool3d", MaxPool3d(3, {.stride = 2, .padding = 1})(x),
                   max_pool3d(x, 3, {.stride = 2, .padding = 1}));
  expect_same_bits("stride alone", MaxPool3d(3, 2)(x), max_pool3d(x, 3, {.stride = 2}));
  expect_same_bits("AvgPool3d", AvgPool3d({2, 3, 1})(x), avg_pool3d(x, {2, 3, 1}));
  expect_same_bits("AdaptiveAvgPool3d", AdaptiveAvgPool3d({2, 3, 0})(x), adaptive_avg_pool3d(x, {2, 3, 0}));
  const auto [largest, at] = AdaptiveMaxPool3d(2).with_indices(x);
  expect_same_bits("AdaptiveMaxPool3d", AdaptiveMaxPool3d(2)(x), adaptive_max_pool3d(x, 2));
  expect_same_bits("its maxima", largest, adaptive_max_pool3d(x, 2));
  expect_same_bits("its indices", at, adaptive_max_pool3d_with_indices(x, 2).second);
  const auto [y, indices] = MaxPool3d(2).with_indices(x);
  expect_same_bits("MaxUnpool3d", MaxUnpool3d(2)(y, indices, {5, 6, 7}),
                   max_unpool3d(y, indices, 2, {.output_size = {5, 6, 7}}));
  EXPECT_EQ(to_string(MaxPool3d(2)), "MaxPool3d(kernel_size=2, stride=2, padding=0)");
  EXPECT_EQ(to_string(MaxPool3d({1, 2, 2})), "MaxPool3d(kernel_size=(1, 2, 2), stride=(1, 2, 2), padding=0)");
  EXPECT_EQ(to_string(AdaptiveAvgPool3d({2, 3, 4})), "AdaptiveAvgPool3d(output_size=(2, 3, 4))");
  EXPECT_ERROR(AvgPool3d({2, 0, 1}), "AvgPool3d: kernel_size must be at least 1; got (2, 0, 1)");
}

TEST(PadLayers, CallTheFunction) {
  const Tensor x = image(), s = signal();
  expect_same_bits("reflect", ReflectionPad2d({1, 2, 0, 3})(x), pad(x, {1, 2, 0, 3}, PadMode::kReflect));
  expect_same_bits("replicate", ReplicationPad2d(2)(x), pad(x, {2, 2, 2, 2}, PadMode::kReplicate));
  expect_same_bits("replicate", ReplicationPad1d({2, 0})(s), pad(s, {2, 0}, PadMode::kReplicate));
  expect_same_bits("circular", CircularPad1d(3)(s), pad(s, {3, 3}, PadMode::kCircular));
  expect_same_bits("circular", CircularPad2d({3, 1, 0, 2})(x), pad(x, {3, 1, 0, 2}, PadMode::kCircular));
  expect_same_bits("zeros", ZeroPad1d(2)(s), pad(s, {2, 2}));
  expect_same_bits("zeros", ZeroPad2d({1, 0, 2, 0})(x), pad(x, {1, 0, 2, 0}));
  expect_same_bits("constant", ConstantPad1d({1, 2}, 5.0)(s), pad(s, {1, 2}, 5.0));
  expect_same_bits("constant", ConstantPad2d(1, -5.0)(x), pad(x, {1, 1, 1, 1}, -5.0));
  const Tensor v = volume();
  expect_same_bits("reflect", ReflectionPad3d({1, 2, 0, 3, 1, 1})(v), pad(v, {1, 2, 0, 3, 1, 1}, PadMode::kReflect));
  expect_same_bits("replicate", ReplicationPad3d(2)(v), pad(v, {2, 2, 2, 2, 2, 2}, PadMode::kReplicate));
  expect_same_bits("circular", CircularPad3d(3)(v), pad(v, {3, 3, 3, 3, 3, 3}, PadMode::kCircular));
  expect_same_bits("zeros", ZeroPad3d(1)(v), pad(v, {1, 1, 1, 1, 1, 1}));
  expect_same_bits("constant", ConstantPad3d(1, -5.0)(v), pad(v, {1, 1, 1, 1, 1, 1}, -5.0));
  EXPECT_EQ(to_string(ReflectionPad1d(2)), "ReflectionPad1d((2, 2))");
  EXPECT_ERROR(ReflectionPad2d({1, 2}), "ReflectionPad2d: padding must be one number or 4; got 2");
  EXPECT_ERROR(ReflectionPad1d(9)(s), "ReflectionPad1d: reflect: padding must be less than the extent", "(9, 9)");
}

TEST(UpsampleLayer, InterpolatesByNearestUnlessTold) {
  const Tensor x = image();
  expect_same_bits("nearest", Upsample({.scale_factor = 2.0})(x),
                   interpolate(x, {.scale_factor = 2.0, .mode = Interpolation::kNearest}));
  expect_same_bits("bilinear", Upsample({.size = 5, .mode = Interpolation::kBilinear, .align_corners = true})(x),
                   interpolate(x, {.size = 5, .mode = Interpolation::kBilinear, .align_corners = true}));
  EXPECT_ERROR(Upsample({.scale_factor = 2.0})(Tensor::ones({3})), "Upsample: input must be");
  const Tensor v = volume();
  expect_same_bits("trilinear", Upsample({.scale_factor = 2.0, .mode = "trilinear"})(v),
                   interpolate(v, {.scale_factor = 2.0, .mode = Interpolation::kTrilinear}));
  expect_same_bits("a size", Upsample(Size3(3, 4, 5))(v), interpolate(v, {.size = {3, 4, 5}}));
  EXPECT_EQ(to_string(Upsample({.size = {3, 4, 5}})), "Upsample(size=(3, 4, 5), mode=nearest)");
  EXPECT_EQ(to_string(Upsample({.scale_factor = 2.0})), "Upsample(scale_factor=(2, 2), mode=nearest)");
}

TEST(Dropout2d, DropsWholeChannels) {
  manual_seed(3);
  Dropout2d drop({.p = 0.5});
  const Tensor y = drop(Tensor::ones({8, 16, 3, 3}));
  const std::vector<float> sums = y.sum({2, 3}).to_vector<float>();
  EXPECT_EQ(std::set<float>(sums.begin(), sums.end()), (std::set<float>{0.0F, 18.0F}));
  drop.eval();
  expect_same_bits("eval", drop(y), y);
  EXPECT_ERROR(Dropout2d()(Tensor::ones({3, 3})), "Dropout2d: x must be (N, C, H, W) or (C, H, W); got (3, 3)");
  EXPECT_ERROR(Dropout2d({.p = 2.0}), "Dropout2d: p must be between 0 and 1; got 2");
}

TEST(Dropout3d, DropsWholeChannels) {
  manual_seed(3);
  Dropout3d drop(0.5);
  const Tensor y = drop(Tensor::ones({8, 16, 3, 3, 2}));
  const std::vector<float> sums = y.sum({2, 3, 4}).to_vector<float>();
  EXPECT_EQ(std::set<float>(sums.begin(), sums.end()), (std::set<float>{0.0F, 36.0F}));
  EXPECT_EQ(drop(Tensor::ones({16, 3, 3, 2})).shape(), Shape({16, 3, 3, 2}));
  drop.eval();
  expect_same_bits("eval", drop(y), y);
  EXPECT_ERROR(Dropout3d()(Tensor::ones({3, 3, 3})),
               "Dropout3d: x must be (N, C, D, H, W) or (C, D, H, W); got (3, 3, 3)");
  EXPECT_ERROR(Dropout3d({.p = 2.0}), "Dropout3d: p must be between 0 and 1; got 2");
}

TEST(ModuleList, HoldsModulesByIndex) {
  ModuleList<Linear> list{Linear(2, 3), Linear(3, 4)};
  list.append(Linear(4, 5));
  Tensor x = Tensor::ones({1, 2});
  for (const Linear& layer : list) x = layer(x);
  EXPECT_EQ(x.shape(), Shape({1, 5}));
  EXPECT_EQ(list.size(), 3U);
  EXPECT_EQ(list.named_parameters().size(), 6U);
  EXPECT_EQ(list.named_children()[2].first, "2");
  expect_same_bits("shared", list[1].weight, list.state_dict()[2].second);
  EXPECT_ERROR(list[3], "ModuleList: an index must be below the number of modules; got 3 of 3");
  const ModuleList<Layer> mixed{Linear(2, 2), ReLU()};
  EXPECT_EQ(mixed[1](Tensor::full({1}, -1.0)).item<float>(), 0.0F);
}

TEST(ConvPadding, PadsByOtherModes) {
  const Tensor x = image(), s = signal();
  for (const PadMode mode : {PadMode::kReflect, PadMode::kReplicate, PadMode::kCircular}) {
    const Conv2d conv(4, 3, {.kernel_size = {3, 5}, .stride = 2, .padding = {1, 2}, .padding_mode = mode});
    expect_same_bits("2-D", conv(x), conv2d(pad(x, {2, 2, 1, 1}, mode), conv.weight, conv.bias, {.stride = 2}));
    const Conv1d line(4, 3, {.kernel_size = 3, .padding = 2, .padding_mode = mode});
    expect_same_bits("1-D", line(s), conv1d(pad(s, {2, 2}, mode), line.weight, line.bias));
  }
  EXPECT_EQ(to_string(Conv1d(1, 1, {.kernel_size = 3, .padding = 1, .padding_mode = PadMode::kReflect})),
            "Conv1d(1, 1, kernel_size=(3,), stride=(1,), padding=(1,), padding_mode=reflect)");
}

TEST(ConvPadding, KeepsTheExtents) {
  const Tensor x = image();
  const Conv2d odd(4, 3, {.kernel_size = 3, .padding = kSame, .dilation = 2});
  expect_same_bits("odd", odd(x), conv2d(x, odd.weight, odd.bias, {.padding = 2, .dilation = 2}));
  const Conv2d even(4, 3, {.kernel_size = {2, 4}, .padding = kSame, .padding_mode = PadMode::kReflect});
  expect_same_bits("even", even(x), conv2d(pad(x, {1, 2, 0, 1}, PadMode::kReflect), even.weight, even.bias));
  EXPECT_EQ(Conv1d(4, 3, {.kernel_size = 4, .padding = kSame})(signal()).shape(), Shape({2, 3, 9}));
  EXPECT_ERROR(Conv1d(4, 3, {.kernel_size = 3, .stride = 2, .padding = kSame}),
               "Conv1d: padding kSame needs a stride of 1; got stride (2,)");
  EXPECT_ERROR(Conv1d(4, 3, {.kernel_size = 3, .padding = -2}), "Conv1d: padding must be at least 0");
}

// <conv(x), y> = <x, conv_transpose(y)>, with one weight and no bias.
TEST(ConvPadding, OfTransposedOnesIsTheAdjoint) {
  const Tensor x = image().to(kFloat64), s = signal().to(kFloat64);
  for (const PadMode mode : {PadMode::kReflect, PadMode::kReplicate, PadMode::kCircular}) {
    Conv2d conv(4, 3, {.kernel_size = 3, .stride = 2, .padding = {1, 2}, .bias = false, .padding_mode = mode});
    ConvTranspose2d back(3, 4, {.kernel_size = 3, .stride = 2, .padding = {1, 2}, .bias = false, .padding_mode = mode});
    conv.to(kFloat64);
    back.to(kFloat64);
    back.weight = conv.weight;
    const Tensor y = conv(x), z = back(y, {.output_size = {6, 7}});
    EXPECT_EQ(z.shape(), x.shape());
    expect_near("2-D", (z * x).sum(), {(y * y).sum().item<double>()}, 1e-6);
    const ConvTranspose1d line(4, 2, {.kernel_size = 4, .stride = 2, .padding = 2, .padding_mode = mode});
    const Tensor found = line.activated(s.to(kFloat32), Activation::relu());
    const Tensor wide = conv_transpose1d(s.to(kFloat32), line.weight, {}, {.stride = 2});
    expect_same_bits("1-D", found, relu(pad_adjoint(wide, {2, 2, 16}, {2, 2}, mode) + line.bias.reshape({2, 1})));
  }
}

TEST(ConvPadding, IsNotStreamed) {
  EXPECT_ERROR(StreamingConv1d(Conv1d(1, 1, {.kernel_size = 3, .padding = kSame})),
               "StreamingConv1d: the layer must pad with zeros, by a number", "padding=same");
}

}  // namespace
}  // namespace adjoint::nn
