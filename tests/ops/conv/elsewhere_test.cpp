// Calls that crashed, or passed silently, in other frameworks. Each is decided: refused, or right.

#include <adjoint/ops/conv/conv.h>

#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/tests/support/conv_refusal.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint::testing {
namespace {

using ConvElsewhere = ConvRefusal;

TEST_F(ConvElsewhere, Pytorch91549DividedByZeroGroups) {
  refuses(
      [] {
        return conv_transpose2d(Tensor::ones({1, 3, 4, 4}), Tensor::ones({3, 3, 3, 3}), Tensor::ones({3}),
                                {.stride = 2, .padding = 2, .output_padding = 1, .groups = 0});
      },
      "conv_transpose2d: groups must be at least 1; got groups 0 for input (1, 3, 4, 4), weight (3, 3, 3, 3), bias "
      "(3,); pass 1 for an ordinary convolution");
}

TEST_F(ConvElsewhere, Pytorch91587DividedByZeroGroupsUnbatched) {
  refuses(
      [] {
        return conv_transpose1d(Tensor::ones({3, 4}), Tensor::ones({3, 3, 3}), Tensor::ones({3}),
                                {.stride = 2, .padding = 2, .output_padding = 1, .groups = 0});
      },
      "conv_transpose1d: groups must be at least 1; got groups 0 for input (3, 4), weight (3, 3, 3), bias (3,); pass 1 "
      "for an ordinary convolution");
}

TEST_F(ConvElsewhere, Pytorch136722DividedByZeroStride) {
  refuses(
      [] {
        return conv_transpose1d(Tensor::ones({1, 16, 4}), Tensor::ones({16, 64, 3}), {}, {.stride = 0});
      },
      "conv_transpose1d: stride must be at least 1; got stride 0 for input (1, 16, 4), weight (16, 64, 3); pass 1 or "
      "more");
  refuses(
      [] {
        return conv_transpose2d(Tensor::ones({1, 16, 4, 4}), Tensor::ones({16, 64, 3, 3}), {}, {.stride = 0});
      },
      "conv_transpose2d: stride must be at least 1; got stride (0, 0) for input (1, 16, 4, 4), weight (16, 64, 3, 3); "
      "pass 1 or more");
}

// Valid, and 464 GB: correct if it fits. Here with a million times the batch, which fits nowhere.
TEST_F(ConvElsewhere, Pytorch148275StrideBeyond32Bits) {
  const ConvTranspose1dParams params{.stride = 2147483648, .padding = 1};
  refuses<OutOfMemoryError>(
      [&] {
        return conv_transpose1d(wide({3 << 20, 5, 7}), wide({5, 3, 2}), {}, params);
      },
      "conv_transpose1d: the result must fit in memory; got input (3145728, 5, 7), weight (5, 3, 2), stride "
      "2147483648, padding 1, dilation 1, groups 1, output_padding 0; out of memory on cpu; asked for "
      "486388759756013568 bytes, holding ");
  EXPECT_EQ(conv_transpose1d(Tensor::empty({0, 5, 7}), wide({5, 3, 2}), {}, params).shape(),
            (Shape{0, 3, 12884901888}));
}

TEST_F(ConvElsewhere, Pytorch127734ReturnedAnEmptyResult) {
  refuses(
      [] {
        return conv_transpose2d(Tensor::ones({1, 8, 14, 14}), Tensor::ones({8, 1, 3, 3}), {},
                                {.padding = {8, 0}, .groups = 8});
      },
      "conv_transpose2d: the result's height must be at least 1, and would be 0; got input (1, 8, 14, 14), weight (8, "
      "1, 3, 3), stride (1, 1), padding (8, 0), dilation (1, 1), groups 8, output_padding (0, 0); use less padding, a "
      "larger kernel or more output_padding");
}

TEST_F(ConvElsewhere, Pytorch142466HadNoOutputChannels) {
  refuses(
      [] {
        return conv_transpose2d(Tensor::ones({1, 3, 4, 4}), Tensor::empty({3, 0, 3, 3}));
      },
      "conv_transpose2d: weight's channels and kernel size must be at least 1; got input (1, 3, 4, 4), weight (3, 0, "
      "3, 3); an empty weight has no result");
}

// Valid: right, with right gradients.
TEST_F(ConvElsewhere, Pytorch5112CrashedInBackwardWithDilationAndOutputPadding) {
  const TensorOptions options{.dtype = kFloat64};
  const ConvTranspose2dParams params{.stride = 2, .padding = 1, .output_padding = 1, .dilation = 2};
  const Tensor input = Tensor::from_vector<double>(integers(2 * 2 * 3 * 3, 3, 1), {2, 2, 3, 3}, options);
  const Tensor weight = Tensor::from_vector<double>(integers(2 * 3 * 3 * 3, 3, 2), {2, 3, 3, 3}, options);
  EXPECT_EQ(conv_transpose2d(input, weight, {}, params).shape(), (Shape{2, 3, 8, 8}));
  EXPECT_TRUE(gradcheck([&](const std::vector<Tensor>& in) { return conv_transpose2d(in[0], in[1], {}, params); },
                        {input, weight}, {.eps = 1.0, .atol = 1e-12, .rtol = 1e-12}));
}

TEST_F(ConvElsewhere, Pytorch188959OverflowedIndexArithmetic) {
  refuses(
      [] {
        return conv_transpose2d(Tensor::ones({1, 1, 1, 1}), Tensor::ones({1, 1, 1, 1}), {},
                                {.stride = kMax, .padding = kMax - 1, .dilation = 100, .output_size = 100});
      },
      "conv_transpose2d: stride must be at most 2^40; got stride (9223372036854775807, 9223372036854775807) for input "
      "(1, 1, 1, 1), weight (1, 1, 1, 1); pass less");
}

TEST_F(ConvElsewhere, Tensorflow57958AbortedOnAnOutputSizeOutOfRange) {
  refuses(
      [] {
        return conv_transpose2d(Tensor::ones({2, 2, 2, 2}), Tensor::ones({2, 2, 3, 3}), {},
                                {.stride = 10, .output_size = {114078056, 179835296}});
      },
      "conv_transpose2d: output_size's height must be in [13, 22]; got input (2, 2, 2, 2), weight (2, 2, 3, 3), stride "
      "(10, 10), padding (0, 0), dilation (1, 1), groups 1, output_padding (0, 0), output_size (114078056, 179835296); "
      "other sizes need another stride, padding or kernel");
}

// Valid, and 26 GB: correct if it fits. Here its extents without a sample, and a batch that fits nowhere.
TEST_F(ConvElsewhere, Paddle70837WrappedAnExtentBeyond32Bits) {
  const ConvTranspose2dParams params{.stride = {46889, 4}, .padding = {0, 1}};
  EXPECT_EQ(conv_transpose2d(Tensor::empty({0, 1, 46889, 2}), Tensor::ones({1, 1, 1, 1}), {}, params).shape(),
            (Shape{0, 1, 2198531433, 3}));
  refuses<OutOfMemoryError>(
      [&] {
        return conv_transpose2d(wide({1 << 20, 1, 46889, 2}), Tensor::ones({1, 1, 1, 1}), {}, params);
      },
      "conv_transpose2d: the result must fit in memory; got input (1048576, 1, 46889, 2), weight (1, 1, 1, 1), stride "
      "(46889, 4), padding (0, 1), dilation (1, 1), groups 1, output_padding (0, 0); out of memory on cpu; "
      "asked for 27663927550672896 bytes, holding ");
}

// Valid: channels * taps is 2^31 + 2^11, and no buffer has that many rows here.
TEST_F(ConvElsewhere, Tensorflow112774OverflowedAColumnBuffer) {
  EXPECT_EQ(conv_transpose1d(Tensor::empty({0, 2048, 1}), wide({2048, 1, (1 << 20) + 1})).shape(),
            (Shape{0, 1, (1 << 20) + 1}));
}

}  // namespace
}  // namespace adjoint::testing
