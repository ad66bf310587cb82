#include <adjoint/adjoint.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint {
namespace {

using testing::expect_values;
using Tensors = std::vector<Tensor>;

Tensor leaf(const std::vector<double>& values) {
  return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())},
                             {.dtype = kFloat64, .requires_grad = true});
}

// (x, y) -> x^2 y, x - y and their signs, which carry no gradient.
Tensors mixed(const Tensor& x, const Tensor& y) {
  return custom(
      "mixed", {x, y},
      [](const Tensors& in) -> Tensors {
        return {in[0] * in[0] * in[1], in[0] - in[1], sign(in[0]).to(kInt64)};
      },
      [](const CustomCall& call) -> Tensors {
        const Tensor &a = call.inputs[0], &b = call.inputs[1];
        const auto grad = [&](std::size_t i) { return call.grads[i].defined() ? call.grads[i] : zeros_like(a); };
        return {grad(0) * a * b * 2.0 + grad(1), grad(0) * a * a - grad(1)};
      });
}

TEST(Custom, HasGradientsOfAnyOrder) {
  const Tensor x = leaf({2, -3, 0.5}), y = leaf({5, 7, -1});
  const auto all = [](const Tensors& in) {
    const Tensors r = mixed(in[0], in[1]);
    return r[0] * r[1];
  };
  EXPECT_TRUE(gradcheck(all, {x, y}));
  EXPECT_TRUE(gradgradcheck(all, {x, y}));
  for (const std::size_t result : {0U, 1U}) {
    const auto one = [&](const Tensors& in) { return mixed(in[0], in[1])[result] * in[0]; };
    EXPECT_TRUE(gradcheck(one, {x, y})) << result;
    EXPECT_TRUE(gradgradcheck(one, {x, y})) << result;
  }
}

TEST(Custom, RecordsOneNodeAndNothingOfItsInside) {
  const Tensor x = leaf({2, -3}), y = leaf({5, 7});
  Tape tape;
  const Tensors r = mixed(x, y);
  EXPECT_EQ(tape.size(), 2U + 3U);  // the leaves and the results
  EXPECT_TRUE(r[0].requires_grad());
  EXPECT_FALSE(r[2].requires_grad());
  EXPECT_FALSE(mixed(x.detach(), y.detach())[0].requires_grad());
}

TEST(Custom, MayGiveBackItsInputsAndTakeNone) {
  const Tensor x = leaf({2, -3});
  Tape tape;
  const Tensor y = x * 1.0;
  const Tensor same = custom(
      "same", {y, Tensor{}}, [](const Tensors& in) -> Tensors { return {in[0]}; },
      [](const CustomCall& call) -> Tensors {
        EXPECT_FALSE(call.needed[1]);
        return {call.grads[0] * 10.0, {}};
      })[0];
  expect_values("x", tape.gradient((same + y).sum(), {x})[0], {11, 11});
  const Tensors none = custom(
      "none", {}, [](const Tensors&) -> Tensors { return {}; }, [](const CustomCall&) -> Tensors { return {}; });
  EXPECT_TRUE(none.empty());
}

TEST(Custom, TakesManyOperandsAndResults) {
  constexpr int kCount = 40;
  Tensors leaves;
  for (int i = 0; i < kCount; ++i) leaves.push_back(leaf({static_cast<double>(i)}));
  Tape tape;
  const Tensors squares = custom(
      "squares", leaves,
      [](const Tensors& in) {
        Tensors out;
        for (const Tensor& x : in) out.push_back(x * x);
        return out;
      },
      [](const CustomCall& call) {
        Tensors grads;
        for (std::size_t i = 0; i < call.inputs.size(); ++i) {
          EXPECT_EQ(call.results[i].item<double>(), static_cast<double>(i * i));
          grads.push_back(call.grads[i].defined() ? call.grads[i] * call.inputs[i] * 2.0 : Tensor{});
        }
        return grads;
      });
  tape.backward(squares[35] + squares[3], {.retain = true});
  EXPECT_EQ(leaves[35].grad().item<double>(), 70.0);
  EXPECT_EQ(leaves[3].grad().item<double>(), 6.0);
  EXPECT_FALSE(leaves[34].grad().defined());
  const Tensor changed = leaves[30].detach();
  Tensor(changed).mul_(2.0);
  EXPECT_ERROR(tape.backward(squares[35]), "operand 30 of squares");
}

TEST(Custom, ErrorsNameTheOperator) {
  const Tensor x = leaf({2, -3});
  const CustomForward copy = [](const Tensors& in) -> Tensors { return {in[0].clone()}; };
  const CustomBackward pass = [](const CustomCall& call) { return call.grads; };
  EXPECT_ERROR(custom("", {x}, copy, pass), "custom: name");
  EXPECT_ERROR(custom("mine", {x}, nullptr, pass), "mine: forward");
  EXPECT_ERROR(custom("mine", {x}, copy, nullptr), "mine: backward");
  EXPECT_ERROR(custom(
                   "mine", {x}, [](const Tensors&) -> Tensors { return {Tensor{}}; }, pass),
               "mine: ", "result 0");
  const auto changes = [](const Tensors& in) -> Tensors {
    Tensor first = in[0];
    first.mul_(2.0);
    return {first};
  };
  EXPECT_ERROR(custom("mine", {x.detach().clone()}, changes, pass), "mine: ", "input 0", "clone()");
  const auto sweep = [&](const CustomBackward& backward) {
    Tape tape;
    tape.backward(custom("mine", {x}, copy, backward)[0].sum());
  };
  EXPECT_ERROR(sweep([](const CustomCall&) -> Tensors { return {}; }), "mine: ", "got 0 for 1");
  EXPECT_ERROR(sweep([](const CustomCall& call) -> Tensors { return {call.grads[0].sum()}; }), "mine: ", "()", "(2,)");
  EXPECT_ERROR(sweep([](const CustomCall& call) -> Tensors { return {call.grads[0].to(kFloat32)}; }), "float32");
  EXPECT_FALSE(x.grad().defined());
  sweep(pass);
  expect_values("then", x.grad(), {1, 1});
}

}  // namespace
}  // namespace adjoint
