// Causal convolutions in three dimensions: the depth's padding is in front.
#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/base/cpu_backend.h>
#include <adjoint/ops/conv/conv.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint::testing {
namespace {

constexpr TensorOptions kDouble{.dtype = kFloat64};

struct Case {
  Shape input, weight;
  Conv3dParams params;
};

// Gaps, strides, groups, and kernels that pad by less and by more than they reach.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {{2, 3, 4, 5, 6}, {2, 3, 3, 3, 3}, {.padding = 1, .causal = true}},
      {{1, 2, 5, 4, 3}, {4, 1, 3, 1, 1}, {.padding = {1, 0, 0}, .groups = 2, .causal = true}},
      {{1, 2, 7, 3, 4}, {3, 2, 3, 2, 1}, {.padding = {2, 1, 0}, .dilation = {2, 1, 1}, .causal = true}},
      {{2, 2, 6, 4, 4}, {2, 2, 3, 3, 3}, {.stride = {2, 1, 2}, .padding = {1, 1, 0}, .causal = true}},
      {{1, 2, 3, 3, 3}, {2, 2, 2, 2, 2}, {.padding = {3, 0, 1}, .causal = true}},
      {{1, 2, 2, 3, 3}, {2, 2, 5, 1, 1}, {.padding = {2, 0, 0}, .causal = true}},
      {{1, 2, 1, 4, 4}, {2, 2, 1, 3, 3}, {.padding = {0, 1, 1}, .causal = true}}};
  return all;
}

Tensor padded_first(const Tensor& x, const Tensor& w, const Tensor& b, const Conv3dParams& params) {
  Conv3dParams rest = params;
  rest.padding.d = 0;
  rest.causal = false;
  return conv3d(pad(x, {0, 0, 0, 0, 2 * params.padding.d, 0}), w, b, rest);
}

TEST(CausalConv, EqualsPaddingInFrontFirst) {
  for (const CpuBackend backend : {CpuBackend::kVector, CpuBackend::kEigen}) {
    const CpuBackendGuard guard(backend);
    for (const Case& c : cases()) {
      SCOPED_TRACE(to_string(c.weight));
      const Tensor x = Tensor::from_vector(integers(c.input.numel(), 3, 1), c.input, kDouble);
      const Tensor w = Tensor::from_vector(integers(c.weight.numel(), 3, 2), c.weight, kDouble);
      const Tensor b = Tensor::from_vector(integers(c.weight[0], 3, 3), {c.weight[0]}, kDouble);
      expect_values("causal", conv3d(x, w, b, c.params), padded_first(x, w, b, c.params).to_vector<double>());
    }
  }
}

TEST(CausalConv, GradientsOfAnyOrder) {
  constexpr GradcheckOptions kExact{.eps = 1.0, .atol = 1e-12, .rtol = 1e-12};
  for (const Case& c : cases()) {
    SCOPED_TRACE(to_string(c.weight));
    const std::vector<Tensor> inputs{Tensor::from_vector(integers(c.input.numel(), 3, 1), c.input, kDouble),
                                     Tensor::from_vector(integers(c.weight.numel(), 3, 2), c.weight, kDouble),
                                     Tensor::from_vector(integers(c.weight[0], 3, 3), {c.weight[0]}, kDouble)};
    const auto f = [&](const std::vector<Tensor>& in) { return conv3d(in[0], in[1], in[2], c.params); };
    EXPECT_TRUE(gradcheck(f, inputs, kExact));
    EXPECT_TRUE(gradgradcheck(f, inputs, kExact));
  }
}

TEST(CausalConv, NoResultDependsOnLaterInput) {
  const Tensor x = Tensor::randn({1, 3, 6, 4, 4}), w = Tensor::randn({2, 3, 3, 3, 3});
  const Conv3dParams params{.padding = 1, .causal = true};
  Tensor later = x.clone();
  later.narrow(2, 3, 3).fill_(7.0);
  EXPECT_EQ(conv3d(x, w, {}, params).narrow(2, 0, 3).contiguous().to_vector<float>(),
            conv3d(later, w, {}, params).narrow(2, 0, 3).contiguous().to_vector<float>());
  EXPECT_EQ(conv3d(x, w, {}, params).shape(), (Shape{1, 2, 6, 4, 4}));
}

TEST(CausalConvCuda, EqualsTheCpu) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const Case& c : cases()) {
    SCOPED_TRACE(to_string(c.weight));
    const Tensor x = Tensor::from_vector(integers(c.input.numel(), 3, 1), c.input, kDouble);
    const Tensor w = Tensor::from_vector(integers(c.weight.numel(), 3, 2), c.weight, kDouble);
    const Tensor expected = conv3d(x, w, {}, c.params);
    for (const DType dtype : {kFloat64, kFloat32, kBFloat16, kFloat16}) {
      const TensorOptions options{.dtype = dtype, .device = kCUDA};
      const Tensor result = conv3d(x.to(options.device).to(dtype), w.to(options.device).to(dtype), {}, c.params);
      expect_values("causal", result.to(kCPU).to(kFloat64), expected.to(dtype).to(kFloat64).to_vector<double>());
    }
  }
}

// The operators that compute gradients, with enough channels for tensor cores.
TEST(CausalConvCuda, OperatorsEqualTheCpu) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  ConvGeometry g{.rank = 3, .batch = 2, .image_channels = 16, .feature_channels = 32};
  g.image = g.feature = {6, 5, 7};
  g.kernel = {3, 3, 3};
  g.padding = {2, 1, 1};
  const ConvProblem p = integer_problem(g);
  const Tensor image = p.image_tensor(kDouble), filter = p.filter_tensor(kDouble), feature = p.feature_tensor(kDouble);
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16, kFloat16}) {
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      SCOPED_TRACE(to_string(dtype) + (format == kContiguous ? " contiguous" : " channels_last"));
      const auto moved = [&](const Tensor& x) { return x.to(kCUDA).to(dtype).to(format); };
      const auto check = [&](const char* name, const Tensor& found, const Tensor& expected) {
        expect_values(name, found.to(kCPU).to(kFloat64).contiguous(),
                      expected.to(dtype).to(kFloat64).to_vector<double>());
      };
      check("conv", conv(moved(image), moved(filter), {}, g), conv(image, filter, {}, g));
      check("conv_transpose", conv_transpose(moved(feature), moved(filter), {}, g),
            conv_transpose(feature, filter, {}, g));
      check("conv_weight", conv_weight(moved(image), moved(feature), g), conv_weight(image, feature, g));
    }
  }
}

}  // namespace
}  // namespace adjoint::testing
