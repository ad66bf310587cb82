// Convolutions with an activation on the GPU: every kernel gives the bits of the two calls, and so does the pass that
// computes the activation's and the bias's gradients together.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/gradcheck.h>
#include <adjoint/core/precision.h>
#include <adjoint/core/tape.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/tests/support/activations.h>
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

// The kernel of this name alone; false where it does not take the problem.
bool runs(const cuda::ConvKernel& kernel, const ConvProblem& p, bool transposed, const TensorOptions& options) {
  const Operands in(p, transposed, options);
  const cuda::ForceConvKernel guard(kernel.name);
  try {
    (transposed ? conv_transpose : conv)(in.input, in.filter, in.bias, p.geometry, {});
    return true;
  } catch (const Error&) {
    return false;
  }
}

void expect_bits_of_the_two_calls(const cuda::ConvKernel& kernel, const ConvProblem& p, bool transposed,
                                  const Activation& activation, DType dtype) {
  const TensorOptions options{.dtype = dtype, .device = kCUDA};
  if (!runs(kernel, p, transposed, options)) return;
  SCOPED_TRACE(std::string(kernel.name) + (transposed ? ", transposed, " : ", ") + to_string(dtype));
  const cuda::ForceConvKernel guard(kernel.name);
  const auto activated = transposed ? conv_transpose : conv;
  const auto plain = [&](const Tensor& input, const Tensor& filter, const Tensor& bias, const ConvGeometry& geometry) {
    return activated(input, filter, bias, geometry, {});
  };
  const Operands in(p, transposed, options);
  const Tensor result = activated(in.input, in.filter, in.bias, p.geometry, activation);
  const bool rounds_twice = dtype == kFloat32 || dtype == kFloat64 || !kernel.activates;
  const auto exact_sums = [&] {  // in any kernel: the problem's values are small integers
    const auto role = transposed ? cuda::ConvRole::kImage : cuda::ConvRole::kFeature;
    const cuda::ForceConvKernel reference(cuda::conv_kernels(role).back()->name);
    return plain(in.input.to(kFloat32), in.filter.to(kFloat32), in.bias.to(kFloat32), p.geometry);
  };
  const Tensor sums = rounds_twice ? plain(in.input, in.filter, in.bias, p.geometry) : exact_sums();
  expect_same_bits("result", result, activate(sums, activation).to(dtype));

  // On a tape, what the derivative needs is written beside the result. The bias's gradient reads that alone.
  const Operands leaves(p, transposed, {.dtype = dtype, .device = kCUDA, .requires_grad = true});
  Tape tape;
  const Tensor recorded = activated(leaves.input, leaves.filter, leaves.bias, p.geometry, activation);
  expect_same_bits("recorded", recorded.detach(), result);
  if (differentiates_from_result(activation)) return;
  const Tensor two_calls = activate(plain(leaves.input, leaves.filter, leaves.bias, p.geometry), activation);
  const Tensor seed = Tensor::ones(result.shape(), options);
  expect_same_bits("bias's gradient", tape.gradient(recorded, {leaves.bias}, {.grad_output = seed})[0],
                   tape.gradient(two_calls, {leaves.bias}, {.grad_output = seed})[0]);
}

TEST_P(ConvActivationCuda, EveryKernelHasTheBitsOfTheTwoCalls) {
  for (const ConvCase& c : cases()) {
    SCOPED_TRACE(c);
    const ConvProblem real = real_problem(geometry(c)), integer = integer_problem(geometry(c));
    for (const bool transposed : {true, false}) {
      const auto role = transposed ? cuda::ConvRole::kImage : cuda::ConvRole::kFeature;
      for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role)) {
        for (const Precision precision : {Precision::kFull, Precision::kTF32}) {
          const PrecisionGuard guard(precision);
          expect_bits_of_the_two_calls(*kernel, real, transposed, activation(), kFloat32);
        }
        expect_bits_of_the_two_calls(*kernel, real, transposed, activation(), kFloat64);
        expect_bits_of_the_two_calls(*kernel, integer, transposed, activation(), kFloat16);
        expect_bits_of_the_two_calls(*kernel, integer, transposed, activation(), kBFloat16);
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
  const Tensor seed = (Tensor::arange(0, y.numel()).reshape(y.shape()) * 0.001 - 0.4).to(options.dtype).to(kCUDA);
  std::vector<Tensor> all = tape.gradient(y, {in.input, in.filter, in.bias}, {.record = record, .grad_output = seed});
  for (Tensor& gradient : all) gradient = gradient.detach();
  return all;
}

// In half precision too: what rounds alike before and after the activation, and derivatives written in what it reads.
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
