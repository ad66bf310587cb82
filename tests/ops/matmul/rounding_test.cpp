// linear and attention round 16-bit floats once, behind the last sum.
#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/attention/attention.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/matmul/linear.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

namespace adjoint::testing {
namespace {

Tensor made(const std::vector<double>& values, const Shape& shape, DType dtype, Device device = kCPU) {
  return Tensor::from_vector(values, shape, {.dtype = dtype}).to(device);
}

std::vector<Device> devices() {
  return cuda_is_available() ? std::vector<Device>{kCPU, kCUDA} : std::vector<Device>{kCPU};
}

// Float64's result, rounded to the dtype once.
void expect_rounded_once(const std::string& what, const Tensor& actual, const Tensor& exact) {
  expect_same_bits(what, actual.to(kCPU), exact.to(actual.dtype()).to(kCPU));
}

// Integers, whose sums float32 holds exactly, so that every rounding to 16 bits except the last one shows.
void expect_linear_rounds_once(Device device) {
  for (const DType dtype : {kBFloat16, kFloat16}) {
    for (const std::int64_t rows : {1, 5, 130}) {
      const Shape in{rows, 70}, weights{66, 70};
      const Tensor x = made(integers(in.numel(), 60, 1), in, dtype, device);
      const Tensor w = made(integers(weights.numel(), 30, 2), weights, dtype, device);
      const Tensor b = made(integers(66, 250, 3), {66}, dtype, device);
      const Tensor exact = linear(x.to(kFloat64), w.to(kFloat64), b.to(kFloat64));
      expect_rounded_once("linear", linear(x, w, b), exact);
      expect_rounded_once("more axes, any strides",
                          linear(x.reshape({rows, 1, 70}), w.transpose(0, 1).contiguous().transpose(0, 1), b),
                          exact.reshape({rows, 1, 66}));
    }
  }
}

TEST(LinearRounding, OfProductAndBiasTogether) { expect_linear_rounds_once(kCPU); }

TEST(LinearRounding, OfProductAndBiasTogetherCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  expect_linear_rounds_once(kCUDA);
}

// 257 is no bfloat16: the product alone would become 256, and the sum 256 too.
TEST(LinearRounding, UnderAutocast) {
  for (const Device device : devices()) {
    const Tensor x = made({16, 1}, {1, 2}, kFloat32, device), w = made({16, 1}, {1, 2}, kFloat32, device);
    const AutocastGuard guard(kBFloat16);
    expect_values("257 + 1", linear(x, w, made({1}, {1}, kFloat32, device)), {258});
  }
}

TEST(LinearRounding, WithoutInputsTheBiasIsLeft) {
  for (const Device device : devices()) {
    for (const DType dtype : {kBFloat16, kFloat32, kFloat64}) {
      const Tensor b = made({1, 2}, {2}, dtype, device);
      expect_values("bias", linear(made({}, {3, 0}, dtype, device), made({}, {2, 0}, dtype, device), b),
                    {1, 2, 1, 2, 1, 2});
      EXPECT_EQ(linear(made({}, {0, 1}, dtype, device), made({1, 1}, {2, 1}, dtype, device), b).shape(), Shape({0, 2}));
    }
    const Tensor each = linear(made({2, 3}, {2}, kFloat32, device), made({1, 1}, {1, 2}, kFloat32, device),
                               made({4, 0}, {2}, kFloat32, device).narrow(0, 0, 1));
    EXPECT_EQ(each.shape(), Shape({1}));
    expect_values("one row", each, {9});
  }
}

TEST(LinearRounding, GradientsOfBothOrders) {
  const std::vector<Tensor> inputs{made(reals(12, 1), {2, 2, 3}, kFloat64), made(reals(12, 2), {4, 3}, kFloat64),
                                   made(reals(4, 3), {4}, kFloat64)};
  const auto f = [](const std::vector<Tensor>& in) { return square(linear(in[0], in[1], in[2])); };
  EXPECT_TRUE(gradcheck(f, inputs));
  EXPECT_TRUE(gradgradcheck(f, inputs));
}

TEST(LinearRounding, GradientsAreRoundedOnce) {
  for (const Device device : devices()) {
    const Tensor x = made(integers(30 * 20, 60, 1), {30, 20}, kBFloat16, device).requires_grad_();
    const Tensor w = made(integers(40 * 20, 30, 2), {40, 20}, kBFloat16, device).requires_grad_();
    const Tensor b = made(integers(40, 9, 3), {40}, kBFloat16, device).requires_grad_();
    const Tensor g = made(integers(30 * 40, 20, 4), {30, 40}, kBFloat16, device);
    Tape tape;
    const std::vector<Tensor> found = tape.gradient((linear(x, w, b) * g).sum(), {x, w, b});
    const PauseTape pause;
    const Tensor wide = g.to(kFloat64);
    expect_rounded_once("x", found[0], matmul(wide, w.detach().to(kFloat64)));
    expect_rounded_once("weight", found[1], matmul(wide.transpose(0, 1), x.detach().to(kFloat64)));
    expect_rounded_once("bias", found[2], wide.sum({0}));
  }
}

struct Operands {
  Tensor query, key, value;
};

Operands operands(double size, DType dtype, Device device, std::int64_t width = 48) {
  const auto one = [&](std::uint64_t seed, double factor) {
    return (made(reals(2 * 33 * width, seed), {2, 33, width}, kFloat64) * factor).to(dtype).to(device);
  };
  return {one(1, size), one(2, size), one(3, 1.0)};
}

// The largest error of attention and its gradients against float64's, relative to their largest elements.
double attention_error(const Operands& from, std::optional<double> scale = {}) {
  const auto found = [&](DType dtype) {
    std::vector<Tensor> leaves;
    for (const Tensor& each : {from.query, from.key, from.value}) {
      leaves.push_back(each.detach().to(dtype).clone().requires_grad_());
    }
    Tape tape;
    const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {}, 0.0, false, scale);
    std::vector<Tensor> all = tape.gradient((y.to(kFloat64) * y.detach().to(kFloat64)).sum(), leaves);
    all.push_back(y.detach());
    return all;
  };
  const std::vector<Tensor> all = found(from.query.dtype()), exact = found(kFloat64);
  double most = 0.0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor apart = abs(all[i].to(kFloat64) - exact[i]);
    EXPECT_TRUE(std::isfinite(apart.sum().item<double>())) << i;
    most = std::max(most, apart.max().item<double>() / abs(exact[i]).max().item<double>());
  }
  return most;
}

// Scores of some hundreds: rounded to bfloat16, weights would be off by their whole size.
TEST(AttentionRounding, ScoresStayFloat32) {
  EXPECT_LT(attention_error(operands(12.0, kBFloat16, kCPU)), 0x1p-8);
  EXPECT_LT(attention_error(operands(12.0, kFloat16, kCPU)), 0x1p-10);
}

TEST(AttentionRounding, ScoresBeyondFloat16AreFinite) {
  const Operands large = operands(300.0, kFloat16, kCPU);
  EXPECT_GT(matmul(large.query.to(kFloat64), large.key.to(kFloat64).transpose(-2, -1)).max().item<double>(), 65504.0);
  EXPECT_LT(attention_error(large, 1.0), 0x1p-9);
}

// A GPU multiplies weights, and gradients of scores, of 16 bits.
TEST(AttentionRounding, ScoresStayFloat32Cuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  EXPECT_LT(attention_error(operands(12.0, kBFloat16, kCUDA)), 0x1p-5);
  EXPECT_LT(attention_error(operands(12.0, kFloat16, kCUDA)), 0x1p-8);
  const Operands large = operands(300.0, kFloat16, kCUDA);
  const Tensor y = scaled_dot_product_attention(large.query, large.key, large.value, {}, 0.0, false, 1.0);
  const auto wide = [](const Tensor& x) { return x.to(kCPU).to(kFloat64); };
  expect_near("beyond float16", y.to(kCPU).to(kFloat64),
              scaled_dot_product_attention(wide(large.query), wide(large.key), wide(large.value), {}, 0.0, false, 1.0)
                  .to_vector<double>(),
              0x1p-8);
}

}  // namespace
}  // namespace adjoint::testing
