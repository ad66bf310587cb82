// Tensor's members that are functions of ops/: each gives the same as its function. scripts/operators finds members
// that are not called here.
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;

using Two = std::pair<Tensor, Tensor>;

void expect_same(const std::string& what, const Tensor& member, const Tensor& function) {
  expect_same_bits(what, member, function);
}
void expect_same(const std::string& what, const Two& member, const Two& function) {
  expect_same_bits(what, member.first, function.first);
  expect_same_bits(what + ", second", member.second, function.second);
}
void expect_same(const std::string& what, const std::vector<Tensor>& member, const std::vector<Tensor>& function) {
  ASSERT_EQ(member.size(), function.size()) << what;
  for (std::size_t i = 0; i < member.size(); ++i) expect_same_bits(what, member[i], function[i]);
}

class Members : public ::testing::Test {
 protected:
  // In (0, 1), where every function is defined, no two elements equal.
  const Tensor x = Tensor::from_vector<double>({0.5, 0.25, 0.875, 0.125, 0.75, 0.375, 0.0625, 0.625}, {2, 4});
  const Tensor y = Tensor::from_vector<double>({0.25, 0.5, 0.375, 0.875, 0.0625, 0.75, 0.125, 0.625}, {2, 4});
  const Tensor mask = x > 0.5;
  const Tensor places = Tensor::from_vector<double>({0, 1, 1, 0}, {1, 4}, {.dtype = kInt64});
};

TEST_F(Members, OfComposedFunctions) {
  const Tensor column = x[0];
  expect_same("exp2", x.exp2(), exp2(x));
  expect_same("frac", x.frac(), frac(x));
  expect_same("log10", x.log10(), log10(x));
  expect_same("addcmul", x.addcmul(y, x, 0.5), addcmul(x, y, x, 0.5));
  expect_same("addcdiv", x.addcdiv(y, x, 0.5), addcdiv(x, y, x, 0.5));
  expect_same("clip", x.clip(0.25, 0.5), clamp(x, 0.25, 0.5));
  expect_same("take", x.take(places), take(x, places));
  expect_same("tile", x.tile({2, 1}), tile(x, {2, 1}));
  expect_same("count_nonzero", x.count_nonzero(0), count_nonzero(x, 0));
  expect_same("mm", x.mm(y.t()), mm(x, y.t()));
  expect_same("mv", x.mv(column), mv(x, column));
  expect_same("dot", column.dot(column), dot(column, column));
  expect_same("addmm", x.addmm(x, y.t().mm(y), 0.5, 2), addmm(x, x, y.t().mm(y), 0.5, 2));
}

TEST_F(Members, OfArithmetic) {
  expect_same("add", x.add(y, 2), x + y * 2.0);
  expect_same("add, a scalar", x.add(2), x + 2.0);
  expect_same("sub", x.sub(y, 2), x - y * 2.0);
  expect_same("sub, a scalar", x.sub(2), x - 2.0);
  expect_same("mul", x.mul(y), x * y);
  expect_same("mul, a scalar", x.mul(3), x * 3.0);
  expect_same("div", x.div(y), x / y);
  expect_same("div, a scalar", x.div(4), x / 4.0);
  expect_same("eq", x.eq(y), x == y);
  expect_same("eq, a scalar", x.eq(0.5), x == 0.5);
  expect_same("ne", x.ne(y), x != y);
  expect_same("ne, a scalar", x.ne(0.5), x != 0.5);
  expect_same("lt", x.lt(y), x < y);
  expect_same("lt, a scalar", x.lt(0.5), x < 0.5);
  expect_same("le", x.le(y), x <= y);
  expect_same("le, a scalar", x.le(0.5), x <= 0.5);
  expect_same("gt", x.gt(y), x > y);
  expect_same("gt, a scalar", x.gt(0.5), x > 0.5);
  expect_same("ge", x.ge(y), x >= y);
  expect_same("ge, a scalar", x.ge(0.5), x >= 0.5);
}

TEST_F(Members, OfElements) {
#define EXPECT_MEMBER(NAME) expect_same(#NAME, x.NAME(), NAME(x))
#define EXPECT_UNARY_MEMBER(Functor, NAME) EXPECT_MEMBER(NAME);
  ADJOINT_UNARY_MATH_FUNCTIONS(EXPECT_UNARY_MEMBER)
  ADJOINT_STEP_FUNCTIONS(EXPECT_UNARY_MEMBER)
#undef EXPECT_UNARY_MEMBER
  EXPECT_MEMBER(neg);
  EXPECT_MEMBER(tanh);
  EXPECT_MEMBER(gelu);
  EXPECT_MEMBER(gelu_tanh);
  EXPECT_MEMBER(hardsigmoid);
  EXPECT_MEMBER(hardswish);
  EXPECT_MEMBER(logsigmoid);
  EXPECT_MEMBER(mish);
  EXPECT_MEMBER(relu);
  EXPECT_MEMBER(relu6);
  EXPECT_MEMBER(selu);
  EXPECT_MEMBER(sigmoid);
  EXPECT_MEMBER(silu);
  EXPECT_MEMBER(softsign);
  EXPECT_MEMBER(elu);
  EXPECT_MEMBER(glu);
  EXPECT_MEMBER(leaky_relu);
  EXPECT_MEMBER(hardtanh);
  EXPECT_MEMBER(softplus);
  EXPECT_MEMBER(isfinite);
  EXPECT_MEMBER(isinf);
  EXPECT_MEMBER(isnan);
  EXPECT_MEMBER(logical_not);
  EXPECT_MEMBER(nan_to_num);
#undef EXPECT_MEMBER
}

// The call's arguments, after the tensor of which the function is a member.
#define EXPECT_MEMBER(NAME, ...) expect_same(#NAME, x.NAME(__VA_ARGS__), NAME(x, __VA_ARGS__))

TEST_F(Members, OfElementsAndMore) {
  EXPECT_MEMBER(elu, 0.5);
  EXPECT_MEMBER(glu, 0);
  EXPECT_MEMBER(leaky_relu, 0.5);
  EXPECT_MEMBER(hardtanh, 0.25, 0.5);
  EXPECT_MEMBER(softplus, 2.0, 0.5);
  EXPECT_MEMBER(prelu, Tensor::full({1}, 0.5));
  EXPECT_MEMBER(logical_and, mask.to(x.dtype()));
  EXPECT_MEMBER(logical_or, mask.to(x.dtype()));
  EXPECT_MEMBER(logical_xor, mask.to(x.dtype()));
  EXPECT_MEMBER(clamp, 0.25, 0.5);
  EXPECT_MEMBER(clamp_min, 0.25);
  EXPECT_MEMBER(clamp_max, 0.25);
  EXPECT_MEMBER(pow, 3.0);
  EXPECT_MEMBER(pow, y);
  EXPECT_MEMBER(atan2, y);
  EXPECT_MEMBER(maximum, y);
  EXPECT_MEMBER(minimum, y);
  EXPECT_MEMBER(fmod, y);
  EXPECT_MEMBER(fmod, 0.375);
  EXPECT_MEMBER(remainder, y);
  EXPECT_MEMBER(remainder, -0.375);
  EXPECT_MEMBER(lerp, y, x);
  EXPECT_MEMBER(lerp, y, 0.25);
  EXPECT_MEMBER(nan_to_num, 1.0, 2.0, -2.0);
  EXPECT_MEMBER(masked_fill, mask, 2.0);
  expect_same("where", x.where(mask, y), where(mask, x, y));
  expect_same("where", x.where(mask, 2.0), where(mask, x, 2.0));
}

TEST_F(Members, OfReductions) {
  EXPECT_MEMBER(sum, {1}, true);
  EXPECT_MEMBER(mean, {1}, true);
  EXPECT_MEMBER(prod, {1}, true);
  EXPECT_MEMBER(norm, 3.0, {1}, true);
  EXPECT_MEMBER(var, {1}, 0, true);
  EXPECT_MEMBER(std, {1}, 0, true);
  EXPECT_MEMBER(var_mean, {1}, 0, true);
  EXPECT_MEMBER(std_mean, {1}, 0, true);
  EXPECT_MEMBER(logsumexp, {1}, true);
  EXPECT_MEMBER(amax, {1}, true);
  EXPECT_MEMBER(amin, {1}, true);
  EXPECT_MEMBER(any, {1}, true);
  EXPECT_MEMBER(all, {1}, true);
  EXPECT_MEMBER(max, 1, true);
  EXPECT_MEMBER(min, 1, true);
  EXPECT_MEMBER(argmax, 1, true);
  EXPECT_MEMBER(argmin, 1, true);
  EXPECT_MEMBER(softmax, 1);
  EXPECT_MEMBER(log_softmax, 1);
  EXPECT_MEMBER(cumsum, 1);
  expect_same("sum", x.sum(), sum(x));
  expect_same("mean", x.mean(), mean(x));
  expect_same("max", x.max(), max(x));
  expect_same("min", x.min(), min(x));
  expect_same("argmax", x.argmax(), argmax(x));
  expect_same("argmin", x.argmin(), argmin(x));
}

TEST_F(Members, OfPartsAndPlaces) {
  EXPECT_MEMBER(split, 3, 1);
  EXPECT_MEMBER(split, {1, 3}, 1);
  EXPECT_MEMBER(chunk, 2, 1);
  EXPECT_MEMBER(unbind, 1);
  EXPECT_MEMBER(repeat, {2, 3});
  EXPECT_MEMBER(flip, {0, 1});
  EXPECT_MEMBER(movedim, {0}, {1});
  EXPECT_MEMBER(roll, 3, 1);
  EXPECT_MEMBER(unflatten, 1, {2, -1});
  EXPECT_MEMBER(index, {1, Slice(1, {}, 2)});
  EXPECT_MEMBER(index_select, 0, places.select(0, 0));
  EXPECT_MEMBER(gather, 0, places);
  EXPECT_MEMBER(scatter, 0, places, y);
  EXPECT_MEMBER(scatter, 0, places, 2.0);
  EXPECT_MEMBER(scatter_add, 0, places, y);
  EXPECT_MEMBER(masked_select, mask);
  EXPECT_MEMBER(matmul, y.t());
  expect_same("nonzero", x.nonzero(), nonzero(x));
}
#undef EXPECT_MEMBER

TEST(Sizes, AreOfElements) {
  EXPECT_EQ(Tensor::ones({2, 3}, {.dtype = kFloat16}).nbytes(), 12U);
  EXPECT_EQ(Tensor::ones({1}, {.dtype = kFloat64}).expand({5}).nbytes(), 40U);
  EXPECT_EQ(Tensor::ones({0, 3}).nbytes(), 0U);
}

}  // namespace
}  // namespace adjoint
