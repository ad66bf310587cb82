// Convolutions with an activation on the GPU: every kernel gives the bits of the two calls, and so does the pass that
// computes the activation's and the bias's gradients together.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/tests/support/activations.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

const std::vector<ConvCase>& cases() {
  static const std::vector<ConvCase> all = [] {
    std::vector<ConvCase> chosen{
        {.name = "stride2",
         .in_channels = 40,
         .out_channels = 33,
         .input = {8, 8},
         .kernel = {4, 4},
         .stride = {2, 2},
         .padding = {1, 1}},
        {.name = "row", .rank = 1, .in_channels = 24, .out_channels = 130, .input = {1, 600}, .kernel = {1, 3}},
        {.name = "depthwise",
         .in_channels = 6,
         .out_channels = 6,
         .groups = 6,
         .input = {17, 40},
         .kernel = {4, 4},
         .stride = {2, 2},
         .padding = {1, 1}},
    };
    for (std::size_t i = 5; i < conv_cases().size(); i += 23) chosen.push_back(conv_cases()[i]);
    return chosen;
  }();
  return all;
}

class ConvActivationCuda : public ::testing::TestWithParam<ActivationCase> {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  }
  const Activation& activation() const { return GetParam().activation; }
};

struct Operands {
  Tensor input, filter, bias;

  Operands(const ConvProblem& p, bool transposed, const TensorOptions& options)
      : input(transposed ? p.feature_tensor(options) : p.image_tensor(options)),
        filter(p.filter_tensor(options)),
        bias(transposed ? p.image_bias_tensor(options) : p.feature_bias_tensor(options)) {}
};

void expect_bits_of_the_two_calls(const cuda::ConvKernel& kernel, const ConvProblem& p, cuda::ConvRole role,
                                  const Activation& activation, const ConvMode& mode) {
  const Operands in(p, role == cuda::ConvRole::kImage, {.dtype = mode.dtype, .device = kCUDA});
  const cuda::ConvProblem plain = conv_problem(role, p.geometry, mode, {in.input, in.filter, in.bias});
  if (!kernel.takes(plain)) return;
  SCOPED_TRACE(std::string(kernel.name) + ", " + mode.name);
  cuda::ConvProblem problem = plain;
  problem.activation = activation;
  const Tensor result = run_kernel(kernel, problem), sums = run_kernel(kernel, plain);
  const auto exact_sums = [&] {  // in any kernel: the problem's values are small integers
    const Tensor input = in.input.to(kFloat32), filter = in.filter.to(kFloat32), bias = in.bias.to(kFloat32);
    const ConvMode exact{"float32", kFloat32, Precision::kFull};
    return run_kernel(*cuda::conv_kernels(role).back(), conv_problem(role, p.geometry, exact, {input, filter, bias}));
  };
  const bool is_half = mode.dtype == kFloat16 || mode.dtype == kBFloat16;
  expect_same_bits("result", result, activate(is_half ? exact_sums() : sums, activation).to(mode.dtype));

  // For a tape, the value that the derivative needs is written in addition to the result.
  if (differentiates_from_result(activation)) return;
  Tensor linear = Tensor::empty(sums.shape(), {.dtype = mode.dtype, .device = kCUDA});
  problem.linear = linear.raw_mutable_data();
  expect_same_bits("result beside its sums", run_kernel(kernel, problem), result);
  expect_same_bits("sums beside the result", linear, sums);
}

TEST_P(ConvActivationCuda, EveryKernelHasTheBitsOfTheTwoCalls) {
  for (const ConvCase& c : cases()) {
    SCOPED_TRACE(c);
    const ConvProblem real = real_problem(geometry(c)), integer = integer_problem(geometry(c));
    for (const cuda::ConvRole role : {cuda::ConvRole::kImage, cuda::ConvRole::kFeature}) {
      SCOPED_TRACE(role_name(role));
      for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role)) {
        for (const ConvMode& mode : kConvModes) {
          const ConvProblem& problem = mode.dtype == kFloat32 ? real : integer;
          expect_bits_of_the_two_calls(*kernel, problem, role, activation(), mode);
        }
        expect_bits_of_the_two_calls(*kernel, real, role, activation(), {"float64", kFloat64, Precision::kFull});
      }
    }
  }
}

std::vector<Tensor> gradients(const ConvProblem& p, const Activation& activation, const TensorOptions& options,
                              bool fused, bool record) {
  const Operands in(p, true, options);
  Tape tape;
  const Tensor y = fused ? conv_transpose(in.input, in.filter, in.bias, p.geometry, activation)
                         : activate(conv_transpose(in.input, in.filter, in.bias, p.geometry), activation);
  const Tensor seed = (Tensor::arange(0.0, y.numel()).reshape(y.shape()) * 0.001 - 0.4).to(*options.dtype).to(kCUDA);
  std::vector<Tensor> all = tape.gradient(y, {in.input, in.filter, in.bias}, {.record = record, .grad_output = seed});
  for (Tensor& gradient : all) gradient = gradient.detach();
  return all;
}

// Also in half precision: activations that round alike before and after, and derivatives written in terms of their
// input.
bool keeps_half_gradients(const Activation& activation) {
  return activation.kind == ActivationKind::kNone || activation.kind == ActivationKind::kReLU ||
         activation == Activation::leaky_relu(0.125) || !differentiates_from_result(activation);
}

TEST_P(ConvActivationCuda, GradientsHaveTheBitsOfTheTwoCalls) {
  for (const ConvCase& c : cases()) {
    SCOPED_TRACE(c);
    const ConvProblem p = real_problem(geometry(c));
    for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      if ((dtype == kFloat16 || dtype == kBFloat16) && !keeps_half_gradients(activation())) continue;
      const TensorOptions options{.dtype = dtype, .device = kCUDA, .requires_grad = true};
      for (const bool record : {false, true}) {
        const std::vector<Tensor> expected = gradients(p, activation(), options, false, record);
        const std::vector<Tensor> got = gradients(p, activation(), options, true, record);
        for (std::size_t i = 0; i < got.size(); ++i) {
          expect_same_bits(std::string(to_string(dtype)) + " gradient " + std::to_string(i), got[i], expected[i]);
        }
      }
    }
  }
}

TEST_P(ConvActivationCuda, FirstAndSecondOrder) {
  const TensorOptions options{.dtype = kFloat64, .device = kCUDA};
  for (std::size_t i = 3; i < small_conv_cases().size(); i += 60) {
    SCOPED_TRACE(small_conv_cases()[i]);
    const ConvProblem p = real_problem(geometry(small_conv_cases()[i]));
    const Operands in(p, true, options);
    const auto f = [&](const std::vector<Tensor>& operands) {
      return conv_transpose(operands[0], operands[1], operands[2], p.geometry, activation());
    };
    EXPECT_TRUE(gradcheck(f, {in.input, in.filter, in.bias}));
    EXPECT_TRUE(gradgradcheck(f, {in.input, in.filter, in.bias}));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConvActivationCuda, ::testing::ValuesIn(activation_cases()), ActivationCaseName());

}  // namespace
}  // namespace adjoint::testing
#endif
