// The view members, embed and sum_to: values against index arithmetic, shared storage, gradients, refusals.
#include <adjoint/adjoint.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_values;
using testing::non_contiguous;
using testing::reals;

Tensor counting(const Shape& shape, DType dtype = kFloat32) {
  return Tensor::arange(0.0, static_cast<double>(shape.numel()), 1.0, {.dtype = dtype}).reshape(shape);
}

// Element-wise, through strides alone.
double at(const Tensor& tensor, const Dims& index) {
  std::int64_t offset = tensor.storage_offset();
  for (std::size_t i = 0; i < index.size(); ++i) offset += index[i] * tensor.strides()[i];
  const Tensor base = tensor.view_as({1}, {1}, offset);
  return base.item<double>();
}

bool shares_storage(const Tensor& a, const Tensor& b) { return a.impl()->storage == b.impl()->storage; }

TEST(Reshape, KeepsRowMajorOrderAndSharesStorage) {
  const Tensor x = counting({2, 3, 4});
  for (const Shape& shape : {Shape{24}, Shape{4, 6}, Shape{1, 2, 3, 1, 4}, Shape{2, 12}, Shape{3, 2, 2, 2}}) {
    const Tensor y = x.reshape(shape);
    EXPECT_EQ(y.shape(), shape);
    EXPECT_TRUE(shares_storage(x, y));
    expect_values(to_string(shape), y, x.to_vector<double>());
  }
  EXPECT_EQ(x.reshape({-1, 6}).shape(), (Shape{4, 6}));
  EXPECT_EQ(x.reshape({2, -1, 2}).shape(), (Shape{2, 6, 2}));
  EXPECT_EQ(x.reshape({24, -1}).shape(), (Shape{24, 1}));
}

TEST(Reshape, ViewsStridedTensorsWhereStridesAllowAndCopiesElsewhere) {
  const Tensor x = counting({4, 6, 8});
  const Tensor sliced = x.narrow(0, 1, 2).narrow(2, 2, 5);  // (2, 6, 5): the first two axes are evenly spaced
  const Tensor merged = sliced.reshape({12, 5});
  EXPECT_TRUE(shares_storage(merged, x));
  EXPECT_EQ(at(merged, {7, 3}), 48 + 48 + 8 + 2 + 3);
  const Tensor split = sliced.reshape({2, 2, 3, 1, 5});
  EXPECT_TRUE(shares_storage(split, x));
  EXPECT_EQ(at(split, {1, 1, 2, 0, 4}), 2 * 48 + 5 * 8 + 2 + 4);
  const Tensor flat = sliced.reshape({60});
  EXPECT_FALSE(shares_storage(flat, x));
  expect_values("flat", flat, sliced.to_vector<double>());
  const Tensor turned = x.permute({2, 0, 1});
  EXPECT_TRUE(shares_storage(turned.reshape({8, 24}), x));
  EXPECT_FALSE(shares_storage(turned.reshape({32, 6}), x));
  expect_values("turned", turned.reshape({32, 6}), turned.to_vector<double>());
  const Tensor repeated = counting({3, 1}).expand({3, 4});
  EXPECT_FALSE(shares_storage(repeated.reshape({12}), repeated));
  expect_values("repeated", repeated.reshape({12}), {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
}

TEST(Reshape, TakesTensorsWithoutElementsAndScalars) {
  EXPECT_EQ(Tensor::zeros({0, 3}).reshape({5, 0, 2}).shape(), (Shape{5, 0, 2}));
  EXPECT_EQ(Tensor::zeros({0, 3}).reshape({-1, 3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(Tensor::scalar(3.0).reshape({1, 1}).shape(), (Shape{1, 1}));
  EXPECT_EQ(Tensor::ones({1, 1}).reshape({}).dim(), 0);
  EXPECT_EQ(Tensor::zeros({4, 0}).transpose(0, 1).reshape({0}).numel(), 0);
}

TEST(Reshape, RefusesShapesThatDoNotFit) {
  const Tensor x = counting({2, 3});
  EXPECT_ERROR(x.reshape({4, 2}), "reshape: ", "(2, 3) of 6 elements", "(4, 2)");
  EXPECT_ERROR(x.reshape({-1, -1}), "reshape: at most one extent may be -1", "(-1, -1)");
  EXPECT_ERROR(x.reshape({-1, 4}), "reshape: ", "(-1, 4)", "do not divide");
  EXPECT_ERROR(x.reshape({-2, 3}), "reshape: extents must be at least 0", "(-2, 3)");
  EXPECT_ERROR(Tensor::zeros({0, 3}).reshape({-1, 0}), "reshape: -1 is ambiguous", "(0, 3)");
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_ERROR(x.reshape({huge, huge}), "reshape: the number of elements must stay the same");
  EXPECT_ERROR(x.reshape({huge, huge, -1}), "reshape: the number of elements must stay the same");
  EXPECT_ERROR(x.reshape({huge, std::int64_t{1} << 24, 0}), "reshape: ");
  EXPECT_ERROR(Tensor{}.reshape({1}), "reshape: input must be defined");
}

TEST(View, NeverCopies) {
  const Tensor x = counting({2, 3, 4}), turned = x.transpose(0, 1);
  EXPECT_TRUE(shares_storage(x, x.view({-1, 6})));
  EXPECT_EQ(x.view({-1, 6}).shape(), (Shape{4, 6}));
  EXPECT_TRUE(shares_storage(turned.view({3, 2, 2, 2}), x));
  expect_values("strided", turned.view({3, 2, 2, 2}), turned.to_vector<double>());
  EXPECT_EQ(Tensor::zeros({3, 0}).transpose(0, 1).view({0, 5}).shape(), (Shape{0, 5}));
  EXPECT_ERROR(turned.view({6, 4}), "view: strides must allow a view; got input (3, 2, 4) of strides (4, 12, 1)",
               "(6, 4)", "call reshape");
  EXPECT_ERROR(x.view({5, 5}), "view: the number of elements must stay the same", "(2, 3, 4)", "(5, 5)");
  EXPECT_ERROR(Tensor{}.view({1}), "view: input must be defined");
}

TEST(Transpose, OfAMatrixHasAShortName) {
  const Tensor x = counting({2, 3});
  expect_values("matrix", x.t(), {0, 3, 1, 4, 2, 5});
  EXPECT_TRUE(shares_storage(x, x.t()));
  EXPECT_EQ(counting({3}).t().shape(), (Shape{3}));
  EXPECT_EQ(Tensor::scalar(2.0).t().dim(), 0);
  EXPECT_EQ(Tensor::zeros({0, 3}).t().shape(), (Shape{3, 0}));
  EXPECT_ERROR(counting({2, 3, 4}).t(), "t: a tensor of at most two axes is needed; got (2, 3, 4)", "transpose()");
  EXPECT_ERROR(Tensor{}.t(), "t: input must be defined");
}

TEST(Flatten, MergesARangeOfAxes) {
  const Tensor x = counting({2, 3, 4, 5});
  EXPECT_EQ(x.flatten().shape(), (Shape{120}));
  EXPECT_EQ(x.flatten(1).shape(), (Shape{2, 60}));
  EXPECT_EQ(x.flatten(1, 2).shape(), (Shape{2, 12, 5}));
  EXPECT_EQ(x.flatten(-2).shape(), (Shape{2, 3, 20}));
  EXPECT_EQ(Tensor::scalar(1.0).flatten().shape(), (Shape{1}));
  EXPECT_ERROR(x.flatten(2, 1), "flatten: the first axis must not come after the last; got 2 and 1");
  EXPECT_ERROR(x.flatten(4), "flatten");
}

TEST(Squeeze, DropsAndAddsAxesOfOne) {
  const Tensor x = counting({1, 3, 1, 4}).permute({3, 2, 1, 0});  // (4, 1, 3, 1), not contiguous
  EXPECT_EQ(x.squeeze().shape(), (Shape{4, 3}));
  EXPECT_EQ(x.squeeze(1).shape(), (Shape{4, 3, 1}));
  EXPECT_EQ(x.squeeze(-1).shape(), (Shape{4, 1, 3}));
  EXPECT_EQ(x.squeeze(0).shape(), x.shape());
  EXPECT_TRUE(shares_storage(x.squeeze(), x));
  expect_values("squeeze", x.squeeze(), x.to_vector<double>());
  EXPECT_EQ(x.squeeze().unsqueeze(0).shape(), (Shape{1, 4, 3}));
  EXPECT_EQ(x.squeeze().unsqueeze(-1).shape(), (Shape{4, 3, 1}));
  EXPECT_TRUE(shares_storage(x.squeeze().unsqueeze(1), x));
  EXPECT_ERROR(x.squeeze(4), "squeeze: axis must lie in [-4, 4); got 4");
  EXPECT_ERROR(x.squeeze(-5), "squeeze: axis must lie in [-4, 4); got -5");
  EXPECT_ERROR(x.squeeze(INT64_MIN), "squeeze: axis must lie in [-4, 4); got -9223372036854775808");
  EXPECT_ERROR(Tensor::ones({}).squeeze(0), "squeeze: axis must lie in [0, 0); got 0");
  EXPECT_ERROR(Tensor{}.squeeze(0), "squeeze: input must be defined");
  EXPECT_ERROR(x.unsqueeze(6), "unsqueeze");
  EXPECT_ERROR(Tensor::zeros({1, 1, 1, 1, 1, 1, 1, 1}).unsqueeze(0), "unsqueeze: a tensor has at most 8 axes");
}

TEST(Permute, MovesAxes) {
  const Tensor x = counting({2, 3, 4});
  const Tensor y = x.permute({2, 0, -2});
  ASSERT_EQ(y.shape(), (Shape{4, 2, 3}));
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 2; ++j) {
      for (std::int64_t k = 0; k < 3; ++k) EXPECT_EQ(at(y, {i, j, k}), static_cast<double>(j * 12 + k * 4 + i));
    }
  }
  expect_values("transpose", counting({2, 3}).transpose(0, -1), {0, 3, 1, 4, 2, 5});
  EXPECT_ERROR(x.permute({0, 1}), "permute: axes must name every axis", "(0, 1)", "(2, 3, 4)");
  EXPECT_ERROR(x.permute({0, 1, 1}), "permute: axes must name every axis", "(0, 1, 1)");
  EXPECT_ERROR(x.permute({0, 1, 3}), "permute");
  EXPECT_ERROR(x.transpose(0, 3), "transpose");
}

TEST(Narrow, TakesARange) {
  const Tensor x = counting({2, 3, 4});
  expect_values("narrow", x.narrow(2, 1, 2), {1, 2, 5, 6, 9, 10, 13, 14, 17, 18, 21, 22});
  EXPECT_TRUE(shares_storage(x, x.narrow(0, 1, 1)));
  EXPECT_EQ(x.narrow(1, 3, 0).shape(), (Shape{2, 0, 4}));
  expect_values("select", x.select(1, 2), {8, 9, 10, 11, 20, 21, 22, 23});
  expect_values("select from the end", x.select(-1, -1), {3, 7, 11, 15, 19, 23});
  EXPECT_ERROR(x.narrow(1, 2, 2), "narrow: the range must lie inside the axis", "start 2, length 2 on axis 1",
               "(2, 3, 4)");
  EXPECT_ERROR(x.narrow(1, -1, 1), "narrow: the range must lie inside the axis");
  EXPECT_ERROR(x.narrow(1, 0, -1), "narrow: the range must lie inside the axis");
  EXPECT_ERROR(x.narrow(1, std::numeric_limits<std::int64_t>::max(), 1), "narrow");
  EXPECT_ERROR(x.narrow(3, 0, 1), "narrow");
  EXPECT_ERROR(x.select(0, 2), "select: the index must lie in [-2, 2); got 2 on axis 0", "(2, 3, 4)");
  EXPECT_ERROR(x.select(0, -3), "select: the index");
}

TEST(Embed, SurroundsWithZeros) {
  for (const DType dtype : {kFloat32, kFloat16, kInt64, kBool}) {
    const Tensor x = Tensor::ones({2, 2}, {.dtype = dtype});
    expect_values("embed", embed(x, 1, 1, 4), {0, 1, 1, 0, 0, 1, 1, 0});
    expect_values("embed", embed(x, 0, 0, 3), {1, 1, 1, 1, 0, 0});
    EXPECT_EQ(embed(x, -1, 2, 4).dtype(), dtype);
  }
  EXPECT_EQ(embed(Tensor::zeros({0, 2}), 0, 0, 3).shape(), (Shape{3, 2}));
  expect_values("embed nothing", embed(Tensor::zeros({0, 2}), 0, 1, 1), {0, 0});
  const Tensor turned = counting({2, 3}).transpose(0, 1);
  expect_values("embed strided", embed(turned, 0, 1, 4), {0, 0, 0, 3, 1, 4, 2, 5});
  EXPECT_ERROR(embed(turned, 0, 2, 4), "embed: the input must fit inside the extent; got start 2, extent 4", "(3, 2)");
  EXPECT_ERROR(embed(turned, 0, -1, 4), "embed: ");
  EXPECT_ERROR(embed(turned, 0, 0, 2), "embed: ");
}

TEST(Expand, RepeatsWithoutCopying) {
  const Tensor x = counting({3, 1});
  const Tensor y = x.expand({2, -1, 4});
  ASSERT_EQ(y.shape(), (Shape{2, 3, 4}));
  EXPECT_TRUE(shares_storage(x, y));
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      for (std::int64_t k = 0; k < 4; ++k) EXPECT_EQ(at(y, {i, j, k}), static_cast<double>(j));
    }
  }
  EXPECT_EQ(x.expand({3, 0}).numel(), 0);
  EXPECT_EQ(Tensor::scalar(2.0).expand({2, 2}).to_vector<double>(), std::vector<double>(4, 2.0));
  EXPECT_ERROR(x.expand({4, 1}), "expand: only axes of extent 1 can be repeated", "(3, 1)", "(4, 1)");
  EXPECT_ERROR(x.expand({3}), "expand: the shape must have at least the input's axes", "(3, 1)", "(3,)");
  EXPECT_ERROR(x.expand({-1, 3, 2}), "expand: extents must be at least 0");
  EXPECT_ERROR(x.expand({std::int64_t{1} << 40, 3, std::int64_t{1} << 40}), "63 bits");
}

TEST(SumTo, UndoesBroadcasting) {
  const Tensor x = counting({2, 3, 2});
  expect_values("(3, 1)", sum_to(x, {3, 1}), {0 + 1 + 6 + 7, 2 + 3 + 8 + 9, 4 + 5 + 10 + 11});
  expect_values("()", sum_to(x, {}), {66});
  expect_values("(1, 3, 2)", sum_to(x, {1, 3, 2}), {6, 8, 10, 12, 14, 16});
  expect_values("added axes of one", sum_to(counting({1, 1, 3}), {3}), {0, 1, 2});
  EXPECT_ERROR(sum_to(x, {4, 1}), "sum_to: the shape must broadcast to the input's", "(2, 3, 2)", "(4, 1)");
  EXPECT_ERROR(sum_to(x, {1, 2, 3, 2}), "sum_to: ");
}

TEST(Views, KeepDTypeOffsetsAndUndefinedIsRefused) {
  const Tensor x = counting({4, 4}, kInt32).narrow(0, 1, 2).transpose(0, 1).select(0, 2);
  EXPECT_EQ(x.dtype(), kInt32);
  expect_values("chained", x, {6, 10});
  const Tensor none;
  EXPECT_ERROR(none.permute({0}), "permute: input must be defined");
  EXPECT_ERROR(none.transpose(0, 1), "transpose: input must be defined");
  EXPECT_ERROR(none.narrow(0, 0, 1), "narrow: input must be defined");
  EXPECT_ERROR(none.select(0, 0), "select: input must be defined");
  EXPECT_ERROR(none.expand({1}), "expand: input must be defined");
  EXPECT_ERROR(none.flatten(), "flatten: input must be defined");
  EXPECT_ERROR(none.squeeze(), "squeeze: input must be defined");
  EXPECT_ERROR(none.unsqueeze(0), "unsqueeze: input must be defined");
}

struct ViewCase {
  const char* name;
  Tensor (*view)(const Tensor& x);  // of (2, 3, 4)
};

const ViewCase kViews[] = {
    {"reshape_to_itself",
     [](const Tensor& x) {
       return x.reshape({2, 3, 4});
     }},
    {"reshape",
     [](const Tensor& x) {
       return x.reshape({4, 6});
     }},
    {"reshape_copy",
     [](const Tensor& x) {
       return x.permute({2, 1, 0}).reshape({6, 4});
     }},
    {"flatten", [](const Tensor& x) { return x.flatten(1); }},
    {"permute",
     [](const Tensor& x) {
       return x.permute({1, 2, 0});
     }},
    {"transpose", [](const Tensor& x) { return x.transpose(0, 2); }},
    {"narrow", [](const Tensor& x) { return x.narrow(1, 1, 2); }},
    {"narrow_nothing", [](const Tensor& x) { return x.narrow(1, 1, 0); }},
    {"select", [](const Tensor& x) { return x.select(2, -2); }},
    {"unsqueeze", [](const Tensor& x) { return x.unsqueeze(1); }},
    {"squeeze", [](const Tensor& x) { return x.narrow(0, 0, 1).squeeze(); }},
    {"expand",
     [](const Tensor& x) {
       return x.narrow(1, 0, 1).expand({5, 2, 3, 4});
     }},
    {"embed", [](const Tensor& x) { return embed(x, 1, 2, 6); }},
    {"sum_to",
     [](const Tensor& x) {
       return sum_to(x, {3, 1});
     }},
};

class ViewGradient : public ::testing::TestWithParam<ViewCase> {};

TEST_P(ViewGradient, MatchesFiniteDifferences) {
  const Tensor x = Tensor::from_vector<double>(reals(24, 1), {2, 3, 4}, {.dtype = kFloat64});
  const auto view = GetParam().view;
  // Squared, so that second order is not zero everywhere.
  const auto f = [view](const std::vector<Tensor>& in) { return square(view(in[0])); };
  if (view(x).numel() == 0) {
    Tape tape;
    const Tensor leaf = x.clone().requires_grad_();
    tape.backward(f({leaf}).sum());
    expect_values("gradient", leaf.grad(), std::vector<double>(24, 0.0));
    return;
  }
  EXPECT_TRUE(gradcheck(f, {x}));
  EXPECT_TRUE(gradgradcheck(f, {x}));
}

INSTANTIATE_TEST_SUITE_P(All, ViewGradient, ::testing::ValuesIn(kViews),
                         [](const auto& test) { return test.param.name; });

// Their strides are products beyond 63 bits, as are extents that would be merged; UBSan sees each that is taken.
TEST(View, OfWhatHasNoElementsMayHaveExtentsBeyond63Bits) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  const Tensor x = Tensor::zeros({0, kHuge, 8});
  EXPECT_EQ(x.permute({2, 0, 1}).shape(), (Shape{8, 0, kHuge}));
  EXPECT_EQ(x.transpose(0, 1).contiguous().shape(), (Shape{kHuge, 0, 8}));
  EXPECT_EQ(x.reshape({kHuge, 0, 8, kHuge}).shape(), (Shape{kHuge, 0, 8, kHuge}));
  EXPECT_EQ(x.reshape({kHuge, 8, 0}).shape(), (Shape{kHuge, 8, 0}));
  EXPECT_ERROR(Tensor::ones({2}).reshape({kHuge, 8, 0}), "reshape: the number of elements must stay the same");
  EXPECT_EQ(x.unsqueeze(1).squeeze(1).shape(), x.shape());
  EXPECT_EQ(x.flatten(0, 1).shape(), (Shape{0, 8}));
  EXPECT_ERROR(x.flatten(1, 2), "flatten: the number of elements must fit in 63 bits; got (2305843009213693952, 8)");
  EXPECT_ERROR(x.reshape({0, -1}), "reshape: -1 is ambiguous");
  EXPECT_EQ(x.narrow(1, kHuge - 1, 1).select(2, -1).shape(), (Shape{0, 1}));
  EXPECT_EQ(x.narrow(1, kHuge - 1, 1).narrow(2, 8, 0).storage_offset(), 0);
  EXPECT_ERROR(x.select(0, 0), "select: the index must lie in [-0, 0); got 0");
  const Tensor wide = Tensor::zeros({0, 1, 1, 1}).expand({0, kHuge, kHuge, 8});
  EXPECT_EQ(wide.permute({3, 2, 1, 0}).clone().shape(), (Shape{8, kHuge, kHuge, 0}));
  EXPECT_EQ(sum_to(wide, {1, 1, 1, 1}).to_vector<float>(), (std::vector<float>{0}));
  EXPECT_ERROR(Tensor::zeros({1, 1}).expand({kHuge, 8}), "expand: the number of elements must fit in 63 bits");

  EXPECT_EQ(embed(x, 1, 0, INT64_MAX).shape(), (Shape{0, INT64_MAX, 8}));
  EXPECT_EQ(roll(x, INT64_MIN, 1).shape(), x.shape());
  EXPECT_EQ(roll(Tensor::zeros({INT64_MAX, 0}), INT64_MAX - 1, 0).shape(), (Shape{INT64_MAX, 0}));
  EXPECT_EQ(pad(x, {1, 1, kHuge, kHuge}).shape(), (Shape{0, 3 * kHuge, 10}));
  EXPECT_ERROR(pad(x, {0, 0, INT64_MAX, 0}), "pad: the result's extents must fit in 63 bits");
  EXPECT_EQ(cat({x, x}, 1).shape(), (Shape{0, 2 * kHuge, 8}));
  EXPECT_ERROR(cat({x, x, x, x}, 1), "cat: the result's extents must fit in 63 bits; got 4 tensors");
  EXPECT_ERROR(matmul(Tensor::zeros({kHuge, 8, 0}), Tensor::zeros({0, 3})), "matmul: the number of elements must fit");
  EXPECT_EQ(argmax(x, 2).shape(), (Shape{0, kHuge}));
  EXPECT_ERROR(x.transpose(0, 2).mean({0, 1}), "mean: the number of elements must fit in 63 bits");
  EXPECT_ERROR(pixel_shuffle(Tensor::zeros({0, 16, kHuge, 2}), 4), "pixel_shuffle: the result's extents must fit");
  EXPECT_ERROR(pixel_unshuffle(Tensor::zeros({0, kHuge, 4, 4}), 2), "pixel_unshuffle: the result's extents must fit");
}

}  // namespace
}  // namespace adjoint
