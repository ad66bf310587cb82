// The modules that the table of activations makes, and those with parameters.
#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/nn/activation.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;

void expect_row(const ActivationModule& module, const Tensor& expected, const std::string& printed) {
  const Tensor x = Tensor::from_vector<double>({-7, -2.5, -1, 0, 0.5, 3, 21}, {7}, {.dtype = kFloat64});
  expect_same_bits(printed, module(x), expected);
  expect_same_bits(printed + " as a value", activate(x, module.activation()), expected);
  EXPECT_EQ(to_string(module), printed);
}

TEST(Activations, EveryRowOfTheTableIsAModule) {
  const Tensor x = Tensor::from_vector<double>({-7, -2.5, -1, 0, 0.5, 3, 21}, {7}, {.dtype = kFloat64});
#define ADJOINT_ROW(Name, function, ...) expect_row(Name(), function(x), to_string(Name()));
  ADJOINT_ACTIVATIONS(ADJOINT_ROW, ADJOINT_ROW, ADJOINT_ROW)
#undef ADJOINT_ROW
  expect_row(ReLU6(), clamp(x, 0.0, 6.0), "ReLU6()");
  expect_row(ELU({.alpha = 0.5}), elu(x, 0.5), "ELU(alpha=0.5)");
  expect_row(Hardtanh({.min_val = -2.0, .max_val = 0.5}), clamp(x, -2.0, 0.5), "Hardtanh(min_val=-2, max_val=0.5)");
  expect_row(Softplus({.beta = 2.0}), softplus(x, 2.0), "Softplus(beta=2, threshold=20)");
  expect_row(GELUTanh(), gelu_tanh(x), "GELUTanh()");
}

TEST(Activations, GLUHalvesAnAxis) {
  const Tensor x = Tensor::randn({2, 6, 4});
  expect_same_bits("dim 1", GLU({.dim = 1})(x), x.narrow(1, 0, 3) * sigmoid(x.narrow(1, 3, 3)));
  expect_same_bits("last", GLU()(x), x.narrow(2, 0, 2) * sigmoid(x.narrow(2, 2, 2)));
  EXPECT_ERROR(GLU()(Tensor::zeros({2, 3})), "glu: ", "3", "(2, 3)");
}

TEST(Activations, SnakeHasAParameterAChannel) {
  const Snake snake({.num_parameters = 3, .init = 2.0});
  EXPECT_EQ(snake.alpha.tensor().shape(), (Shape{3}));
  const Tensor x = Tensor::randn({2, 3, 5}, {.dtype = kFloat64});
  const Tensor a = Tensor::from_vector<double>({0.5, 1, 3}, {3}, {.dtype = kFloat64});
  const auto f = [](const std::vector<Tensor>& in) { return adjoint::snake(in[0], in[1]); };
  EXPECT_TRUE(gradcheck(f, {x, a}));
  EXPECT_TRUE(gradgradcheck(f, {x, a}));
  EXPECT_EQ(to_string(snake), "Snake(num_parameters=3)");
  EXPECT_ERROR(Snake({.num_parameters = 0}), "Snake: ", "0");
  EXPECT_ERROR(snake(Tensor::zeros({2, 4, 5})), "snake: ", "(2, 4, 5)", "(3,)");
}

}  // namespace
}  // namespace adjoint::nn
