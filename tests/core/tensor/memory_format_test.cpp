#include <adjoint/adjoint.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

Tensor image(const Shape& shape) { return Tensor::arange(static_cast<double>(shape.numel())).reshape(shape); }

TEST(MemoryFormat, MovesElementsAndKeepsValues) {
  const Tensor x = image({2, 3, 2, 2}), last = x.to(kChannelsLast);
  EXPECT_EQ(last.shape(), x.shape());
  EXPECT_EQ(last.strides(), Strides({12, 1, 6, 3}));
  EXPECT_EQ(last.memory_format(), kChannelsLast);
  EXPECT_TRUE(last.is_contiguous(kChannelsLast));
  EXPECT_FALSE(last.is_contiguous());
  expect_same_bits("values", last, x);
  expect_values("memory", last.permute(0, 2, 3, 1).reshape(-1).narrow(0, 0, 4), {0, 4, 8, 1});
  expect_same_bits("back", last.contiguous(), x);
  EXPECT_EQ(last.to(kContiguous).strides(), x.strides());
  EXPECT_EQ(image({2, 3, 4}).to(kChannelsLast).strides(), Strides({12, 1, 3}));
  EXPECT_EQ(image({2, 3, 1, 2, 2}).to(kChannelsLast).strides(), Strides({12, 1, 12, 6, 3}));
}

TEST(MemoryFormat, IsUndecidedForOneChannelAndSinglePixels) {
  for (const Shape& shape : {Shape{2, 1, 3, 3}, Shape{2, 3, 1, 1}}) {
    const Tensor x = image(shape);
    EXPECT_TRUE(x.is_contiguous(kChannelsLast)) << shape;
    EXPECT_EQ(x.memory_format(), kContiguous) << shape;
    EXPECT_EQ(x.to(kChannelsLast).raw_data(), x.raw_data()) << shape;
  }
  const Tensor last = image({2, 3, 2, 2}).to(kChannelsLast), bias = image({1, 3, 1, 1});
  EXPECT_EQ((bias + last).memory_format(), kChannelsLast);
  EXPECT_EQ((image({2, 1, 2, 2}) * last).memory_format(), kChannelsLast);
}

TEST(MemoryFormat, FollowsTheFirstOperandThatDecides) {
  const Tensor x = image({2, 3, 2, 2}), last = x.to(kChannelsLast);
  EXPECT_EQ((last + x).memory_format(), kChannelsLast);
  EXPECT_EQ((x + last).memory_format(), kContiguous);
  expect_same_bits("mixed", x + last, last + x);
  EXPECT_EQ(where(x > 5, last, x).memory_format(), kChannelsLast) << "masks do not decide";
  EXPECT_EQ(((last > 5) & (last < 9)).memory_format(), kChannelsLast);
  EXPECT_EQ(dropout(last, 0.5).memory_format(), kChannelsLast);
  EXPECT_EQ(last.narrow(1, 1, 2).memory_format(), kChannelsLast) << "gaps do not matter";
  EXPECT_FALSE(last.narrow(1, 1, 2).is_contiguous(kChannelsLast));
  EXPECT_EQ(relu(last.narrow(1, 1, 2)).strides(), Strides({8, 1, 4, 2}));
  EXPECT_EQ(x.transpose(1, 2).memory_format(), kContiguous);
  EXPECT_EQ(image({2, 4, 3}).transpose(1, 2).memory_format(), kChannelsLast);
}

TEST(MemoryFormat, IsKeptByCopiesAndFactories) {
  const Tensor last = image({2, 3, 2, 2}).to(kChannelsLast);
  EXPECT_EQ(last.clone().strides(), last.strides());
  EXPECT_EQ(last.to(kFloat16).strides(), last.strides());
  for (const Tensor& like : {empty_like(last), zeros_like(last), ones_like(last), rand_like(last), randn_like(last),
                             full_like(last, 3.0), empty_like(last, {.dtype = kFloat64})}) {
    EXPECT_EQ(like.strides(), last.strides());
  }
  EXPECT_EQ(empty_like(last, {.memory_format = kContiguous}).memory_format(), kContiguous);
  EXPECT_EQ(last.new_zeros({2, 3, 2, 2}).memory_format(), kContiguous);
  EXPECT_EQ(Tensor::zeros({2, 3, 2, 2}, {.memory_format = kChannelsLast}).strides(), last.strides());
  const std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7};
  const Tensor made = Tensor::from_vector(values, {1, 2, 2, 2}, {.memory_format = kChannelsLast});
  EXPECT_EQ(made.memory_format(), kChannelsLast);
  EXPECT_EQ(made.to_vector<float>(), values);
  std::vector<float> memory{0, 4, 1, 5, 2, 6, 3, 7};
  expect_same_bits("blob", Tensor::from_blob(memory.data(), {1, 2, 2, 2}, {.memory_format = kChannelsLast}), made);
}

TEST(MemoryFormat, DoesNotChangeRandomNumbers) {
  const Tensor x = image({2, 3, 2, 2});
  manual_seed(3);
  const Tensor contiguous = randn_like(x);
  manual_seed(3);
  expect_same_bits("randn_like", randn_like(x.to(kChannelsLast)), contiguous);
}

TEST(MemoryFormat, NeedsThreeToFiveAxes) {
  EXPECT_ERROR(Tensor::ones({2, 3}).to(kChannelsLast), "contiguous: ", "3 to 5 axes", "(2, 3)");
  EXPECT_ERROR(Tensor::zeros({2}, {.memory_format = kChannelsLast}), "zeros: ", "3 to 5 axes");
  EXPECT_FALSE(Tensor::ones({2, 3}).is_contiguous(kChannelsLast));
}

TEST(MemoryFormat, GradientsOfLeavesHaveTheLeavesFormat) {
  Tensor x = image({2, 3, 2, 2}).to(kChannelsLast).requires_grad_();
  const Tensor weights = image({2, 3, 2, 2});
  for (int sweep = 0; sweep < 2; ++sweep) {
    Tape tape;
    (x * weights).sum().backward();
    EXPECT_EQ(x.grad().strides(), x.strides());
  }
  expect_same_bits("twice", x.grad(), weights * 2.0);
}

TEST(MemoryFormat, InPlaceOperationsWriteIt) {
  const Tensor x = image({2, 3, 2, 2});
  Tensor last = x.to(kChannelsLast);
  last.add_(x).mul_(2.0);
  EXPECT_EQ(last.memory_format(), kChannelsLast);
  expect_same_bits("in place", last, x * 4.0);
  last.copy_(x);
  expect_same_bits("copy_", last, x);
  last.fill_(3.0);
  expect_same_bits("fill_", last, full_like(x, 3.0));
}

TEST(MemoryFormat, MovesFiltersOfConvolutions) {
  nn::Sequential net{nn::Conv2d(3, 4, 3, {.padding = 1}), nn::ReLU(), nn::BatchNorm2d(4), nn::ConvTranspose2d(4, 2, 2)};
  const Tensor x = Tensor::randn({2, 3, 5, 5});
  const Tensor expected = net(x);
  net.to(kChannelsLast);
  for (const auto& [name, parameter] : net.named_parameters()) {
    EXPECT_EQ(parameter.memory_format(), parameter.dim() == 4 ? kChannelsLast : kContiguous) << name;
  }
  const Tensor found = net(x.to(kChannelsLast));
  EXPECT_EQ(found.memory_format(), kChannelsLast);
  EXPECT_LT((found - expected).abs().max().item<float>(), 1e-4F);
  net.to(kContiguous);
  for (const Tensor& parameter : net.parameters()) EXPECT_TRUE(parameter.is_contiguous());
}

}  // namespace
}  // namespace adjoint
