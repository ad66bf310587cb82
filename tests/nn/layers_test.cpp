// Convolutions, activations and initialisers as modules: results, options, initial distributions, errors.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/init.h>
#include <adjoint/nn/linear.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

std::vector<float> values(const Tensor& tensor) { return tensor.to_vector<float>(); }

TEST(Conv, ModulesCallTheOperatorsWithTheirOptions) {
  const Conv1d c1(4, 6, {.kernel_size = 3, .stride = 2, .padding = 1, .dilation = 2, .groups = 2});
  const Tensor x1 = Tensor::randn({2, 4, 11});
  EXPECT_EQ(c1.weight.shape(), (Shape{6, 2, 3}));
  EXPECT_EQ(values(c1(x1)),
            values(conv1d(x1, c1.weight, c1.bias, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2})));

  const Conv2d c2(
      4, 6,
      {.kernel_size = {3, 2}, .stride = {1, 2}, .padding = {2, 1}, .dilation = {2, 1}, .groups = 2, .bias = false});
  const Tensor x2 = Tensor::randn({2, 4, 7, 8});
  EXPECT_EQ(c2.weight.shape(), (Shape{6, 2, 3, 2}));
  EXPECT_FALSE(c2.bias.defined());
  EXPECT_EQ(c2.parameters().size(), 1U);
  EXPECT_EQ(values(c2(x2)),
            values(conv2d(x2, c2.weight, {}, {.stride = {1, 2}, .padding = {2, 1}, .dilation = {2, 1}, .groups = 2})));

  const ConvTranspose1d t1(
      4, 6, {.kernel_size = 3, .stride = 3, .padding = 1, .output_padding = 2, .dilation = 2, .groups = 2});
  EXPECT_EQ(t1.weight.shape(), (Shape{4, 3, 3}));
  EXPECT_EQ(values(t1(x1)),
            values(conv_transpose1d(x1, t1.weight, t1.bias,
                                    {.stride = 3, .padding = 1, .output_padding = 2, .dilation = 2, .groups = 2})));

  const ConvTranspose2d t2(4, 6,
                           {.kernel_size = {3, 4},
                            .stride = {3, 2},
                            .padding = {1, 0},
                            .output_padding = {2, 1},
                            .dilation = {1, 2},
                            .groups = 2});
  EXPECT_EQ(t2.weight.shape(), (Shape{4, 3, 3, 4}));
  EXPECT_EQ(t2.bias.shape(), (Shape{6}));
  EXPECT_EQ(values(t2(x2)),
            values(conv_transpose2d(
                x2, t2.weight, t2.bias,
                {.stride = {3, 2}, .padding = {1, 0}, .output_padding = {2, 1}, .dilation = {1, 2}, .groups = 2})));
}

TEST(Conv, ModulesOfVolumesCallTheOperatorsWithTheirOptions) {
  const Conv3d c3(4, 6,
                  {.kernel_size = {2, 3, 1},
                   .stride = {1, 2, 1},
                   .padding = {2, 1, 0},
                   .dilation = {2, 1, 1},
                   .groups = 2,
                   .bias = false});
  const Tensor x = Tensor::randn({2, 4, 5, 6, 7});
  EXPECT_EQ(c3.weight.shape(), (Shape{6, 2, 2, 3, 1}));
  EXPECT_EQ(values(c3(x)),
            values(conv3d(x, c3.weight, {},
                          {.stride = {1, 2, 1}, .padding = {2, 1, 0}, .dilation = {2, 1, 1}, .groups = 2})));
  EXPECT_EQ(to_string(c3),
            "Conv3d(4, 6, kernel_size=(2, 3, 1), stride=(1, 2, 1), padding=(2, 1, 0), dilation=(2, 1, 1), groups=2, "
            "bias=False)");
  const Conv3d plain(4, 2, 3, 2, 1);
  EXPECT_EQ(values(plain(x)), values(conv3d(x, plain.weight, plain.bias, 2, 1)));

  const ConvTranspose3d t3(
      4, 6,
      {.kernel_size = {3, 2, 4}, .stride = {3, 2, 2}, .padding = {1, 0, 1}, .output_padding = {2, 1, 0}, .groups = 2});
  EXPECT_EQ(t3.weight.shape(), (Shape{4, 3, 3, 2, 4}));
  EXPECT_EQ(values(t3(x)), values(conv_transpose3d(
                               x, t3.weight, t3.bias,
                               {.stride = {3, 2, 2}, .padding = {1, 0, 1}, .output_padding = {2, 1, 0}, .groups = 2})));
  const ConvTranspose3d up(4, 2, 2, 2);
  EXPECT_EQ(up(x).shape(), (Shape{2, 2, 10, 12, 14}));
  EXPECT_EQ(up(x, {.output_size = {11, 0, 15}}).shape(), (Shape{2, 2, 11, 12, 15}));
  const Tensor one = x.select(0, 1);
  EXPECT_EQ(values(up(one)), values(up(x).select(0, 1).contiguous()));
}

TEST(Conv, CausalVolumesPadTimeInFront) {
  const Tensor x = Tensor::randn({1, 2, 4, 5, 6});
  const auto in_front = [&](const Conv3d& conv, std::int64_t front, std::int64_t sides, PadMode mode) {
    return conv3d(pad(x, {sides, sides, sides, sides, front, 0}, mode), conv.weight, conv.bias);
  };
  const Conv3d same(2, 3, {.kernel_size = 3, .padding = "same", .causal = true});
  EXPECT_TRUE(allclose(same(x), in_front(same, 2, 1, PadMode::kConstant)));
  EXPECT_EQ(to_string(same), "Conv3d(2, 3, kernel_size=(3, 3, 3), stride=(1, 1, 1), padding=same, causal=True)");
  const Conv3d odd(2, 3, {.kernel_size = {2, 3, 3}, .padding = kSame, .causal = true});
  EXPECT_TRUE(allclose(odd(x), in_front(odd, 1, 1, PadMode::kConstant)));
  const Conv3d odd_width(2, 3, {.kernel_size = {3, 1, 2}, .padding = kSame, .causal = true});
  EXPECT_TRUE(allclose(odd_width(x), conv3d(pad(x, {0, 1, 0, 0, 2, 0}), odd_width.weight, odd_width.bias)));
  const Conv3d replicated(2, 3, {.kernel_size = 3, .padding = 1, .padding_mode = "replicate", .causal = true});
  EXPECT_TRUE(allclose(replicated(x), in_front(replicated, 2, 1, PadMode::kReplicate)));
}

TEST(Conv, AnOutputSizeReplacesTheOutputPadding) {
  const ConvTranspose2d up(2, 3, {.kernel_size = 3, .stride = 2, .padding = 1, .output_padding = 1});
  const Tensor x = Tensor::randn({1, 2, 5, 6});
  EXPECT_EQ(up(x).shape(), (Shape{1, 3, 10, 12}));
  EXPECT_EQ(up(x, {.output_size = {9, 12}}).shape(), (Shape{1, 3, 9, 12}));
  const ConvTranspose1d line(2, 3, {.kernel_size = 3, .stride = 2, .padding = 1});
  EXPECT_EQ(line(Tensor::randn({1, 2, 5})).shape(), (Shape{1, 3, 9}));
  EXPECT_EQ(line(Tensor::randn({1, 2, 5}), {.output_size = 10}).shape(), (Shape{1, 3, 10}));
}

TEST(Conv, AnAxisWithoutAnOutputSizeKeepsItsOutputPadding) {
  const ConvTranspose2d up(2, 3, {.kernel_size = 3, .stride = {2, 3}, .padding = 1, .output_padding = {1, 2}});
  const Tensor x = Tensor::randn({1, 2, 5, 6});  // without output padding: 9 x 16
  const auto expected = [&](Size2 padding, Size2 size) {
    return conv_transpose2d(x, up.weight, up.bias,
                            {.stride = {2, 3}, .padding = 1, .output_padding = padding, .output_size = size});
  };
  struct Case {
    Size2 asked, padding;
    Shape shape;
  };
  for (const Case& c : {Case{{9, 0}, {0, 2}, {1, 3, 9, 18}}, Case{{10, 0}, {1, 2}, {1, 3, 10, 18}},
                        Case{{0, 16}, {1, 0}, {1, 3, 10, 16}}, Case{{0, 17}, {1, 1}, {1, 3, 10, 17}},
                        Case{{0, 0}, {1, 2}, {1, 3, 10, 18}}, Case{{9, 17}, {0, 1}, {1, 3, 9, 17}}}) {
    const Tensor y = up(x, {.output_size = c.asked});
    EXPECT_EQ(y.shape(), c.shape);
    EXPECT_EQ(values(y), values(expected(c.padding, 0)));
    EXPECT_EQ(values(up.activated(x, Activation::relu(), {.output_size = c.asked})), values(relu(y)));
  }
  EXPECT_ERROR(up(x, {.output_size = {11, 0}}), "conv_transpose2d:", "output_size");

  const ConvTranspose1d line(2, 3, {.kernel_size = 3, .stride = 3, .padding = 1, .output_padding = 1});
  const Tensor v = Tensor::randn({1, 2, 5});  // without output padding: 13
  for (const auto& [asked, length] : {std::pair{0, 14}, {13, 13}, {14, 14}, {15, 15}}) {
    EXPECT_EQ(line(v, {.output_size = asked}).size(-1), length);
    EXPECT_EQ(line.activated(v, Activation::tanh(), {.output_size = asked}).size(-1), length);
  }
}

TEST(Conv, ActivationsOutsideTheEnumerationAreErrors) {
  const Tensor line = Tensor::randn({2, 4, 6}), image = Tensor::randn({2, 4, 5, 6});
  constexpr int kEnd = static_cast<int>(ActivationKind::kEnd);
  for (const int kind : {kEnd, kEnd + 1, 255}) {
    const Activation none_such{static_cast<ActivationKind>(kind)};
    const std::string got = "the activation's kind must be one of the enumeration's; got " + std::to_string(kind);
    EXPECT_ERROR(Conv1d(4, 2, {.kernel_size = 3}).activated(line, none_such), "conv1d: ", got.c_str());
    EXPECT_ERROR(Conv2d(4, 2, {.kernel_size = 3}).activated(image, none_such), "conv2d: ", got.c_str());
    EXPECT_ERROR(ConvTranspose1d(4, 2, {.kernel_size = 3}).activated(line, none_such),
                 "conv_transpose1d: ", got.c_str());
    EXPECT_ERROR(ConvTranspose2d(4, 2, {.kernel_size = 3}).activated(image, none_such),
                 "conv_transpose2d: ", got.c_str());
    EXPECT_ERROR(activate(line, none_such), "activate: ", got.c_str());
  }
}

TEST(Conv, GradientsReachTheParameters) {
  ConvTranspose2d up(2, 3, {.kernel_size = 2, .stride = 2});
  Tape tape;
  tape.backward(up(Tensor::ones({1, 2, 2, 2})).sum());
  EXPECT_EQ(values(up.bias.grad()), (std::vector<float>{16, 16, 16}));
  EXPECT_EQ(values(up.weight.grad()), std::vector<float>(2 * 3 * 4, 4.0F));
}

TEST(Conv, PrintsTheOptionsThatAreNotDefaults) {
  EXPECT_EQ(to_string(ConvTranspose2d(4, 6,
                                      {.kernel_size = {3, 4},
                                       .stride = {3, 2},
                                       .padding = {1, 0},
                                       .output_padding = {2, 1},
                                       .dilation = {1, 2},
                                       .groups = 2,
                                       .bias = false})),
            "ConvTranspose2d(4, 6, kernel_size=(3, 4), stride=(3, 2), padding=(1, 0), dilation=(1, 2), "
            "output_padding=(2, 1), "
            "groups=2, bias=False)");
  EXPECT_EQ(to_string(Conv1d(1, 2, {.kernel_size = 3})), "Conv1d(1, 2, kernel_size=(3,), stride=(1,))");
}

TEST(Conv, BadOptionsAreErrors) {
  EXPECT_ERROR(ConvTranspose2d(2, 2, {.stride = 2}), "ConvTranspose2d: kernel_size must be at least 1; got (0, 0)");
  EXPECT_ERROR(Conv1d(2, 2, {.kernel_size = -1}), "Conv1d: kernel_size must be at least 1; got (-1,)");
  EXPECT_ERROR(Conv2d(0, 2, {.kernel_size = 1}), "Conv2d: in_channels must be at least 1; got 0");
  EXPECT_ERROR(Conv2d(2, -3, {.kernel_size = 1}), "Conv2d: out_channels must be at least 1; got -3");
  EXPECT_ERROR(Conv2d(2, 2, {.kernel_size = 1, .groups = 0}), "Conv2d: groups must be at least 1; got 0");
  EXPECT_ERROR(Conv2d(4, 6, {.kernel_size = 1, .groups = 4}),
               "Conv2d: groups must divide out_channels; got 4 groups, 6 channels");
  EXPECT_ERROR(ConvTranspose1d(3, 4, {.kernel_size = 1, .groups = 2}),
               "ConvTranspose1d: groups must divide in_channels; got 2");
  EXPECT_ERROR(Conv2d(2, 2, {.kernel_size = 1, .stride = {1, 0}}), "Conv2d: stride must be at least 1; got (1, 0)");
  EXPECT_ERROR(Conv2d(2, 2, {.kernel_size = 1, .padding = {-1, 0}}), "Conv2d: padding must be at least 0; got (-1, 0)");
  EXPECT_ERROR(Conv2d(2, 2, {.kernel_size = 1, .dilation = 0}), "Conv2d: dilation must be at least 1; got (0, 0)");
  EXPECT_ERROR(ConvTranspose2d(2, 2, {.kernel_size = 1, .output_padding = -1}),
               "ConvTranspose2d: output_padding must be at least 0");
  EXPECT_ERROR(ConvTranspose2d(2, 2, {.kernel_size = 1, .stride = {2, 3}, .output_padding = {1, 3}}),
               "ConvTranspose2d: output_padding must be below stride or below dilation; got output_padding (1, 3), "
               "stride (2, 3), "
               "dilation (1, 1)");
  EXPECT_NO_THROW(ConvTranspose2d(2, 2, {.kernel_size = 2, .stride = 1, .output_padding = 1, .dilation = 2}));
}

// ---- Initialisers.

struct Moments {
  double mean, deviation, low, high;
};

Moments moments(const Tensor& tensor) {
  const std::vector<double> v = tensor.to_vector<double>();
  Moments m{0, 0, v[0], v[0]};
  for (const double x : v) m.mean += x / static_cast<double>(v.size());
  for (const double x : v) m.deviation += (x - m.mean) * (x - m.mean) / static_cast<double>(v.size());
  m.deviation = std::sqrt(m.deviation);
  m.low = *std::min_element(v.begin(), v.end());
  m.high = *std::max_element(v.begin(), v.end());
  return m;
}

// Fills [-bound, bound], and nothing outside.
void expect_uniform(const Tensor& tensor, double bound) {
  const Moments m = moments(tensor);
  const double n = static_cast<double>(tensor.numel());
  EXPECT_LE(m.high, bound);
  EXPECT_GE(m.low, -bound);
  EXPECT_GT(m.high, bound * (1.0 - 12.0 / n));
  EXPECT_LT(m.low, -bound * (1.0 - 12.0 / n));
  EXPECT_NEAR(m.mean, 0.0, 4.0 * bound / std::sqrt(3.0 * n));
  EXPECT_NEAR(m.deviation, bound / std::sqrt(3.0), 4.0 * bound / std::sqrt(n));
}

void expect_normal(const Tensor& tensor, double deviation) {
  const Moments m = moments(tensor);
  const double n = static_cast<double>(tensor.numel());
  EXPECT_NEAR(m.mean, 0.0, 4.0 * deviation / std::sqrt(n));
  EXPECT_NEAR(m.deviation, deviation, 4.0 * deviation / std::sqrt(2.0 * n));
  EXPECT_GT(m.high, 2.5 * deviation);
}

TEST(Init, ConvolutionsStartFromPyTorchsDistributions) {
  manual_seed(1);
  // fan_in: input channels of a group times the taps.
  const Conv2d conv(64, 48, {.kernel_size = {3, 5}, .groups = 2});
  expect_uniform(conv.weight, 1.0 / std::sqrt(32.0 * 15.0));
  // PyTorch counts size(1), which of a transposed convolution is the output channels of a group.
  const ConvTranspose2d up(64, 4096, {.kernel_size = {2, 2}, .groups = 64});
  expect_uniform(up.weight, 1.0 / std::sqrt(64.0 * 4.0));
  expect_uniform(up.bias, 1.0 / std::sqrt(64.0 * 4.0));
  const ConvTranspose1d line(100, 30, {.kernel_size = 7});
  expect_uniform(line.weight, 1.0 / std::sqrt(30.0 * 7.0));
}

TEST(Init, DistributionsHaveTheirPapersWidths) {
  manual_seed(2);
  const Tensor t = Tensor::empty({60, 40, 3, 2});
  const double fan_in = 240, fan_out = 360;
  init::kaiming_uniform_(t, {.a = std::sqrt(5.0)});
  expect_uniform(t, 1.0 / std::sqrt(fan_in));
  init::kaiming_uniform_(t, {.mode = init::FanMode::kFanOut, .nonlinearity = init::Nonlinearity::kTanh});
  expect_uniform(t, 5.0 / 3.0 * std::sqrt(3.0 / fan_out));
  init::kaiming_normal_(t, {.nonlinearity = init::Nonlinearity::kReLU});
  expect_normal(t, std::sqrt(2.0 / fan_in));
  init::xavier_uniform_(t, {.gain = 2.0});
  expect_uniform(t, 2.0 * std::sqrt(6.0 / (fan_in + fan_out)));
  init::xavier_normal_(t);
  expect_normal(t, std::sqrt(2.0 / (fan_in + fan_out)));
  init::uniform_(t, -3.0, 3.0);
  expect_uniform(t, 3.0);
  init::normal_(t, 0.0, 0.5);
  expect_normal(t, 0.5);
}

TEST(Init, ConstantsFillWhateverIsRecording) {
  const Tensor t = Tensor::empty({3}, {.requires_grad = true});
  const Tape tape;
  init::constant_(t, 2.5);
  EXPECT_EQ(values(t), (std::vector<float>{2.5, 2.5, 2.5}));
  init::ones_(t);
  EXPECT_EQ(values(t), (std::vector<float>{1, 1, 1}));
  init::zeros_(t);
  EXPECT_EQ(values(t), (std::vector<float>{0, 0, 0}));
}

TEST(Init, GainsArePyTorchs) {
  EXPECT_EQ(init::calculate_gain(init::Nonlinearity::kLinear), 1.0);
  EXPECT_EQ(init::calculate_gain(init::Nonlinearity::kSigmoid), 1.0);
  EXPECT_EQ(init::calculate_gain(init::Nonlinearity::kSELU), 0.75);
  EXPECT_NEAR(init::calculate_gain(init::Nonlinearity::kLeakyReLU, 0.2), 1.3867504905630728, 1e-15);
}

TEST(Init, TheBilinearFilterInterpolates) {
  ConvTranspose2d up(2, 2, {.kernel_size = 4, .stride = 2, .padding = 1, .bias = false});
  init::bilinear_(up.weight);
  Tensor x = Tensor::zeros({1, 2, 4, 4});
  Tensor ramp = x.view_as({4, 4}, {4, 1}, 0);  // channel 0: 0, 1, 2, 3 along the width; channel 1: zeros
  ramp.copy_(Tensor::arange(0.0, 4));
  const Tensor y = up(x);
  const std::vector<float> all = values(y);
  // Half-pixel linear interpolation, away from the borders.
  const std::vector<float> row(all.begin() + 3 * 8 + 1, all.begin() + 3 * 8 + 7);
  EXPECT_EQ(row, (std::vector<float>{0.25, 0.75, 1.25, 1.75, 2.25, 2.75}));
  EXPECT_TRUE(std::all_of(all.begin() + 64, all.end(), [](float v) { return v == 0.0F; }));

  const Tensor odd = Tensor::empty({3, 1, 3});  // depthwise, in one dimension
  init::bilinear_(odd);
  EXPECT_EQ(values(odd), (std::vector<float>{0.5, 1, 0.5, 0.5, 1, 0.5, 0.5, 1, 0.5}));
  EXPECT_ERROR(init::bilinear_(Tensor::zeros({3, 2, 3})), "bilinear_: the second extent must divide the first",
               "(3, 2, 3)");
  EXPECT_ERROR(init::bilinear_(Tensor::zeros({3, 2})), "bilinear_: the tensor must be a convolution's weight");
}

TEST(Init, FewerThanTwoAxesHaveNoFan) {
  EXPECT_ERROR(init::kaiming_uniform_(Tensor::zeros({3})),
               "kaiming_uniform_: the tensor must have at least two axes; got shape (3,)");
  EXPECT_ERROR(init::kaiming_normal_(Tensor::zeros({3})), "kaiming_normal_: the tensor must");
  EXPECT_ERROR(init::xavier_uniform_(Tensor::zeros({})), "xavier_uniform_: the tensor must");
  EXPECT_ERROR(init::xavier_normal_(Tensor{}), "xavier_normal_: tensor must be defined");
  EXPECT_NO_THROW(init::kaiming_uniform_(Tensor::zeros({3, 0})));
}

TEST(Init, ErrorsNameTheInitialiser) {
  const Tensor integers = Tensor::zeros({2, 2}, {.dtype = kInt32}), none;
  EXPECT_ERROR(init::constant_(none, 1.0), "constant_: tensor must be defined");
  EXPECT_ERROR(init::zeros_(none), "zeros_: tensor must be defined");
  EXPECT_ERROR(init::ones_(none), "ones_: tensor must be defined");
  EXPECT_ERROR(init::default_(none), "default_: tensor must be defined");
  EXPECT_ERROR(init::default_(integers), "default_: the tensor must be floating point; got int32");
  EXPECT_ERROR(init::default_(Tensor::zeros({2, 2}), integers), "default_: the tensor must be floating point");
  EXPECT_ERROR(init::kaiming_uniform_(integers), "kaiming_uniform_: the tensor must be floating point; got int32");
  EXPECT_ERROR(init::kaiming_normal_(integers), "kaiming_normal_: the tensor must be floating point");
  EXPECT_ERROR(init::xavier_uniform_(integers), "xavier_uniform_: the tensor must be floating point");
  EXPECT_ERROR(init::xavier_normal_(integers), "xavier_normal_: the tensor must be floating point");
  EXPECT_ERROR(init::bilinear_(Tensor::zeros({2, 2, 2}, {.dtype = kInt64})), "bilinear_: the tensor must be floating");
  const Tensor t = Tensor::zeros({2, 2});
  const auto mode = static_cast<init::FanMode>(7);
  EXPECT_ERROR(init::kaiming_uniform_(t, {.mode = mode}), "kaiming_uniform_: the mode must be one of", "got 7");
  EXPECT_ERROR(init::kaiming_normal_(t, {.mode = mode}), "kaiming_normal_: the mode must be one of", "got 7");
  const auto nonlinearity = static_cast<init::Nonlinearity>(6);
  EXPECT_ERROR(init::kaiming_normal_(t, {.nonlinearity = nonlinearity}),
               "kaiming_normal_: the nonlinearity must be one of the enumeration's; got 6");
  EXPECT_ERROR(init::calculate_gain(nonlinearity), "calculate_gain: the nonlinearity must be one of");
  EXPECT_EQ(values(t), (std::vector<float>{0, 0, 0, 0}));
}

// ---- Linear.

TEST(Linear, IsAnAffineMapOfTheLastAxis) {
  Linear linear(3, 2);
  EXPECT_EQ(linear.weight.shape(), (Shape{2, 3}));
  linear.weight.copy_(Tensor::from_vector<float>({1, 2, 3, -1, 0, 1}, {2, 3}));
  linear.bias.copy_(Tensor::from_vector<float>({10, 20}, {2}));
  const Tensor x = Tensor::from_vector<float>({1, 1, 1, 2, 0, -1}, {2, 3});
  EXPECT_EQ(values(linear(x)), (std::vector<float>{16, 20, 9, 17}));
  EXPECT_EQ(linear(x.reshape({2, 1, 3})).shape(), (Shape{2, 1, 2}));
  EXPECT_EQ(values(linear(x.select(0, 0))), (std::vector<float>{16, 20}));
  Tape tape;
  tape.backward(linear(x).sum());
  EXPECT_EQ(values(linear.weight.grad()), (std::vector<float>{3, 1, 0, 3, 1, 0}));
  EXPECT_EQ(values(linear.bias.grad()), (std::vector<float>{2, 2}));
}

TEST(Linear, StartsFromPyTorchsDistributionAndChecksItsFeatures) {
  manual_seed(4);
  const Linear linear(300, 200, {.bias = false});
  expect_uniform(linear.weight, 1.0 / std::sqrt(300.0));
  EXPECT_FALSE(linear.bias.defined());
  EXPECT_EQ(to_string(linear), "Linear(in_features=300, out_features=200, bias=False)");
  EXPECT_ERROR(linear(Tensor::zeros({2, 3})),
               "Linear: input's last axis must have in_features; got input (2, 3), weight (200, 300)");
  EXPECT_ERROR(linear(Tensor::zeros({})), "Linear: input's last axis");
  EXPECT_ERROR(linear(Tensor{}), "Linear: input must be defined");
  EXPECT_ERROR(linear(Tensor::zeros({2, 300}, {.dtype = kFloat64})),
               "Linear: input and weight must share a dtype; got input float64, weight float32");
  Linear odd(2, 3);
  odd.bias = Tensor::zeros({2});
  EXPECT_ERROR(odd(Tensor::zeros({2})), "Linear: bias must have out_features elements, and weight's dtype and device; ",
               "got float32 (2,) on cpu, weight float32 (3, 2) on cpu");
  odd.bias = Tensor::zeros({3}, {.dtype = kFloat64});
  EXPECT_ERROR(odd(Tensor::zeros({2})), "Linear: bias must have out_features", "got float64 (3,)");
  odd.weight = Tensor::zeros({3});
  EXPECT_ERROR(odd(Tensor::zeros({2})), "Linear: weight must have two axes, (out_features, in_features); got (3,)");
  EXPECT_ERROR(Linear(0, 3), "Linear: in_features and out_features must be at least 1; got 0, 3");
}

// ---- Activations.

TEST(Activation, ModulesCallTheirFunctions) {
  const Tensor x = Tensor::from_vector<float>({-2, -0.5, 0, 3}, {2, 2});
  EXPECT_EQ(values(ReLU()(x)), (std::vector<float>{0, 0, 0, 3}));
  EXPECT_EQ(values(LeakyReLU({.negative_slope = 0.5})(x)), (std::vector<float>{-1, -0.25, 0, 3}));
  EXPECT_EQ(values(PReLU()(x)), (std::vector<float>{-0.5, -0.125, 0, 3}));
  EXPECT_EQ(values(PReLU({.num_parameters = 2, .init = 2.0})(x)), (std::vector<float>{-4, -1, 0, 3}));
  EXPECT_EQ(values(Identity()(x)), values(x));
  EXPECT_EQ(values(Sigmoid()(x)), values(sigmoid(x)));
  EXPECT_EQ(values(Tanh()(x)), values(tanh(x)));
  EXPECT_EQ(values(SiLU()(x)), values(silu(x)));
  EXPECT_EQ(Flatten()(Tensor::zeros({2, 3, 4})).shape(), (Shape{2, 12}));
  EXPECT_EQ(Flatten({.start_dim = 0, .end_dim = 1})(Tensor::zeros({2, 3, 4})).shape(), (Shape{6, 4}));
  const PixelShuffle shuffle(2);
  EXPECT_EQ(values(shuffle(x.reshape({1, 4, 1, 1}))), values(x));
  EXPECT_EQ(shuffle(Tensor::zeros({1, 8, 3, 5})).shape(), (Shape{1, 2, 6, 10}));
  EXPECT_EQ(to_string(shuffle), "PixelShuffle(upscale_factor=2)");
  EXPECT_ERROR(PixelShuffle(0), "PixelShuffle: upscale_factor must be at least 1; got 0");
  EXPECT_EQ(to_string(LeakyReLU()), "LeakyReLU(negative_slope=0.01)");
  EXPECT_EQ(to_string(Flatten()), "Flatten(start_dim=1, end_dim=-1)");
  EXPECT_ERROR(PReLU({.num_parameters = 0}), "PReLU: num_parameters must be at least 1; got 0");
}

TEST(Dropout, ZeroesAndRescalesInTrainingAlone) {
  manual_seed(3);
  Dropout drop({.p = 0.25});
  const Tensor x = Tensor::ones({10000});
  const std::vector<float> y = values(drop(x));
  const auto zeros = std::count(y.begin(), y.end(), 0.0F);
  EXPECT_NEAR(static_cast<double>(zeros), 2500.0, 4.0 * std::sqrt(10000 * 0.25 * 0.75));
  EXPECT_EQ(std::count(y.begin(), y.end(), static_cast<float>(1.0 / 0.75)), 10000 - zeros);
  drop.eval();
  EXPECT_EQ(values(drop(x)), values(x));
  EXPECT_EQ(values(Dropout({.p = 1.0})(x)), std::vector<float>(10000, 0.0F));
  EXPECT_ERROR(Dropout({.p = 1.5}), "Dropout: p must be between 0 and 1; got 1.5");
  EXPECT_EQ(to_string(drop), "Dropout(p=0.25)");
}

TEST(Dropout, TheGradientPassesWhereTheElementDid) {
  const Dropout drop({.p = 0.5});
  const Tensor x = Tensor::ones({64}, {.requires_grad = true});
  Tape tape;
  const Tensor y = drop(x);
  const std::vector<float> kept = values(y);
  tape.backward(y.sum());
  EXPECT_EQ(values(x.grad()), kept);
}

void expect_selection(const Dropout& drop, Device device) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> infinite(64, kInfinity);
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const TensorOptions options{.dtype = dtype, .device = device, .requires_grad = true};
    const Tensor x = Tensor::full({64}, kInfinity, options), seed = Tensor::full({64}, -kInfinity, options);
    Tape tape;
    const Tensor y = drop(x);
    const std::vector<float> kept = values(y);
    EXPECT_TRUE(std::all_of(kept.begin(), kept.end(), [](float v) { return v == 0.0F || v == kInfinity; }));
    std::vector<float> negated;
    for (const float value : kept) negated.push_back(value == 0.0F ? 0.0F : -value);
    const Tensor first = tape.gradient(y, {x}, {.record = true, .grad_output = seed})[0];
    EXPECT_EQ(values(first), negated);
    EXPECT_EQ(values(tape.gradient(first, {seed}, {.grad_output = x.detach()})[0]), kept);
  }
}

TEST(Dropout, SelectsRatherThanMultiplies) {
  expect_selection(Dropout({.p = 0.5}), kCPU);
  expect_selection(Dropout({.p = 1.0}), kCPU);
  EXPECT_EQ(values(Dropout({.p = 1.0})(Tensor::full({3}, std::nan("")))), std::vector<float>(3, 0.0F));
}

TEST(Dropout, SelectsRatherThanMultipliesCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  expect_selection(Dropout({.p = 0.5}), kCUDA);
  expect_selection(Dropout({.p = 1.0}), kCUDA);
}

TEST(Dropout, RoundsHalvesOnce) {
  // 3 / 0.9 is 3.328125 in bfloat16; 1 / 0.9 rounded there, times 3, is 3.34375.
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const double value : {3.0, 7.0, 11.0, 1.015625}) {
      const Tensor x = Tensor::full({64}, value, {.dtype = dtype, .requires_grad = true});
      const float expected =
          Tensor::full({1}, static_cast<float>(value) * (1.0F / 0.9F), {.dtype = dtype}).item<float>();
      Tape tape;
      const Tensor y = Dropout({.p = 0.1})(x);
      for (const float of : values(y)) EXPECT_TRUE(of == 0.0F || of == expected) << of << " for " << expected;
      for (const float of : values(tape.gradient(y, {x}, {.grad_output = x.detach()})[0])) {
        EXPECT_TRUE(of == 0.0F || of == expected) << of << " for " << expected;
      }
    }
  }
}

}  // namespace
}  // namespace adjoint::nn
