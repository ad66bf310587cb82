#include <adjoint/tests/support/conv_trio.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/values.h>

namespace adjoint::testing {

TrioTensors run_trio(const ConvProblem& p, const TensorOptions& options) {
  const ConvGeometry& g = p.geometry;
  const Tensor image = p.image_tensor(options), filter = p.filter_tensor(options), feature = p.feature_tensor(options);
  return {conv(image, filter, p.feature_bias_tensor(options), g),
          conv_transpose(feature, filter, p.image_bias_tensor(options), g), conv_weight(image, feature, g)};
}

#ifdef ADJOINT_WITH_CUDA
TrioTensors run_trio_on(const char* name, const ConvProblem& p, DType dtype) {
  const TensorOptions options{.dtype = dtype, .device = kCUDA};
  const ConvMode mode{name, dtype, float32_precision()};
  const auto run = [&](cuda::ConvRole role, const ConvOperands& operands) {
    const cuda::ConvKernel* const kernel = cuda::find_conv_kernel(role, name);
    const cuda::ConvProblem problem = conv_problem(role, p.geometry, mode, operands);
    ADJOINT_CHECK(kernel != nullptr && kernel->takes(problem), "{}: no kernel {} takes it", role_name(role), name);
    return run_kernel(*kernel, problem);
  };
  const Tensor image = p.image_tensor(options), filter = p.filter_tensor(options), feature = p.feature_tensor(options);
  return {run(cuda::ConvRole::kFeature, {image, filter, p.feature_bias_tensor(options)}),
          run(cuda::ConvRole::kImage, {feature, filter, p.image_bias_tensor(options)}),
          run(cuda::ConvRole::kFilter, {image, feature, {}})};
}
#endif

TrioValues oracle_trio(const ConvProblem& p) {
  const ConvGeometry& g = p.geometry;
  return {oracle::conv(g, p.image, p.filter, p.feature_bias),
          oracle::conv_transpose(g, p.feature, p.filter, p.image_bias), oracle::conv_weight(g, p.image, p.feature)};
}

TrioValues values_of(const TrioTensors& tensors) {
  return {tensors.conv.to_vector<double>(), tensors.conv_transpose.to_vector<double>(),
          tensors.conv_weight.to_vector<double>()};
}

void expect_trio_values(const TrioTensors& actual, const TrioValues& expected) {
  expect_values("conv", actual.conv, expected.conv);
  expect_values("conv_transpose", actual.conv_transpose, expected.conv_transpose);
  expect_values("conv_weight", actual.conv_weight, expected.conv_weight);
}

void expect_same_trio(const std::string& what, const TrioTensors& actual, const TrioTensors& expected) {
  expect_same_bits("conv " + what, actual.conv, expected.conv);
  expect_same_bits("conv_transpose " + what, actual.conv_transpose, expected.conv_transpose);
  expect_same_bits("conv_weight " + what, actual.conv_weight, expected.conv_weight);
}

}  // namespace adjoint::testing
