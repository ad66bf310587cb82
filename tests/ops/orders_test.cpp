// Derivatives of orders 1 to 4 where a formula may be correct only to first order: at the places where abs, max, sign
// or where change sides. If the derivatives of both sides have one limit there, that is the derivative.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/attention/attention.h>
#include <adjoint/ops/conv/conv.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/norm/norm.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/scan/scan.h>
#include <adjoint/ops/signal/stft.h>
#include <adjoint/ops/softmax/softmax.h>
#include <adjoint/tests/support/elementwise_cases.h>
#include <adjoint/tests/support/loss_cases.h>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

constexpr std::size_t kOrders = 4;
constexpr double kNear = 1e-5;

using Function = std::function<Tensor(const Tensor& x)>;  // of one number, (1)
using Derivatives = std::array<double, kOrders + 1>;      // the value, then orders 1 to 4

Derivatives derivatives(const Function& f, double at) {
  Derivatives found{};
  const Tensor x = Tensor::full({1}, at, {.dtype = kFloat64, .requires_grad = true});
  Tape tape;
  Tensor y = f(x).sum();
  for (std::size_t order = 0;; ++order) {
    found[order] = y.item<double>();
    if (order == kOrders || !y.requires_grad()) return found;
    const Tensor g = gradient(y, {x}, {.record = true, .allow_unused = true})[0];
    if (!g.defined()) return found;
    y = g.sum();
  }
}

bool are_near(double a, double b, double within) { return std::abs(a - b) <= within * (1.0 + std::abs(b)); }

void expect_derivatives(const std::string& name, const Function& f, double at) {
  const Derivatives here = derivatives(f, at);
  const Derivatives left = derivatives(f, at - kNear), right = derivatives(f, at + kNear);
  const Derivatives closer_left = derivatives(f, at - kNear / 2), closer_right = derivatives(f, at + kNear / 2);
  for (std::size_t order = 0; order <= kOrders; ++order) {
    // Near the place the formula is on one side of it: a difference of the previous order shows there if it is correct.
    if (order > 0 && std::isfinite(left[order]) && std::isfinite(right[order])) {
      for (const double side : {at - kNear, at + kNear}) {
        const double step = kNear / 4;
        const double difference =
            (derivatives(f, side + step)[order - 1] - derivatives(f, side - step)[order - 1]) / (2 * step);
        const double there = side < at ? left[order] : right[order];
        EXPECT_TRUE(!std::isfinite(difference) || are_near(difference, there, 1e-2))
            << name << " beside " << at << ", order " << order << ": " << there << " for " << difference;
      }
    }
    const bool has_limit = are_near(left[order], closer_left[order], 1e-3) &&
                           are_near(right[order], closer_right[order], 1e-3) &&
                           are_near(left[order], right[order], 1e-3);
    if (!has_limit) return;
    EXPECT_TRUE(are_near(here[order], left[order], 1e-3))
        << name << " at " << at << ", order " << order << ": " << here[order] << " for " << left[order];
  }
}

void expect_derivatives(const std::string& name, const Function& f, const std::vector<double>& places) {
  for (const double at : places) expect_derivatives(name, f, at);
}

const std::vector<double> kPlaces = {-6, -3, -2, -1, -0.5, 0, 0.5, 0.7, 1, 2, 3, 6, 20};

Tensor number(double value) { return Tensor::full({1}, value, {.dtype = kFloat64}); }

TEST(Orders, OfFunctionsOfElementsInEachOperand) {
  for (const testing::ElementwiseCase& c : testing::elementwise_cases()) {
    if (!c.differentiable) continue;
    for (int which = 0; which < c.arity; ++which) {
      const auto f = [&](const Tensor& x) {
        std::vector<Tensor> in(static_cast<std::size_t>(c.arity), number(0.7));
        in[static_cast<std::size_t>(which)] = x;
        return c.call(in);
      };
      expect_derivatives(fmt::format("{}, operand {}", c.name, which), f, kPlaces);
    }
  }
}

const std::vector<std::pair<std::string, Activation>>& activations() {
  static const std::vector<std::pair<std::string, Activation>> all = {
#define ADJOINT_ACTIVATION(Name, function, ...) {#function, Activation::function()},
      ADJOINT_ACTIVATIONS(ADJOINT_ACTIVATION, ADJOINT_ACTIVATION, ADJOINT_ACTIVATION)
#undef ADJOINT_ACTIVATION
  };
  return all;
}

TEST(Orders, OfActivationsAloneAndInsideOtherOperators) {
  const Tensor one = Tensor::ones({1, 1, 1}, {.dtype = kFloat64}), zero = number(0.0), unit = number(1.0);
  for (const auto& entry : activations()) {
    const std::string& name = entry.first;
    const Activation& activation = entry.second;
    expect_derivatives(
        name, [&](const Tensor& x) { return activate(x, activation); }, kPlaces);
    expect_derivatives(
        name + " in conv1d",
        [&](const Tensor& x) {
          return conv1d(x.reshape({1, 1, 1}), one, zero, {.activation = activation});
        },
        kPlaces);
    expect_derivatives(
        name + " in conv_transpose1d",
        [&](const Tensor& x) {
          return conv_transpose1d(x.reshape({1, 1, 1}), one, zero, {.activation = activation});
        },
        kPlaces);
    expect_derivatives(
        name + " in batch_norm",
        [&](const Tensor& x) {
          return batch_norm(x.reshape({1, 1, 1}), zero, unit, unit, zero, false, 0.1, 0.0, {.activation = activation});
        },
        kPlaces);
  }
}

// A function of a vector that contains x and other numbers.
Function beside(const std::vector<double>& others, Tensor (*f)(const Tensor& vector)) {
  return [=](const Tensor& x) {
    std::vector<Tensor> all = {x};
    for (const double other : others) all.push_back(number(other));
    return f(cat(all, 0));
  };
}

template <int kHalves>
Tensor norm_of(const Tensor& vector) {
  return norm(vector, kHalves / 2.0);
}

TEST(Orders, OfReductionsWhereAnElementIsSpecial) {
  for (const std::vector<double>& others : {std::vector<double>{0.7}, {0.7, -2.0}, {0.0, 1.0}}) {
    expect_derivatives("norm 1", beside(others, norm_of<2>), kPlaces);
    expect_derivatives("norm 1.5", beside(others, norm_of<3>), kPlaces);
    expect_derivatives("norm 2", beside(others, norm_of<4>), kPlaces);
    expect_derivatives("norm 3", beside(others, norm_of<6>), kPlaces);
    expect_derivatives("norm 4", beside(others, norm_of<8>), kPlaces);
    expect_derivatives("norm 6", beside(others, norm_of<12>), kPlaces);
    expect_derivatives("norm of all", beside(others, [](const Tensor& v) { return norm(v, HUGE_VAL); }), kPlaces);
    expect_derivatives("prod", beside(others, [](const Tensor& v) { return prod(v); }), kPlaces);
    expect_derivatives("var", beside(others, [](const Tensor& v) { return var(v); }), kPlaces);
    expect_derivatives("std", beside(others, [](const Tensor& v) { return std(v); }), kPlaces);
    expect_derivatives("logsumexp", beside(others, [](const Tensor& v) { return logsumexp(v); }), kPlaces);
    expect_derivatives("amax", beside(others, [](const Tensor& v) { return amax(v); }), kPlaces);
    expect_derivatives("cumsum", beside(others, [](const Tensor& v) { return square(cumsum(v, 0)); }), kPlaces);
    expect_derivatives("softmax", beside(others, [](const Tensor& v) { return square(softmax(v, 0)); }), kPlaces);
    expect_derivatives("log_softmax", beside(others, [](const Tensor& v) { return log_softmax(v, 0)[0]; }), kPlaces);
  }
}

TEST(Orders, OfLossesInBothOperands) {
  std::vector<std::pair<std::string, std::function<Tensor(const Tensor&, const Tensor&)>>> cases = {
      {"binary_cross_entropy", [](const Tensor& x, const Tensor& y) { return binary_cross_entropy(x, y); }},
      {"binary_cross_entropy_with_logits",
       [](const Tensor& x, const Tensor& y) { return binary_cross_entropy_with_logits(x, y); }},
      {"binary_cross_entropy_with_logits, weighted",
       [](const Tensor& x, const Tensor& y) {
         return binary_cross_entropy_with_logits(x, y, {.weight = number(2.0), .pos_weight = number(3.0)});
       }},
      {"kl_div", [](const Tensor& x, const Tensor& y) { return kl_div(x, y); }},
      {"kl_div, of logarithms", [](const Tensor& x, const Tensor& y) { return kl_div(x, y, {.log_target = true}); }}};
  for (const testing::LossCase& c : testing::loss_cases()) {
    cases.emplace_back(c.name, [&c](const Tensor& x, const Tensor& y) { return c.call(x, y, Reduction::kSum); });
  }
  for (const auto& entry : cases) {
    const std::string& name = entry.first;
    const auto& loss = entry.second;
    for (const double other : {0.0, 0.5, 0.7, 1.0}) {
      expect_derivatives(
          fmt::format("{}, input beside {}", name, other), [&](const Tensor& x) { return loss(x, number(other)); },
          kPlaces);
      expect_derivatives(
          fmt::format("{}, target beside {}", name, other), [&](const Tensor& y) { return loss(number(other), y); },
          kPlaces);
    }
  }
}

TEST(Orders, OfMishAtZero) {
  // From its series x (3/5 + 8/25 x + ...), the expansion of x tanh(log(1 + exp(x))).
  const Derivatives found = derivatives([](const Tensor& x) { return mish(x); }, 0.0);
  EXPECT_DOUBLE_EQ(found[1], 0.6);
  EXPECT_DOUBLE_EQ(found[2], 0.64);
}

TEST(Orders, OfAFourthPowersNormWhereAnElementIsZero) {
  // (x^4 + 1)^(1/4) = 1 + x^4 / 4 - ...
  const Derivatives found = derivatives(beside({1.0}, norm_of<8>), 0.0);
  for (const std::size_t order : {1U, 2U, 3U}) EXPECT_EQ(found[order], 0.0) << order;
  EXPECT_DOUBLE_EQ(found[4], 6.0);
}

TEST(Orders, OfCrossEntropyWhereALogarithmEndsAreFinite) {
  const Tensor x = Tensor::from_vector<double>({0, 1, 0.25}, {3}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor y = Tensor::from_vector<double>({0, 1, 0.5}, {3}, {.dtype = kFloat64, .requires_grad = true});
  Tape tape;
  const Tensor g = gradient(binary_cross_entropy(x, y, {.reduction = Reduction::kSum}), {y}, {.record = true})[0];
  EXPECT_EQ(g.to_vector<double>()[0], 100.0);
  EXPECT_EQ(g.to_vector<double>()[1], -100.0);
  const std::vector<double> mixed = gradient(g.sum(), {x}, {.allow_unused = true})[0].to_vector<double>();
  EXPECT_EQ(mixed[0], -1.0) << "of log(1 - x) alone: log(x) stands at its end";
  EXPECT_EQ(mixed[1], -1.0);
  EXPECT_DOUBLE_EQ(mixed[2], -1.0 / (0.25 * 0.75));
}

}  // namespace
}  // namespace adjoint
