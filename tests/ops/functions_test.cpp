// Functions composed of others (ops/functions.h): values as PyTorch gives them, gradients, dtypes, bad calls.
#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

Tensor of(const std::vector<double>& values) {
  return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())}, {.dtype = kFloat64});
}

void expect_near(const std::string& what, const Tensor& actual, const std::vector<double>& wanted) {
  const auto values = actual.to_vector<double>();
  ASSERT_EQ(values.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << what << ' ' << i << ": " << values[i];
    } else if (std::isinf(wanted[i])) {
      EXPECT_EQ(values[i], wanted[i]) << what << ' ' << i;
    } else {
      EXPECT_NEAR(values[i], wanted[i], 1e-12 * std::max(1.0, std::abs(wanted[i]))) << what << ' ' << i;
    }
  }
}

TEST(Functions, AreMembersAndOperators) {
  const Tensor x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}), y = x * 0.5, line = x[0];
  const Tensor places = tensor({{0, 2, 1}, {1, 0, 2}});
  EXPECT_EQ(numel(x), 6);
  EXPECT_TRUE(is_floating_point(x));
  EXPECT_FALSE(is_floating_point(places));
  expect_same_bits("reshape", reshape(x, {3, -1}), x.reshape({3, 2}));
  expect_same_bits("flatten", flatten(x), x.flatten());
  expect_same_bits("flatten of two", flatten(x.unsqueeze(0), 0, 1), x);
  expect_same_bits("squeeze", squeeze(x.unsqueeze(0)), x);
  expect_same_bits("squeeze of one", squeeze(x.unsqueeze(0), 0), x);
  expect_same_bits("unsqueeze", unsqueeze(x, 1), x.unsqueeze(1));
  expect_same_bits("transpose", transpose(x, 0, 1), x.t());
  expect_same_bits("swapaxes", swapaxes(x, 0, 1), x.t());
  expect_same_bits("t", t(x), x.t());
  expect_same_bits("permute", permute(x, {1, 0}), x.t());
  expect_same_bits("moveaxis", moveaxis(x, 0, 1), x.t());
  expect_same_bits("narrow", narrow(x, 1, 1, 2), x.narrow(1, 1, 2));
  expect_same_bits("select", select(x, 0, 1), x[1]);
  expect_same_bits("broadcast_to", broadcast_to(line, {4, 3}), line.expand(4, 3));
  expect_same_bits("add", add(x, y), x + y);
  expect_same_bits("add, scaled", add(x, y, 2), x + y * 2);
  expect_same_bits("add, a scalar", add(x, 2), x + 2);
  expect_same_bits("sub", sub(x, y), x - y);
  expect_same_bits("sub, a scalar", sub(x, 2), x - 2);
  expect_same_bits("mul", mul(x, y), x * y);
  expect_same_bits("mul, a scalar", mul(x, 2), x * 2);
  expect_same_bits("div", div(x, y), x / y);
  expect_same_bits("div, a scalar", div(x, 2), x / 2);
  expect_same_bits("eq", eq(x, y), x == y);
  expect_same_bits("ne", ne(x, 2), x != 2);
  expect_same_bits("lt", lt(x, y), x < y);
  expect_same_bits("le", le(x, 2), x <= 2);
  expect_same_bits("gt", gt(x, y), x > y);
  expect_same_bits("ge", ge(x, 2), x >= 2);
  expect_same_bits("clip", clip(x, 2, 4), clamp(x, 2, 4));
  expect_same_bits("concat", concat({x, y}, 1), cat({x, y}, 1));
}

TEST(Functions, RoundQuotients) {
  const Tensor a = of({7, -7, 7, -7, 0.3, 5}), b = of({2, 2, -2, -2, 0.1, 0});
  expect_values("floor", div(a, b, "floor").narrow(0, 0, 5), {3, -4, -4, 3, 2});
  expect_values("trunc", div(a, b, "trunc").narrow(0, 0, 5), {3, -3, -3, 3, 2});
  expect_values("floor_divide", floor_divide(tensor({7, -7, 9}), tensor({2, 2, -4})), {3, -4, -3});
  expect_values("truncated", div(tensor({7, -7, 9}), tensor({2, 2, -4}), "trunc"), {3, -3, -2});
  EXPECT_EQ(floor_divide(tensor({7}), tensor({2})).dtype(), kInt64);
  EXPECT_EQ(floor_divide(tensor({7}, {.dtype = kInt32}), 2).dtype(), kInt32);
  expect_values("a scalar", floor_divide(of({7, -7}), 2), {3, -4});
  expect_values("an integer's", floor_divide(tensor({7, -7}), 2), {3, -4});
  EXPECT_EQ(floor_divide(tensor({7}), 2.0).dtype(), kFloat32);
  EXPECT_ERROR(div(a, b, "round"), "div: rounding_mode", "round");
}

TEST(Functions, OfElements) {
  const Tensor x = of({-2.5, -1, 0, 0.25, 1, 3});
  expect_near("frac", frac(x), {-0.5, 0, 0, 0.25, 0, 0});
  expect_near("exp2", exp2(x), {std::exp2(-2.5), 0.5, 1, std::exp2(0.25), 2, 8});
  expect_near("log10", log10(of({0.001, 1, 50, 1e6})), {-3, 0, std::log10(50), 6});
  expect_near("logaddexp", logaddexp(of({0, 1000, -kInf, kInf}), of({0, 999, -kInf, kInf})),
              {std::log(2.0), 1000 + std::log1p(std::exp(-1.0)), -kInf, kInf});
  expect_near("logaddexp, broadcast", logaddexp(of({0, 1}), tensor(0.0, {.dtype = kFloat64})),
              {std::log(2.0), std::log1p(std::exp(1.0))});
  expect_near("logit", logit(of({0.5, 0.75, 0})), {0, std::log(3.0), -kInf});
  expect_near("xlogy", xlogy(of({0, 0, 0, 2, 2}), of({0, kNan, -1, 3, -1})), {0, kNan, 0, 2 * std::log(3.0), kNan});
  expect_near("hypot", hypot(of({3, 0}), of({4, 0})), {5, 0});
  expect_near("heaviside", heaviside(of({-1, 0, 2, kNan}), of({9, 0.5, 9, 9})), {0, 0.5, 1, kNan});
  expect_near("deg2rad", deg2rad(of({180, -90})), {std::acos(-1.0), -std::acos(0.0)});
  expect_near("rad2deg", rad2deg(of({std::acos(-1.0)})), {180});
  expect_near("threshold", threshold(x, 0.25, -7), {-7, -7, -7, -7, 1, 3});
  expect_near("celu", celu(x, 2.0), {2 * std::expm1(-1.25), 2 * std::expm1(-0.5), 0, 0.25, 1, 3});
  expect_near("softshrink", softshrink(of({-2, -0.25, 0.5, 2, kNan}), 0.5), {-1.5, 0, 0, 1.5, kNan});
  expect_near("hardshrink", hardshrink(of({-2, -0.25, 0.5, 2, kNan}), 0.5), {-2, 0, 0, 2, kNan});
  expect_near("tanhshrink", tanhshrink(of({2})), {2 - std::tanh(2.0)});
  expect_near("addcmul", addcmul(of({1, 2}), of({3, 4}), of({5, 6}), 0.5), {8.5, 14});
  expect_near("addcdiv", addcdiv(of({1, 2}), of({3, 4}), of({6, 8}), 0.5), {1.25, 2.25});
  EXPECT_ERROR(celu(x, 0.0), "celu: alpha must not be 0");
  EXPECT_ERROR(frac(Tensor()), "frac: ");
  EXPECT_ERROR(log10(Tensor()), "log10: ");
}

TEST(Functions, PartsAndPlaces) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(tile(x, {2}).shape(), (Shape{2, 6}));
  expect_values("tile", tile(tensor({1, 2}), {2, 2}), {1, 2, 1, 2, 1, 2, 1, 2});
  expect_values("fliplr", fliplr(x), {3, 2, 1, 6, 5, 4});
  expect_values("flipud", flipud(x), {4, 5, 6, 1, 2, 3});
  expect_values("rot90", rot90(x), {3, 6, 2, 5, 1, 4});
  expect_values("rot90 back", rot90(x, -1), {4, 1, 5, 2, 6, 3});
  expect_values("rot90 twice", rot90(x, 6), {6, 5, 4, 3, 2, 1});
  expect_values("rot90, axes", rot90(x, 1, {1, 0}), {4, 1, 5, 2, 6, 3});
  expect_values("take", take(x, tensor({{5, 0}, {2, 2}})), {6, 1, 3, 3});
  EXPECT_EQ(take(x, tensor({{5, 0}, {2, 2}})).shape(), (Shape{2, 2}));
  EXPECT_EQ(vstack({tensor({1, 2}), tensor({3, 4})}).shape(), (Shape{2, 2}));
  EXPECT_EQ(vstack({x, tensor({7, 8, 9})}).shape(), (Shape{3, 3}));
  expect_values("hstack", hstack({tensor({1, 2}), tensor({3})}), {1, 2, 3});
  EXPECT_EQ(hstack({x, x}).shape(), (Shape{2, 6}));
  expect_values("diff", diff(tensor({1, 4, 9, 16})), {3, 5, 7});
  expect_values("diff twice", diff(tensor({1, 4, 9, 16}), 2), {2, 2});
  expect_values("diff of rows", diff(x, 1, 0), {3, 3, 3});
  expect_values("diff of truths", diff(tensor({true, false, false})), {1, 0});
  EXPECT_EQ(diff(x, 5).shape(), (Shape{2, 0}));
  expect_values("isin", isin(x, tensor({3, 4, 9})), {0, 0, 1, 1, 0, 0});
  const auto parts = tensor_split(arange(7), 3);
  ASSERT_EQ(parts.size(), 3U);
  expect_values("tensor_split", parts[0], {0, 1, 2});
  expect_values("tensor_split", parts[2], {5, 6});
  const auto cut = tensor_split(arange(5), {1, 3});
  ASSERT_EQ(cut.size(), 3U);
  expect_values("tensor_split at places", cut[1], {1, 2});
  const auto both = broadcast_tensors({tensor({1, 2}), tensor({{3}, {4}})});
  EXPECT_EQ(both[0].shape(), (Shape{2, 2}));
  expect_values("broadcast_tensors", both[1], {3, 3, 4, 4});
  expect_values("bucketize", bucketize(tensor({{0, 3, 6}}), tensor({1, 3, 5})), {0, 1, 3});
  expect_values("bucketize, right", bucketize(tensor({0, 3, 6}), tensor({1, 3, 5}), true), {0, 2, 3});
  expect_values("bincount", bincount(tensor({0, 2, 2, 5})), {1, 0, 2, 0, 0, 1});
  EXPECT_EQ(bincount(tensor({1}), 4).numel(), 4);
  EXPECT_EQ(bincount(zeros({0}, {.dtype = kInt64})).numel(), 0);
  EXPECT_ERROR(fliplr(tensor({1})), "fliplr: ");
  EXPECT_ERROR(rot90(x, 1, {0}), "rot90: there must be two axes");
  EXPECT_ERROR(rot90(x, 1, {0, -2}), "rot90: the axes must differ");
  EXPECT_ERROR(take(x, tensor({6})), "take: ", "6");
  EXPECT_ERROR(diff(x, -1), "diff: n must not be negative");
  EXPECT_ERROR(tensor_split(x, 0), "tensor_split: sections must be at least 1");
  EXPECT_ERROR(bincount(tensor({-1})), "bincount: no element must be negative");
  EXPECT_ERROR(bincount(of({1})), "bincount: x must be of integers");
  EXPECT_ERROR(vstack({}), "vstack: ");
}

TEST(Functions, SumsAndProducts) {
  const Tensor x = tensor({{1.0, 0.0, 2.0}, {0.0, 0.0, 3.0}}), y = tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}});
  expect_values("count_nonzero", count_nonzero(x), {3});
  expect_values("count_nonzero along an axis", count_nonzero(x, 0), {1, 0, 2});
  EXPECT_EQ(count_nonzero(x).dtype(), kInt64);
  expect_near("nansum", nansum(of({1, kNan, 2})), {3});
  expect_near("dist", dist(of({1, 2}), of({4, 6})), {5});
  const auto [least, most] = aminmax(x, 1);
  expect_values("aminmax", least, {0, 0});
  expect_values("aminmax", most, {2, 3});
  expect_values("mm", mm(x, y), {11, 14, 15, 18});
  expect_values("mv", mv(y, tensor({1.0, -1.0})), {-1, -1, -1});
  expect_values("dot", dot(tensor({1.0, 2.0}), tensor({3.0, 4.0})), {11});
  expect_values("addmm", addmm(ones(2), x, y, 2, 0.5), {7.5, 9, 9.5, 11});
  expect_values("baddbmm", baddbmm(ones(1), x.unsqueeze(0), y.unsqueeze(0)), {12, 15, 16, 19});
  expect_values("beta of 0", addmm(full({2}, kNan), x, y, 0), {11, 14, 15, 18});
  EXPECT_ERROR(mm(x, tensor({1.0, 2.0, 3.0})), "mm: b must have 2 axes; got shape (3,)");
  EXPECT_ERROR(mv(x, y), "mv: vector must have 1 axis");
  EXPECT_ERROR(dot(x, x), "dot: a must have 1 axis");
  EXPECT_ERROR(baddbmm(x, x, y), "baddbmm: a must have 3 axes");
}

TEST(Functions, Losses) {
  const Tensor input = of({0.5, -1, 2}), target = of({1, 2, 0});
  expect_near("poisson", poisson_nll_loss(input, target, true, "none"),
              {std::exp(0.5) - 0.5, std::exp(-1.0) + 2, std::exp(2.0)});
  expect_near("poisson of rates", poisson_nll_loss(of({2}), of({3}), false, "sum", 0.0), {2 - 3 * std::log(2.0)});
  expect_near("hinge", hinge_embedding_loss(input, of({1, -1, -1}), 1.5, "none"), {0.5, 2.5, 0});
  expect_near("margin", margin_ranking_loss(input, of({1, 1, 1}), of({1, -1, 1}), 0.5), {(1.0 + 0.0 + 0.0) / 3.0});
  EXPECT_ERROR(hinge_embedding_loss(input, target, 1.0, "batchmean"), "hinge_embedding_loss: reduction must be");
  EXPECT_ERROR(poisson_nll_loss(input, target, true, "average"), "average");
}

TEST(Functions, TensorsMade) {
  expect_values("eye", eye(2, 3), {1, 0, 0, 0, 1, 0});
  EXPECT_EQ(eye(2, 3, {.dtype = kInt32, .requires_grad = false}).dtype(), kInt32);
  expect_near("logspace", logspace(-1, 1, 3, 10, {.dtype = kFloat64}), {0.1, 1, 10});
  expect_near("logspace of base 2", logspace(0, 3, 4, 2, {.dtype = kFloat64}), {1, 2, 4, 8});
  EXPECT_EQ(logspace(0, 1, 2).dtype(), kFloat32);
  manual_seed(1);
  const Tensor drawn = normal(5.0, 2.0, {10000});
  EXPECT_NEAR(drawn.mean().item<float>(), 5.0, 0.1);
  EXPECT_NEAR(drawn.std().item<float>(), 2.0, 0.1);
  const Tensor each = normal(of({-100, 100}), of({1e-3, 1e-3}));
  EXPECT_NEAR(each[0].item<double>(), -100, 0.1);
  EXPECT_NEAR(each[1].item<double>(), 100, 0.1);
  const Tensor whole = randint_like(zeros({1000}, {.dtype = kInt32}), 3, 6);
  EXPECT_EQ(whole.dtype(), kInt32);
  EXPECT_EQ(whole.min().item<std::int32_t>(), 3);
  EXPECT_EQ(whole.max().item<std::int32_t>(), 5);
  EXPECT_EQ(randint_like(zeros({3}), 10, {.dtype = kInt64}).dtype(), kInt64);
  const Tensor soft = gumbel_softmax(zeros({200, 4}));
  EXPECT_NEAR(soft.sum().item<float>(), 200.0F, 1e-3F);
  const Tensor hard = gumbel_softmax(zeros({200, 4}), 0.5, true);
  expect_same_bits("one-hot", count_nonzero(hard > 0.5, 1), ones({200}, {.dtype = kInt64}));
  EXPECT_ERROR(gumbel_softmax(zeros({2}), 0.0), "gumbel_softmax: tau must be positive");
  EXPECT_ERROR(eye(-1, 2), "eye: ");
}

TEST(Functions, HaveGradients) {
  const Tensor x = of({0.3, 0.9, -0.7, 0.45}), y = of({0.6, 0.2, 0.8, 0.35}), m = x.reshape({2, 2}),
               n = y.reshape({2, 2});
  using In = const std::vector<Tensor>&;
  const std::vector<std::pair<const char*, std::function<Tensor(In)>>> functions{
      {"addcmul", [](In in) { return addcmul(in[0], in[1], in[0], 0.5); }},
      {"addcdiv", [](In in) { return addcdiv(in[0], in[1], in[0], 0.5); }},
      {"exp2", [](In in) { return exp2(in[0]); }},
      {"log10", [](In in) { return log10(in[1]); }},
      {"logaddexp", [](In in) { return logaddexp(in[0], in[1]); }},
      {"logit", [](In in) { return logit(in[1]); }},
      {"xlogy", [](In in) { return xlogy(in[0], in[1]); }},
      {"hypot", [](In in) { return hypot(in[0], in[1]); }},
      {"celu", [](In in) { return celu(in[0], 0.5); }},
      {"softshrink", [](In in) { return softshrink(in[0], 0.4); }},
      {"tanhshrink", [](In in) { return tanhshrink(in[0]); }},
      {"take",
       [](In in) {
         return take(in[0], tensor({3, 0, 0})) * 2.0;
       }},
      {"diff", [](In in) { return square(diff(in[0])); }},
      {"rot90",
       [](In in) {
         return rot90(in[0].reshape({2, 2})) * in[1].reshape({2, 2});
       }},
      {"nansum", [](In in) { return square(nansum(in[0])); }},
      {"dist", [](In in) { return dist(in[0], in[1]); }},
      {"poisson", [](In in) { return poisson_nll_loss(in[0], in[1]); }},
      {"margin", [](In in) { return margin_ranking_loss(in[0], in[1], full_like(in[0], 1), 2.0); }},
  };
  for (const auto& [name, function] : functions) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(gradcheck(function, {x, y}));
    EXPECT_TRUE(gradgradcheck(function, {x, y}));
  }
  const auto weighted = [](In in) { return addmm(in[0], in[0], in[1], 0.5, 2.0); };
  EXPECT_TRUE(gradcheck(weighted, {m, n}));
  EXPECT_TRUE(gradgradcheck(weighted, {m, n}));
}

// Of 16-bit operands, the result computed in float32 from the same operands and rounded: PyTorch's.
TEST(Functions, RoundSixteenBitsOnce) {
  manual_seed(7);
  const Tensor x = rand({8, 8}) + 0.5, y = rand({8, 8}) + 0.1, z = rand({8, 8}), sign = where(z > 0.5, 1.0, -1.0);
  using In = const std::vector<Tensor>&;
  const std::vector<std::pair<const char*, std::function<Tensor(In)>>> functions{
      {"addcmul", [](In in) { return addcmul(in[0], in[1], in[2], 0.3); }},
      {"addcdiv", [](In in) { return addcdiv(in[0], in[2], in[1], 0.3); }},
      {"log10", [](In in) { return log10(in[1]); }},
      {"logit", [](In in) { return logit(in[2]); }},
      {"xlogy", [](In in) { return xlogy(in[0], in[1]); }},
      {"hypot", [](In in) { return hypot(in[0], in[1]); }},
      {"celu", [](In in) { return celu(in[3], 0.7); }},
      {"tanhshrink", [](In in) { return tanhshrink(in[0]); }},
      {"dist", [](In in) { return dist(in[0], in[1]); }},
      {"addmm", [](In in) { return addmm(in[0], in[1], in[2], 0.5, 2.0); }},
      {"poisson_nll_loss", [](In in) { return poisson_nll_loss(in[0], in[1]); }},
      {"hinge_embedding_loss", [](In in) { return hinge_embedding_loss(in[0], in[3]); }},
      {"margin_ranking_loss", [](In in) { return margin_ranking_loss(in[0], in[1], in[3], 0.3); }},
  };
  for (const DType dtype : {kFloat16, kBFloat16}) {
    std::vector<Tensor> narrow, wide;
    for (const Tensor& operand : {x, y, z, sign}) {
      narrow.push_back(operand.to(dtype));
      wide.push_back(narrow.back().to(kFloat32));
    }
    for (const auto& [name, function] : functions) {
      expect_same_bits(name, function(narrow), function(wide).to(dtype));
    }
  }
  expect_near("hypot beyond squares", hypot(of({3e200}), of({4e200})) / 1e200, {5});
  EXPECT_ERROR(addmm(x, x.half(), y.half()), "addmm: x must have a's dtype");
}

TEST(Functions, OfAnElementsKindAndOptions) {
  const Tensor x = zeros({2, 3}, {.dtype = kFloat64});
  EXPECT_EQ(zeros_like(x, {.dtype = kInt32}).dtype(), kInt32);
  EXPECT_EQ(ones_like(x).dtype(), kFloat64);
  EXPECT_TRUE(full_like(x, 2, {.requires_grad = true}).requires_grad());
  EXPECT_EQ(randn_like(x, {.device = "cpu"}).device(), kCPU);
  EXPECT_EQ(x.new_zeros({4}).dtype(), kFloat64);
  EXPECT_EQ(x.new_ones({4}, {.dtype = kBool}).dtype(), kBool);
  EXPECT_EQ(x.new_empty({4, 2}).shape(), (Shape{4, 2}));
  expect_values("new_full", x.new_full({2}, 3), {3, 3});
  EXPECT_EQ(x.ndim(), 2);
  EXPECT_EQ(x.stride(0), 3);
  EXPECT_EQ(x.stride(-1), 1);
  EXPECT_EQ(x.element_size(), 8);
  EXPECT_TRUE(x.is_cpu() && !x.is_cuda() && x.is_floating_point() && x.is_leaf());
  EXPECT_EQ(x.half().dtype(), kFloat16);
  EXPECT_EQ(x.bfloat16().dtype(), kBFloat16);
  EXPECT_EQ(tensor({1}).to(x).dtype(), kFloat64);
  EXPECT_EQ(tensor({1}).type_as(x).dtype(), kFloat64);
  EXPECT_EQ(tensor({1, 2, 3}).expand_as(x).shape(), x.shape());
  EXPECT_EQ(arange(6).reshape_as(x).shape(), x.shape());
  EXPECT_EQ(x.mT().shape(), (Shape{3, 2}));
  EXPECT_EQ(x.swapaxes(0, 1).shape(), (Shape{3, 2}));
  EXPECT_ERROR(x.stride(2), "stride: ");
  EXPECT_ERROR(tensor({1}).mT(), "axis");
  EXPECT_ERROR(Tensor().new_zeros({1}), "new_zeros: ");
}

TEST(Functions, BackwardIsAMember) {
  const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
  {
    Tape tape;
    square(x).sum().backward();
    expect_values("of 1", x.grad(), {2, 4});
    square(x).backward(tensor({10.0, 100.0}));
    expect_values("of a gradient", x.grad(), {22, 404});
    const Tensor y = square(x).sum();
    EXPECT_FALSE(y.is_leaf());
    y.backward({.retain = true});
    y.backward();
    expect_values("twice", x.grad(), {26, 412});
  }
  EXPECT_ERROR(square(x).sum().backward(), "backward: a tape must record on this thread");
}

}  // namespace
}  // namespace adjoint
