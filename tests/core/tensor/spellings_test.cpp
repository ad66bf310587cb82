// Tensors as PyTorch's users write them: each line stands for PyTorch's call, and gives the same result as the longer
// form.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/factories.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/attention/attention.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

static_assert(!std::constructible_from<Device, int> && !std::constructible_from<Device, std::nullptr_t>);

TEST(Spellings, DevicesByName) {
  EXPECT_EQ(Device("cpu"), kCPU);
  EXPECT_EQ(Device("cuda"), kCUDA);
  EXPECT_EQ(Device("cuda:0"), kCUDA);
  EXPECT_EQ(Device("cuda:1"), Device(DeviceType::kCUDA, 1));
  EXPECT_EQ(Device(std::string("cuda:127")).index, 127);
  EXPECT_EQ(Device(std::string_view("cpu")), kCPU);
  const char* const name = "cuda:2";
  EXPECT_EQ(Device(name).index, 2);
  const auto index = [](Device device) { return device.index; };
  EXPECT_EQ(index("cuda:3"), 3);
  for (const char* wrong :
       {"gpu", "cuda:-1", "cuda:1x", "", "cuda:", "cuda:128", "cuda: 1", "CUDA", "cpu:1", "cuda:+1"}) {
    const std::string got = "got \"" + std::string(wrong) + "\"";
    EXPECT_ERROR(Device{wrong}, "Device: a name must be \"cpu\", \"cuda\" or \"cuda:\" with an index", got.c_str());
  }
}

TEST(Spellings, FactoriesAreFunctions) {
  expect_same_bits("zeros", zeros({2, 3}), Tensor::zeros({2, 3}));
  expect_same_bits("zeros(2, 3)", zeros(2, 3), Tensor::zeros({2, 3}));
  expect_same_bits("ones", ones(3, {.dtype = kInt32}), Tensor::ones({3}, {.dtype = kInt32}));
  expect_same_bits("full", full({2}, 3), Tensor::full({2}, 3));
  expect_same_bits("arange", arange(5), Tensor::arange(5));
  expect_same_bits("arange of three", arange(1, 6, 2), Tensor::arange(1, 6, 2));
  expect_same_bits("arange with options", arange(1, 6, {.dtype = kFloat32}), Tensor::arange(1.0, 6.0));
  expect_same_bits("eye", eye(3), Tensor::eye(3));
  EXPECT_EQ(empty({4, 0}).shape(), (Shape{4, 0}));
  EXPECT_EQ(empty(4, 0, 2).shape(), (Shape{4, 0, 2}));
  manual_seed(3);
  const Tensor drawn = Tensor::randn({2, 2}), uniform = Tensor::rand({5});
  manual_seed(3);
  expect_same_bits("randn", randn(2, 2), drawn);
  expect_same_bits("rand", rand({5}), uniform);
}

TEST(Spellings, TensorsOfNumbers) {
  const auto expect = [](const Tensor& actual, const Shape& shape, DType dtype, const std::vector<double>& values) {
    EXPECT_EQ(actual.shape(), shape);
    EXPECT_EQ(actual.dtype(), dtype);
    expect_values(to_string(shape), actual, values);
  };
  expect(tensor({1, 2}), {2}, kInt64, {1, 2});
  expect(tensor({1.0, 2.5}), {2}, kFloat32, {1, 2.5});
  expect(tensor({1, 2.5}), {2}, kFloat32, {1, 2.5});
  expect(tensor({true, false}), {2}, kBool, {1, 0});
  expect(tensor({{1, 2}, {3, 4}}), {2, 2}, kInt64, {1, 2, 3, 4});
  expect(tensor({{1}, {2}}), {2, 1}, kInt64, {1, 2});
  expect(tensor({{{1.0F}, {2.0F}}}), {1, 2, 1}, kFloat32, {1, 2});
  expect(tensor(3), {}, kInt64, {3});
  expect(tensor(2.5), {}, kFloat32, {2.5});
  expect(tensor({1, 2}, {.dtype = kFloat16}), {2}, kFloat16, {1, 2});
  expect(tensor(std::vector<int>{4, 5}), {2}, kInt64, {4, 5});
  expect(tensor(std::vector<double>{0.5}), {1}, kFloat32, {0.5});
  EXPECT_EQ(tensor({std::numeric_limits<std::int64_t>::max()})[0].item<std::int64_t>(),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_ERROR(tensor({{1, 2}, {3}}), "tensor: the parts of a list must have one shape; got (2,) and (1,)");
  EXPECT_ERROR(tensor({0.5}, {.dtype = kInt64}), "the dtype must hold every value exactly; got 0.5");
}

TEST(Spellings, AnItemIsANumber) {
  EXPECT_EQ(tensor(0.25).item(), 0.25);
  EXPECT_EQ(tensor(7).item(), 7);
  EXPECT_LT(tensor(0.25).item(), 1);
  double sum = 1.0;
  sum += tensor(0.5).item();
  EXPECT_EQ(sum, 1.5);
  EXPECT_EQ(tensor(3).item() * 2 + 0.5, 6.5);
  EXPECT_TRUE((tensor({1, 2}) > 1).any().item());
  EXPECT_FALSE((tensor({1, 2}) > 2).any().item());
  EXPECT_EQ(tensor(std::numeric_limits<std::int64_t>::max()).item().to<std::int64_t>(),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(full({1, 1}, 0.5, {.dtype = kBFloat16}).item().dtype(), kFloat32);
  expect_values("as an operand", tensor({1, 2}) * tensor(3).item(), {3, 6});
  std::ostringstream out;
  out << tensor(0.5).item() << ' ' << tensor(3).item() << ' ' << (tensor(3) == 3).item();
  EXPECT_EQ(out.str(), "0.5 3 true");
  EXPECT_ERROR(tensor({1, 2}).item(), "item: the tensor must have one element; got shape (2,)");
}

TEST(Spellings, MembersOfTensors) {
  const Tensor x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}), y = x * 0.5;
  EXPECT_EQ(x.sizes(), x.shape());
  EXPECT_EQ(x.cpu().device(), kCPU);
  if (cuda_is_available()) {
    EXPECT_EQ(x.cuda().device(), kCUDA);
    EXPECT_EQ(x.to("cuda:0").device(), kCUDA);
    EXPECT_EQ(x.cuda().cpu().device(), kCPU);
  }
  EXPECT_EQ(x.to(kCPU, kFloat64).dtype(), kFloat64);
  EXPECT_EQ(x.to("cpu", kFloat16).dtype(), kFloat16);
  EXPECT_EQ(x.to(kInt32, kCPU).dtype(), kInt32);
  expect_same_bits("view", x.view(-1, 2), x.view({-1, 2}));
  expect_same_bits("view of one", x.view(-1), x.view({-1}));
  expect_same_bits("reshape", x.reshape(3, 2), x.reshape({3, 2}));
  expect_same_bits("permute", x.permute(1, 0), x.permute({1, 0}));
  expect_same_bits("expand", x.expand(4, 2, 3), x.expand({4, 2, 3}));
  expect_same_bits("repeat", x.repeat(2, 1), x.repeat({2, 1}));
  expect_same_bits("add", x.add(y), x + y);
  expect_same_bits("add a scalar", x.add(2), x + 2);
  expect_same_bits("add scaled", x.add(y, 3), x + y * 3);
  expect_same_bits("sub", x.sub(y), x - y);
  expect_same_bits("sub a scalar", x.sub(0.5), x - 0.5);
  expect_same_bits("sub scaled", x.sub(y, 3), x - y * 3);
  expect_same_bits("mul", x.mul(y), x * y);
  expect_same_bits("mul by a scalar", x.mul(2), x * 2);
  expect_same_bits("div", x.div(y), x / y);
  expect_same_bits("div by a scalar", x.div(2), x / 2);
  expect_same_bits("eq", x.eq(2), x == 2);
  expect_same_bits("ne", x.ne(y), x != y);
  expect_same_bits("lt", x.lt(y), x < y);
  expect_same_bits("le", x.le(3), x <= 3);
  expect_same_bits("gt", x.gt(y), x > y);
  expect_same_bits("ge", x.ge(3), x >= 3);
  EXPECT_EQ(tensor({1, 2}).add(0.5).dtype(), kFloat32);
}

TEST(Spellings, InPlaceFunctions) {
  const Tensor x = tensor({-1.0, 0.25, 3.0});
  expect_values("clamp_", x.clone().clamp_(0, 1), {0, 0.25, 1});
  expect_values("clamp_min_", x.clone().clamp_min_(0.5), {0.5, 0.5, 3});
  expect_values("clamp_max_", x.clone().clamp_max_(0), {-1, 0, 0});
  expect_values("lerp_", x.clone().lerp_(tensor(1.0), 0.5), {0, 0.625, 2});
  expect_values("lerp_ of tensors", x.clone().lerp_(x * 0.0, tensor({0.0, 1.0, 0.5})), {-1, 0, 1.5});
  expect_values("addcmul_", x.clone().addcmul_(tensor({1, 2, 3}), tensor(2.0), 0.5), {0, 2.25, 6});
  expect_values("addcdiv_", x.clone().addcdiv_(tensor(1.0), tensor({1, 2, 4}), 2.0), {1, 1.25, 3.5});
  expect_values("integers", tensor({1, 5}).clamp_(2, 4).addcmul_(tensor({1, 2}), tensor({3, 4})), {5, 12});
  // The products of float16 are not rounded before the sum: float16 cannot hold 2049.
  const Tensor half = full({1}, -2048.0, {.dtype = kFloat16});
  expect_values("once", half.clone().addcmul_(full({1}, 683.0, half.options()), full({1}, 3.0, half.options())), {1});
  EXPECT_ERROR(tensor({1, 2}).clamp_(0.5, 1), "clamp_: a scalar takes the tensor's dtype", "int64");
  EXPECT_ERROR(tensor({1.0}).clone().addcmul_(tensor({1.0, 2.0}), tensor(1.0)), "addcmul_: the operand must broadcast");
  EXPECT_ERROR(tensor({1}).addcdiv_(tensor(1), tensor(1)), "addcdiv_: the dtype must be floating point; got int64");
  Tensor leaf = ones(2, {.requires_grad = true});
  const Tape tape;
  EXPECT_ERROR(leaf.clamp_(0, 1), "clamp_: in-place operations must not change a leaf");
  EXPECT_ERROR(leaf.lerp_(leaf, 0.5), "lerp_: in-place operations must not change a leaf");
  EXPECT_ERROR(leaf.addcmul_(leaf, leaf), "addcmul_: in-place operations must not change a leaf");
}

TEST(Spellings, OptionsByName) {
  const Tensor x = tensor({-1.0, 0.5, 2.0});
  expect_same_bits("gelu", gelu(x, "none"), gelu(x));
  expect_same_bits("gelu tanh", gelu(x, "tanh"), gelu_tanh(x));
  EXPECT_ERROR(gelu(x, "erf"), "gelu: approximate must be \"none\" or \"tanh\"; got \"erf\"");
  manual_seed(5);
  const Tensor q = randn(2, 4, 8), k = randn(2, 4, 8), v = randn(2, 4, 3);
  expect_same_bits("causal", scaled_dot_product_attention(q, k, v, {.is_causal = true}),
                   scaled_dot_product_attention(q, k, v, Tensor{}, 0.0, true));
  const Tensor mask = eye(4) > 0;
  expect_same_bits("mask and scale", scaled_dot_product_attention(q, k, v, {.attn_mask = mask, .scale = 0.25}),
                   scaled_dot_product_attention(q, k, v, mask, 0.0, false, 0.25));
}

}  // namespace
}  // namespace adjoint
