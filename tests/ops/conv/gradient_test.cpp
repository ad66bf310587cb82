// First and second derivatives of the trio and its front ends. The trio is bilinear, so central differences are exact
// for any step: eps = 1 on integers leaves no room for a wrong gradient.

#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/device.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

namespace adjoint::testing {
namespace {

constexpr GradcheckOptions kExact{.eps = 1.0, .atol = 1e-12, .rtol = 1e-12};
constexpr TensorOptions kDouble{.dtype = kFloat64};

class ConvGradient : public ::testing::TestWithParam<ConvCase> {
 protected:
  ConvGradient() : trace_(__FILE__, __LINE__, GetParam()) {}
  ::testing::ScopedTrace trace_;
};

TEST_P(ConvGradient, FirstAndSecondOrder) {
  const ConvCase& c = GetParam();
  const ConvProblem p = integer_problem(geometry(c));
  const ConvGeometry& g = p.geometry;
  const Tensor image = p.image_tensor(kDouble), filter = p.filter_tensor(kDouble), feature = p.feature_tensor(kDouble);
  const auto check = [](const DifferentiableFunction& f, const std::vector<Tensor>& inputs) {
    EXPECT_TRUE(gradcheck(f, inputs, kExact));
    EXPECT_TRUE(gradgradcheck(f, inputs, kExact));
  };
  check([&](const std::vector<Tensor>& in) { return conv(in[0], in[1], in[2], g); },
        {image, filter, p.feature_bias_tensor(kDouble)});
  check([&](const std::vector<Tensor>& in) { return call_conv_transpose(c, in[0], in[1], in[2]); },
        {feature, filter, p.image_bias_tensor(kDouble)});
  check([&](const std::vector<Tensor>& in) { return conv_weight(in[0], in[1], g); }, {image, feature});
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvGradient, ::testing::ValuesIn(small_conv_cases()), ConvCaseName());

// CUDA's kernels by finite differences through Eigen on the CPU, which share no code with them.
TEST(ConvGradientCuda, EveryDTypeAgainstFiniteDifferencesOnTheCpu) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (std::size_t i = 2; i < small_conv_cases().size(); i += 9) {
    const ConvCase& c = small_conv_cases()[i];
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
      SCOPED_TRACE(to_string(dtype));
      const TensorOptions options{.dtype = dtype, .device = kCUDA};
      const Tensor image = p.image_tensor(options), filter = p.filter_tensor(options),
                   feature = p.feature_tensor(options);
      const auto check = [](const DifferentiableFunction& f, const std::vector<Tensor>& inputs) {
        EXPECT_TRUE(gradcheck(f, inputs, {.eps = 1.0}));
        EXPECT_TRUE(gradgradcheck(f, inputs, {.eps = 1.0}));
      };
      check([&](const std::vector<Tensor>& in) { return conv(in[0], in[1], in[2], p.geometry); },
            {image, filter, p.feature_bias_tensor(options)});
      check([&](const std::vector<Tensor>& in) { return call_conv_transpose(c, in[0], in[1], in[2]); },
            {feature, filter, p.image_bias_tensor(options)});
      check([&](const std::vector<Tensor>& in) { return conv_weight(in[0], in[1], p.geometry); }, {image, feature});
    }
  }
}

// ---- The tensors that a call keeps, and the gradients that it computes.

TEST(ConvTape, GradientsThatNobodyNeedsKeepNothing) {
  // conv_transpose(y, w) needs w for y's gradient and y for w's; with only one of them required, the other may change.
  const ConvCase c{
      .name = "", .in_channels = 2, .out_channels = 3, .input = {3, 4}, .kernel = {2, 2}, .stride = {2, 1}};
  const ConvProblem p = integer_problem(geometry(c));
  Tensor filter = p.filter_tensor(kDouble);
  const Tensor feature = p.feature_tensor({.dtype = kFloat64, .requires_grad = true});
  Tape tape;
  const Tensor result = call_conv_transpose(c, feature, filter, {});
  const Tensor other = call_conv_transpose(c, p.feature_tensor(kDouble),
                                           p.filter_tensor({.dtype = kFloat64, .requires_grad = true}), {});
  EXPECT_EQ(tape.size(), 4U);  // two leaves, two operations
  EXPECT_TRUE(other.requires_grad());
  const Tensor seed = Tensor::ones(result.shape(), kDouble);
  const Tensor expected = conv(seed, filter, {}, p.geometry);
  expect_same_bits("gradient", tape.gradient(result, {feature}, {.grad_output = seed})[0], expected);
  EXPECT_FALSE(feature.grad().defined());
}

TEST(ConvTape, BiasGradientNeedsNeitherOperand) {
  const ConvCase c{.name = "", .rank = 1, .in_channels = 2, .out_channels = 3, .input = {1, 4}, .kernel = {1, 3}};
  const ConvProblem p = integer_problem(geometry(c));
  Tensor feature = p.feature_tensor(kDouble), filter = p.filter_tensor(kDouble);
  const Tensor bias = p.image_bias_tensor({.dtype = kFloat64, .requires_grad = true});
  Tape tape;
  const Tensor result = call_conv_transpose(c, feature, filter, bias);
  feature.fill_(100.0);  // nothing saved them, so this is no error
  filter.fill_(100.0);
  tape.backward(result, {.grad_output = Tensor::ones(result.shape(), kDouble)});
  const auto positions = static_cast<double>(p.geometry.batch * p.geometry.image_plane());
  expect_values("bias", bias.grad(), {positions, positions, positions});
}

TEST(ConvTape, ChangedOperandIsAnError) {
  const ConvCase c{.name = "", .rank = 1, .in_channels = 2, .out_channels = 3, .input = {1, 4}, .kernel = {1, 3}};
  const ConvProblem p = integer_problem(geometry(c));
  const Tensor feature = p.feature_tensor({.dtype = kFloat64, .requires_grad = true});
  Tensor filter = p.filter_tensor(kDouble);
  Tape tape;
  const Tensor result = call_conv_transpose(c, feature, filter, {});
  filter.fill_(1.0);
  EXPECT_THROW(tape.backward(result, {.grad_output = Tensor::ones(result.shape(), kDouble)}), Error);
}

TEST(ConvTape, NothingIsRecordedWithoutATape) {
  const ConvCase c{.name = "", .in_channels = 2, .out_channels = 3, .input = {3, 4}, .kernel = {2, 2}};
  const ConvProblem p = integer_problem(geometry(c));
  const Tensor result = call_conv_transpose(c, p.feature_tensor({.requires_grad = true}), p.filter_tensor({}), {});
  EXPECT_FALSE(result.requires_grad());
}

}  // namespace
}  // namespace adjoint::testing
