// Calls that must be refused: the message in full, and nothing changed by the attempt.

#include <adjoint/ops/conv/conv.h>
#include <adjoint/ops/conv/trio.h>

#include <adjoint/tests/support/conv_refusal.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace adjoint::testing {
namespace {

using ConvBadInput = ConvRefusal;
using ConvBadInputCuda = ConvRefusal;

// ---- Ranks, dtypes.

TEST_F(ConvBadInput, Undefined) {
  refuses([&] { return conv_transpose2d({}, weight_); }, "conv_transpose2d: input must be defined; got Tensor{}");
  refuses([&] { return conv1d(input_, {}); }, "conv1d: weight must be defined; got Tensor{}");
}

TEST_F(ConvBadInput, Ranks) {
  refuses(
      [&] {
        return conv_transpose2d(Tensor::ones({8, 8}), weight_);
      },
      "conv_transpose2d: input must have 4 axes, or 3 without the batch; got input (8, 8), weight (4, 6, 3, 3); pass "
      "input as (N, C, H, W) or (C, H, W)");
  refuses(
      [&] {
        return conv_transpose1d(input_, Tensor::ones({4, 6, 3}));
      },
      "conv_transpose1d: input must have 3 axes, or 2 without the batch; got input (2, 4, 8, 8), weight (4, 6, 3); "
      "pass input as (N, C, L) or (C, L)");
  refuses(
      [&] {
        return conv_transpose2d(input_, Tensor::ones({4, 6, 3}));
      },
      "conv_transpose2d: weight must have 4 axes; got input (2, 4, 8, 8), weight (4, 6, 3); pass weight as (C, O / "
      "groups, kh, kw)");
  refuses(
      [&] {
        return conv1d(Tensor::ones({2, 4, 8}), Tensor::scalar(1.0));
      },
      "conv1d: weight must have 3 axes; got input (2, 4, 8), weight (); pass weight as (O, C / groups, k)");
  refuses(
      [&] {
        return conv_transpose2d(input_, weight_, Tensor::ones({1, 6}));
      },
      "conv_transpose2d: bias must have 1 axis; got input (2, 4, 8, 8), weight (4, 6, 3, 3), bias (1, 6); pass one "
      "value for each output channel, or Tensor{} for no bias");
}

TEST_F(ConvBadInput, DTypes) {
  refuses(
      [&] {
        return conv_transpose2d(input_, Tensor::ones({4, 6, 3, 3}, {.dtype = kFloat64}));
      },
      "conv_transpose2d: weight and input must have one dtype; got input (2, 4, 8, 8) of float32, weight (4, 6, 3, 3) "
      "of float64; convert one with .to(dtype)");
  refuses(
      [&] { return conv_transpose2d(input_, weight_, Tensor::ones({6}, {.dtype = kFloat16})); },
      "conv_transpose2d: bias and input must have one dtype; got input (2, 4, 8, 8) of float32, bias (6,) of float16; "
      "convert one with .to(dtype)");
  const TensorOptions integers{.dtype = kInt32};
  refuses(
      [&] {
        return conv2d(Tensor::ones({1, 4, 8, 8}, integers), Tensor::ones({6, 4, 3, 3}, integers));
      },
      "conv2d: input must be of a floating-point dtype; got input (1, 4, 8, 8), weight (6, 4, 3, 3) of int32; convert "
      "it with .to(dtype)");
}

TEST_F(ConvBadInputCuda, MixedDevices) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  refuses(
      [&] { return conv_transpose2d(input_.detach().to(kCUDA), weight_); },
      "conv_transpose2d: weight and input must be on one device; got input (2, 4, 8, 8) on cuda:0, weight (4, 6, 3, 3) "
      "on cpu; move one with .to(device)");
  refuses([&] { return conv_transpose2d(input_, weight_, bias_.to(kCUDA)); },
          "conv_transpose2d: bias and input must be on one device; got input (2, 4, 8, 8) on cpu, bias (6,) on cuda:0; "
          "move one with .to(device)");
}

// ---- Attributes.

TEST_F(ConvBadInput, StridePaddingDilation) {
  const std::string shapes = "for input (2, 4, 8, 8), weight (4, 6, 3, 3)";
  refuses(
      [&] {
        return conv_transpose2d(input_, weight_, {}, {.stride = {0, 1}});
      },
      "conv_transpose2d: stride must be at least 1; got stride (0, 1) " + shapes + "; pass 1 or more");
  refuses([&] { return conv_transpose2d(input_, weight_, {}, {.stride = -2}); },
          "conv_transpose2d: stride must be at least 1; got stride (-2, -2) " + shapes + "; pass 1 or more");
  refuses(
      [&] {
        return conv_transpose2d(input_, weight_, {}, {.padding = {0, -1}});
      },
      "conv_transpose2d: padding must be at least 0; got padding (0, -1) " + shapes + "; pass 0 or more");
  refuses(
      [&] {
        return conv_transpose2d(input_, weight_, {}, {.dilation = {1, 0}});
      },
      "conv_transpose2d: dilation must be at least 1; got dilation (1, 0) " + shapes + "; pass 1 or more");
  refuses([&] { return conv_transpose2d(input_, weight_, {}, {.dilation = -3}); },
          "conv_transpose2d: dilation must be at least 1; got dilation (-3, -3) " + shapes + "; pass 1 or more");
  refuses(
      [&] {
        return conv_transpose2d(input_, weight_, {}, {.output_padding = {-1, 0}});
      },
      "conv_transpose2d: output_padding must be at least 0; got output_padding (-1, 0) " + shapes + "; pass 0 or more");
  const Tensor row = Tensor::ones({1, 4, 8}), filter = Tensor::ones({4, 4, 3});
  refuses([&] { return conv1d(row, filter, {}, {.stride = 0}); },
          "conv1d: stride must be at least 1; got stride 0 for input (1, 4, 8), weight (4, 4, 3); pass 1 or more");
  refuses(
      [&] { return conv_transpose1d(row, filter, {}, {.dilation = 0}); },
      "conv_transpose1d: dilation must be at least 1; got dilation 0 for input (1, 4, 8), weight (4, 4, 3); pass 1 or "
      "more");
  refuses(
      [&] { return conv_transpose1d(row, filter, {}, {.stride = (std::int64_t{1} << 40) + 1}); },
      "conv_transpose1d: stride must be at most 2^40; got stride 1099511627777 for input (1, 4, 8), weight (4, 4, 3); "
      "pass less");
}

TEST_F(ConvBadInput, OutputPadding) {
  const std::string shapes = "for input (2, 4, 8, 8), weight (4, 6, 3, 3)";
  refuses(
      [&] {
        return conv_transpose2d(input_, weight_, {}, {.stride = 2, .output_padding = {1, 2}});
      },
      "conv_transpose2d: output_padding must be below stride or below dilation; got output_padding (1, 2), stride (2, "
      "2), dilation (1, 1) " +
          shapes + "; pass at most 1 for the width");
  refuses(
      [&] {
        return conv_transpose2d(input_, weight_, {}, {.output_padding = {3, 0}, .dilation = {3, 1}});
      },
      "conv_transpose2d: output_padding must be below stride or below dilation; got output_padding (3, 0), stride (1, "
      "1), dilation (3, 1) " +
          shapes + "; pass at most 2 for the height");
  refuses(
      [&] {
        return conv_transpose1d(Tensor::ones({4, 8}), Tensor::ones({4, 4, 3}), {}, {.output_padding = 1});
      },
      "conv_transpose1d: output_padding must be below stride or below dilation; got output_padding 1, stride 1, "
      "dilation 1 for input (4, 8), weight (4, 4, 3); pass at most 0 for the length");
}

TEST_F(ConvBadInput, OutputSize) {
  const std::string got =
      "got input (2, 4, 8, 8), weight (4, 6, 3, 3), stride (2, 3), padding (1, 0), dilation (1, 1), groups 1, "
      "output_padding (0, 0), output_size ";
  const auto call = [&](Size2 size) {
    return [=, this] {
      return conv_transpose2d(input_, weight_, {}, {.stride = {2, 3}, .padding = {1, 0}, .output_size = size});
    };
  };
  refuses(call({17, 24}), "conv_transpose2d: output_size's height must be in [15, 16]; " + got +
                              "(17, 24); other sizes need another stride, padding or kernel");
  refuses(call({15, 23}), "conv_transpose2d: output_size's width must be in [24, 26]; " + got +
                              "(15, 23); other sizes need another stride, padding or kernel");
  refuses(
      call({15, -1}),
      "conv_transpose2d: output_size must be positive, or 0 for none; got output_size (15, -1) for input (2, 4, 8, 8), "
      "weight (4, 6, 3, 3); leave it out to use output_padding");
  for (const std::int64_t height : {15, 16}) {
    for (const std::int64_t width : {24, 25, 26})
      EXPECT_EQ(call({height, width})().shape(), (Shape{2, 6, height, width}));
  }
}

TEST_F(ConvBadInput, Volumes) {
  const Tensor volume = Tensor::ones({2, 4, 3, 8, 8}), filter = Tensor::ones({4, 6, 2, 3, 3});
  const std::string shapes = "input (2, 4, 3, 8, 8), weight (4, 6, 2, 3, 3)";
  refuses(
      [&] {
        return conv3d(Tensor::ones({8, 8}), filter);
      },
      "conv3d: input must have 5 axes, or 4 without the batch; got input (8, 8), weight (4, 6, 2, 3, 3); pass input "
      "as (N, C, D, H, W) or (C, D, H, W)");
  refuses([&] { return conv_transpose3d(volume, weight_); },
          "conv_transpose3d: weight must have 5 axes; got input (2, 4, 3, 8, 8), weight (4, 6, 3, 3); pass weight as "
          "(C, O / groups, kd, kh, kw)");
  refuses(
      [&] {
        return conv_transpose3d(volume, filter, {}, {.stride = {0, 1, 1}});
      },
      "conv_transpose3d: stride must be at least 1; got stride (0, 1, 1) for " + shapes + "; pass 1 or more");
  refuses(
      [&] {
        return conv_transpose3d(volume, filter, {}, {.stride = {2, 2, 2}, .output_padding = {2, 0, 0}});
      },
      "conv_transpose3d: output_padding must be below stride or below dilation; got output_padding (2, 0, 0), stride "
      "(2, 2, 2), dilation (1, 1, 1) for " +
          shapes + "; pass at most 1 for the depth");
  refuses(
      [&] {
        return conv3d(volume, Tensor::ones({6, 4, 5, 3, 3}));
      },
      "conv3d: the dilated kernel must not be longer than the padded input; got 5 against 3 in depth for input (2, 4, "
      "3, 8, 8), weight (6, 4, 5, 3, 3), stride (1, 1, 1), padding (0, 0, 0), dilation (1, 1, 1), groups 1; use a "
      "smaller kernel or dilation, or more padding");
  refuses(
      [&] {
        return conv_transpose3d(volume, filter, {}, {.stride = 2, .output_size = {9, 17, 17}});
      },
      "conv_transpose3d: output_size's depth must be in [6, 7]; got " + shapes +
          ", stride (2, 2, 2), padding (0, 0, 0), dilation (1, 1, 1), groups 1, output_padding (0, 0, 0), output_size "
          "(9, 17, 17); other sizes need another stride, padding or kernel");
  refuses(
      [&] {
        return conv3d(Tensor::ones({2, 4, 0, 8, 8}), Tensor::ones({6, 4, 1, 3, 3}));
      },
      "conv3d: input's depth must be at least 1; got input (2, 4, 0, 8, 8), weight (6, 4, 1, 3, 3); only the batch "
      "may be empty");
  const std::int64_t beyond = (std::int64_t{1} << 39) + 1;
  refuses(
      [&] {
        return conv3d(volume, Tensor::ones({6, 4, 1, 3, 3}), {}, {.padding = {beyond, 0, 0}, .causal = true});
      },
      "conv3d: causal padding must be at most 2^39; got padding (549755813889, 0, 0) for input (2, 4, 3, 8, 8), weight "
      "(6, 4, 1, 3, 3); pass less");
}

// ---- Channels and groups.

TEST_F(ConvBadInput, Groups) {
  refuses([&] { return conv_transpose2d(input_, weight_, bias_, {.groups = 0}); },
          "conv_transpose2d: groups must be at least 1; got groups 0 for input (2, 4, 8, 8), weight (4, 6, 3, 3), bias "
          "(6,); pass 1 for an ordinary convolution");
  refuses(
      [&] { return conv_transpose2d(input_, weight_, {}, {.groups = -1}); },
      "conv_transpose2d: groups must be at least 1; got groups -1 for input (2, 4, 8, 8), weight (4, 6, 3, 3); pass 1 "
      "for an ordinary convolution");
  refuses(
      [&] { return conv_transpose2d(input_, weight_, {}, {.groups = 3}); },
      "conv_transpose2d: groups must divide input's channels; got groups 3 for input (2, 4, 8, 8), weight (4, 6, 3, "
      "3); pass a divisor of 4");
  refuses(
      [&] {
        return conv2d(input_, Tensor::ones({7, 2, 3, 3}), {}, {.groups = 2});
      },
      "conv2d: groups must divide weight's first axis; got groups 2 for input (2, 4, 8, 8), weight (7, 2, 3, 3); pass "
      "a divisor of 7");
}

TEST_F(ConvBadInput, Channels) {
  refuses(
      [&] {
        return conv_transpose2d(Tensor::ones({2, 3, 8, 8}), weight_);
      },
      "conv_transpose2d: input's axis 1 must have the 4 channels that weight is for; got 3 channels, input (2, 3, 8, 8), "
      "weight (4, 6, 3, 3); pass another input or weight");
  refuses(
      [&] {
        return conv2d(input_, Tensor::ones({6, 3, 3, 3}), {}, {.groups = 2});
      },
      "conv2d: input's axis 1 must have the 6 channels that weight is for; got 4 channels, input (2, 4, 8, 8), weight "
      "(6, 3, 3, 3) in 2 groups; pass another input or weight");
  refuses(
      [&] {
        return conv_transpose2d(input_, Tensor::ones({4, 3, 3, 3}), Tensor::ones({3}), {.groups = 2});
      },
      "conv_transpose2d: bias must have one value for each output channel; got groups 2 for input (2, 4, 8, 8), weight "
      "(4, 3, 3, 3), bias (3,); pass 6 values");
}

TEST_F(ConvBadInput, EmptyAxes) {
  const std::string empty_weight = "; an empty weight has no result";
  refuses(
      [&] {
        return conv_transpose2d(input_, Tensor::ones({4, 6, 0, 3}));
      },
      "conv_transpose2d: weight's channels and kernel size must be at least 1; got input (2, 4, 8, 8), weight (4, 6, "
      "0, 3)" +
          empty_weight);
  refuses(
      [&] {
        return conv_transpose2d(input_, Tensor::ones({4, 0, 3, 3}));
      },
      "conv_transpose2d: weight's channels and kernel size must be at least 1; got input (2, 4, 8, 8), weight (4, 0, "
      "3, 3)" +
          empty_weight);
  refuses(
      [&] {
        return conv_transpose2d(Tensor::ones({2, 0, 8, 8}), Tensor::ones({0, 6, 3, 3}));
      },
      "conv_transpose2d: input's channels must be at least 1; got input (2, 0, 8, 8), weight (0, 6, 3, 3); only the "
      "batch may be empty");
  refuses(
      [&] {
        return conv2d(Tensor::ones({2, 4, 0, 8}), Tensor::ones({6, 4, 3, 3}), {}, {.padding = 4});
      },
      "conv2d: input's height must be at least 1; got input (2, 4, 0, 8), weight (6, 4, 3, 3); only the batch may be "
      "empty");
  refuses(
      [&] {
        return conv2d(Tensor::ones({4, 8, 0}), Tensor::ones({6, 4, 3, 3}));
      },
      "conv2d: input's width must be at least 1; got input (4, 8, 0), weight (6, 4, 3, 3); only the batch may be "
      "empty");
  refuses(
      [&] {
        return conv_transpose1d(Tensor::ones({4, 0}), Tensor::ones({4, 4, 3}));
      },
      "conv_transpose1d: input's length must be at least 1; got input (4, 0), weight (4, 4, 3); only the batch may be "
      "empty");
}

// ---- Extents.

TEST_F(ConvBadInput, ResultTooSmall) {
  refuses(
      [&] {
        return conv_transpose2d(Tensor::ones({0, 4, 2, 8}), weight_, {}, {.padding = {2, 1}});
      },
      "conv_transpose2d: the result's height must be at least 1, and would be 0; got input (0, 4, 2, 8), weight (4, 6, "
      "3, 3), stride (1, 1), padding (2, 1), dilation (1, 1), groups 1, output_padding (0, 0); use less padding, a "
      "larger kernel or more output_padding");
  refuses(
      [&] {
        return conv2d(input_, Tensor::ones({6, 4, 3, 9}));
      },
      "conv2d: the dilated kernel must not be longer than the padded input; got 9 against 8 in width for input (2, 4, "
      "8, 8), weight (6, 4, 3, 9), stride (1, 1), padding (0, 0), dilation (1, 1), groups 1; use a smaller kernel or "
      "dilation, or more padding");
  refuses(
      [&] {
        return conv1d(Tensor::ones({1, 4, 5}), Tensor::ones({6, 4, 3}), {}, {.stride = 7, .padding = 1, .dilation = 4});
      },
      "conv1d: the dilated kernel must not be longer than the padded input; got 9 against 7 in length for input (1, 4, "
      "5), weight (6, 4, 3), stride 7, padding 1, dilation 4, groups 1; use a smaller kernel or dilation, or more "
      "padding");
}

TEST_F(ConvBadInput, Overflow) {
  const std::string remedy = "; pass smaller extents or attributes";
  constexpr std::int64_t kStep = std::int64_t{1} << 40;
  refuses(
      [&] {
        return conv_transpose1d(wide({1, 1, 1 << 24}), wide({1, 1, 1}), {}, {.stride = kStep});
      },
      "conv_transpose1d: the result's extents must fit in 63 bits; got input (1, 1, 16777216), weight (1, 1, 1), "
      "stride 1099511627776, padding 0, dilation 1, groups 1, output_padding 0" +
          remedy);
  refuses(
      [&] {
        return conv_transpose1d(wide({1, 1, 1}), wide({1, 1, 1 << 24}), {}, {.dilation = kStep});
      },
      "conv_transpose1d: the result's extents must fit in 63 bits; got input (1, 1, 1), weight (1, 1, 16777216), "
      "stride 1, padding 0, dilation 1099511627776, groups 1, output_padding 0" +
          remedy);
  refuses(
      [&] {
        return conv1d(wide({1, 1, 1}), wide({1, 1, 1 << 24}), {}, {.dilation = kStep});
      },
      "conv1d: the dilated kernel must fit in 63 bits; got input (1, 1, 1), weight (1, 1, 16777216), stride 1, padding "
      "0, dilation 1099511627776, groups 1" +
          remedy);
  refuses(
      [&] {
        return conv1d(Tensor::empty({0, 1, kMax}), wide({1, 1, 1}), {}, {.padding = 1});
      },
      "conv1d: the padded input must fit in 63 bits; got input (0, 1, 9223372036854775807), weight (1, 1, 1), stride "
      "1, padding 1, dilation 1, groups 1" +
          remedy);
  refuses(
      [&] {
        return conv_transpose2d(wide({1, 1, 4097, 4097}), wide({1, 1, 1, 1}), {}, {.stride = 1 << 20});
      },
      "conv_transpose2d: the bytes of input and result must fit in 63 bits; got input (1, 1, 4097, 4097), weight (1, "
      "1, 1, 1), stride (1048576, 1048576), padding (0, 0), dilation (1, 1), groups 1, output_padding (0, 0)" +
          remedy);
}

TEST_F(ConvBadInput, OutOfMemory) {
  // 2^60 floats.
  const auto call = [] {
    return conv_transpose1d(wide({1, 1, (1 << 20) + 1}), wide({1, 1, 1}), {}, {.stride = std::int64_t{1} << 40});
  };
  refuses<OutOfMemoryError>(
      call,
      "conv_transpose1d: the result must fit in memory; got input (1, 1, 1048577), weight (1, 1, 1), stride "
      "1099511627776, padding 0, dilation 1, groups 1, output_padding 0; out of memory on cpu; asked for "
      "4611686018427387908 bytes, holding ");
  expect_values("the next call", conv_transpose1d(wide({1, 1, 2}), wide({1, 1, 1})), {4, 4});
}

TEST_F(ConvBadInputCuda, OutOfMemory) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const auto wide_cuda = [](const Shape& shape) { return Tensor::full({}, 2.0, {.device = kCUDA}).expand(shape); };
  refuses<OutOfMemoryError>(
      [&] {
        return conv_transpose1d(wide_cuda({1, 1, (1 << 20) + 1}), wide_cuda({1, 1, 1}), {},
                                {.stride = std::int64_t{1} << 40});
      },
      "conv_transpose1d: the result must fit in memory; got input (1, 1, 1048577), weight (1, 1, 1), stride "
      "1099511627776, padding 0, dilation 1, groups 1, output_padding 0; out of memory on cuda:0; asked for "
      "4611686018427387908 bytes, holding ");
  expect_values("the next call", conv_transpose1d(wide_cuda({1, 1, 2}), wide_cuda({1, 1, 1})), {4, 4});
}

// ---- The trio's own checks.

TEST_F(ConvBadInput, TrioOperands) {
  const ConvGeometry g{.rank = 1,
                       .batch = 2,
                       .image_channels = 3,
                       .feature_channels = 4,
                       .image = {1, 6},
                       .feature = {1, 5},
                       .kernel = {1, 2}};
  const Tensor image = Tensor::ones({2, 3, 6}), feature = Tensor::ones({2, 4, 5}), filter = Tensor::ones({4, 3, 2});
  refuses([&] { return conv(feature, filter, {}, g); },
          "conv: image must have the geometry's shape (2, 3, 6); got (2, 4, 5); pass the operand that it describes");
  refuses([&] { return conv_transpose(feature, image, {}, g); },
          "conv_transpose: filter must have the geometry's shape (4, 3, 2); got (2, 3, 6); pass the operand that it "
          "describes");
  refuses([&] { return conv_transpose(feature, filter, Tensor::ones({4}), g); },
          "conv_transpose: bias must have the geometry's shape (3,); got (4,); pass the operand that it describes");
  refuses([&] { return conv_weight(image, feature.to(kFloat64), g); },
          "conv_weight: operands must share one floating-point dtype; got feature (2, 4, 5) of float64 beside float32; "
          "convert one with .to(dtype)");
  ConvGeometry broken = g;
  broken.groups = 0;
  refuses(
      [&] { return conv(image, filter, {}, broken); },
      "conv: a geometry's rank is 1, 2 or 3, its groups divide both channels, its channels, extents, kernel, stride and "
      "dilation are positive and its padding is not negative; stride, padding and dilation are at most 2^40, tensors "
      "have fewer than 2^62 elements, and the extents of image and feature are a convolution's; got batch 2, rank 1, "
      "groups 0, channels 3 and 4, image (1, 6), feature (1, 5), kernel (1, 2), stride (1, 1), padding (0, 0), "
      "dilation (1, 1); make it from a call of conv.h");
  ConvGeometry empty = g;
  empty.feature = {1, 0};
  EXPECT_ERROR(conv_weight(image, Tensor::ones({2, 4, 0}), empty), "conv_weight: ", "extents", "feature (1, 0)");
}

}  // namespace
}  // namespace adjoint::testing
