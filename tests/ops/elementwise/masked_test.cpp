// Infinities at points where a function's derivative is 0 by choice: pow at base 0 to any order, prelu's weight,
// gradients of 16-bit floats that would overflow between two steps.
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_values;
using testing::reals;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor list(const std::vector<double>& values, DType dtype = kFloat64) {
  return Tensor::from_vector<double>(values, {static_cast<std::int64_t>(values.size())}, {.dtype = dtype});
}

// f's derivatives in x, of order 1 to `orders`.
std::vector<Tensor> derivatives(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, int orders) {
  Tape tape;
  std::vector<Tensor> all = {f(x)};
  for (int order = 1; order <= orders; ++order) {
    const Tensor last = all.back();  // not recorded: a constant
    all.push_back(last.requires_grad() ? tape.gradient(last.sum(), {x}, {.record = true})[0]
                                       : Tensor::zeros(x.shape(), {.dtype = x.dtype()}));
  }
  std::vector<Tensor> values;
  for (const Tensor& derivative : all) values.push_back(derivative.detach());
  return values;
}

TEST(PowDerivatives, AtBaseZeroAreTheScalarVersionsInAnyOrder) {
  for (const DType dtype : {kFloat16, kFloat32, kFloat64}) {
    for (const double exponent : {0.0, 1.0, 2.0, 3.0, 4.0}) {
      const Tensor x = list({0, -0.0, 2, -1.5}, dtype).requires_grad_();
      const Tensor e = Tensor::full({4}, exponent, {.dtype = dtype});
      const std::vector<Tensor> tensors = derivatives([&](const Tensor& b) { return pow(b, e); }, x, 6);
      const std::vector<Tensor> scalars = derivatives([&](const Tensor& b) { return pow(b, exponent); }, x, 6);
      for (std::size_t order = 0; order < tensors.size(); ++order) {
        expect_values("x^" + std::to_string(exponent) + ", order " + std::to_string(order), tensors[order],
                      scalars[order].to_vector<double>());
      }
    }
  }
}

TEST(PowDerivatives, OfBothOperandsAtBaseZeroAreFinite) {
  const Tensor e = list({0, 1, 2, 3}).requires_grad_();
  const std::vector<Tensor> in_exponent =
      derivatives([&](const Tensor& x) { return pow(Tensor::zeros({4}, {.dtype = kFloat64}), x); }, e, 5);
  for (std::size_t order = 1; order < in_exponent.size(); ++order) {
    expect_values("exponent", in_exponent[order], {0, 0, 0, 0});
  }
  // Both ways round, the exponent high enough for the derivative to be 0 there.
  const Tensor b = Tensor::zeros({2}, {.dtype = kFloat64, .requires_grad = true}), n = list({3, 4}).requires_grad_();
  Tape tape;
  const Tensor y = pow(b, n).sum();
  const std::vector<Tensor> first = tape.gradient(y, {b, n}, {.record = true});
  for (const Tensor& of : first) {
    const std::vector<Tensor> second = tape.gradient(of.sum(), {b, n}, {.record = true});
    expect_values("first", of, {0, 0});
    for (const Tensor& then : second) {
      expect_values("second", then, {0, 0});
      for (const Tensor& third : tape.gradient(then.sum(), {b, n}, {.record = true, .allow_unused = true})) {
        EXPECT_TRUE(!third.defined() || std::isfinite(third.sum().item<double>()));
      }
    }
  }
}

TEST(PowDerivatives, MatchFiniteDifferencesAtExponentZeroToo) {
  const auto f = [](const std::vector<Tensor>& in) { return pow(in[0], in[1]); };
  const std::vector<Tensor> in = {list({0.5, 2, 3, 1.5}), list({0, 0, 1, 2})};
  EXPECT_TRUE(gradcheck(f, in));
  EXPECT_TRUE(gradgradcheck(f, in));
}

TEST(PowDerivatives, InfiniteGradientsStopWhereTheDerivativeIsZeroByChoice) {
  const Tensor b = Tensor::zeros({2}, {.requires_grad = true}), e = list({0, 2}, kFloat32).requires_grad_();
  Tape tape;
  const Tensor seed = Tensor::full({2}, kInfinity);
  const Tensor in_exponent = tape.gradient(pow(b, e), {e}, {.grad_output = seed})[0];
  expect_values("exponent", in_exponent, {0, 0});
  const Tensor zero = Tensor::zeros({1}), x = Tensor::zeros({1}, {.requires_grad = true});
  expect_values("base", tape.gradient(pow(x, zero), {x}, {.grad_output = Tensor::full({1}, kInfinity)})[0], {0});
}

TEST(PreluDerivatives, AnInfinityPassesTheWeightWhereTheOperandIsPositive) {
  const Tensor x = list({2, kInfinity, -3}).requires_grad_(), w = list({0.5}).requires_grad_();
  Tape tape;
  const Tensor seed = list({kInfinity, kInfinity, 2}).requires_grad_();
  const std::vector<Tensor> first = tape.gradient(prelu(x, w), {x, w}, {.record = true, .grad_output = seed});
  expect_values("x", first[0], {kInfinity, kInfinity, 1});
  expect_values("weight", first[1], {-6});
  const std::vector<Tensor> second = tape.gradient(first[1].sum(), {x, seed}, {.record = true});
  expect_values("weight, then x", second[0], {0, 0, 2});
  expect_values("weight, then seed", second[1], {0, 0, -3});
  // By the input's gradient, which is linear in the weight as well.
  const Tensor u = list({kInfinity, 1, 1}).requires_grad_();
  const std::vector<Tensor> crossed = tape.gradient(first[0], {w, seed}, {.record = true, .grad_output = u});
  expect_values("x, then weight", crossed[0], {2});
  const std::vector<Tensor> third = tape.gradient(crossed[0].sum(), {seed, u});
  expect_values("then seed", third[0], {0, 0, 1});
  expect_values("then u", third[1], {0, 0, 2});
}

TEST(HalfGradients, OfSeveralStepsDoNotOverflowBetweenThem) {
  const auto gradient = [](const Tensor& y, const Tensor& x, Tape& tape, double seed) {
    return tape.gradient(y, {x}, {.grad_output = Tensor::full(y.shape(), seed, {.dtype = kFloat16})})[0];
  };
  const Tensor a = list({1000}, kFloat16), b = list({2}, kFloat16).requires_grad_();
  Tape tape;
  expect_values("a / b", gradient(a / b, b, tape, 200), {-50000});  // 200 * 500 / 2
  expect_values("1000 / b", gradient(1000.0 / b, b, tape, 200), {-50000});
  const Tensor x = list({300}, kFloat16).requires_grad_();
  expect_values("x^2.5", gradient(pow(x, 2.5), x, tape, 0.5), {0.5 * 2.5 * std::pow(300, 1.5)});
  const Tensor cubed = pow(x, list({3}, kFloat16));
  expect_values("x^3", gradient(cubed, x, tape, 0.125), {0.125 * 3 * 90000});
  const Tensor e = list({2}, kFloat16).requires_grad_();
  expect_values("200^e", gradient(pow(list({200}, kFloat16), e), e, tape, 0.25), {0.25 * 40000 * std::log(200)});
}

}  // namespace
}  // namespace adjoint
