// Convolutions with an activation against the two equivalent calls.

#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/conv/conv.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/activations.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint::testing {
namespace {

constexpr TensorOptions kDouble{.dtype = kFloat64};

class ConvActivation : public ::testing::TestWithParam<ActivationCase> {
 protected:
  const Activation& activation() const { return GetParam().activation; }

  // Every eleventh case of the table: all ranks, groups, strides, phases that are empty.
  template <class Check>
  static void for_each_case(const Check& check) {
    for (std::size_t i = 0; i < conv_cases().size(); i += 11) {
      SCOPED_TRACE(conv_cases()[i]);
      check(real_problem(geometry(conv_cases()[i])));
    }
  }
};

TEST_P(ConvActivation, HasTheBitsOfTheTwoCalls) {
  for_each_case([&](const ConvProblem& p) {
    const ConvGeometry& g = p.geometry;
    for (const DType dtype : {kFloat32, kFloat64}) {
      const TensorOptions options{.dtype = dtype};
      const Tensor image = p.image_tensor(options), filter = p.filter_tensor(options);
      const Tensor feature = p.feature_tensor(options);
      const Tensor image_bias = p.image_bias_tensor(options), feature_bias = p.feature_bias_tensor(options);
      expect_same_bits("conv", conv(image, filter, feature_bias, g, activation()),
                       activate(conv(image, filter, feature_bias, g), activation()));
      expect_same_bits("conv_transpose", conv_transpose(feature, filter, image_bias, g, activation()),
                       activate(conv_transpose(feature, filter, image_bias, g), activation()));
      expect_same_bits("without bias", conv_transpose(feature, filter, {}, g, activation()),
                       activate(conv_transpose(feature, filter, {}, g), activation()));
    }
  });
}

TEST_P(ConvActivation, RoundsHalfPrecisionOnce) {
  for_each_case([&](const ConvProblem& p) {
    for (const DType dtype : {kFloat16, kBFloat16}) {
      const TensorOptions options{.dtype = dtype};
      const Tensor feature = p.feature_tensor(options), filter = p.filter_tensor(options);
      const Tensor bias = p.image_bias_tensor(options);
      const Tensor wide =
          conv_transpose(feature.to(kFloat32), filter.to(kFloat32), bias.to(kFloat32), p.geometry, activation());
      expect_same_bits("conv_transpose", conv_transpose(feature, filter, bias, p.geometry, activation()),
                       wide.to(dtype));
      const Tape tape;
      const Tensor leaf = p.filter_tensor({.dtype = dtype, .requires_grad = true});
      expect_same_bits("recorded", conv_transpose(feature, leaf, bias, p.geometry, activation()).detach(),
                       wide.to(dtype));
    }
  });
}

using Function = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvGeometry&, const Activation&);

Tensor conv_then(const Tensor& image, const Tensor& filter, const Tensor& bias, const ConvGeometry& g,
                 const Activation& activation) {
  return activate(conv(image, filter, bias, g), activation);
}
Tensor conv_transpose_then(const Tensor& feature, const Tensor& filter, const Tensor& bias, const ConvGeometry& g,
                           const Activation& activation) {
  return activate(conv_transpose(feature, filter, bias, g), activation);
}

std::vector<Tensor> gradients(Function f, const std::vector<Tensor>& leaves, const ConvGeometry& g,
                              const Activation& activation, bool record) {
  Tape tape;
  const Tensor y = f(leaves[0], leaves[1], leaves.size() == 3 ? leaves[2] : Tensor{}, g, activation);
  const Tensor seed = Tensor::arange(0.0, y.numel()).reshape(y.shape()) * 0.001 - 0.4;
  std::vector<Tensor> all = tape.gradient(y, leaves, {.record = record, .grad_output = seed});
  for (Tensor& gradient : all) gradient = gradient.detach();
  return all;
}

void expect_same_gradients(Function f, Function expected, const std::vector<Tensor>& leaves, const ConvGeometry& g,
                           const Activation& activation) {
  const std::vector<Tensor> wanted = gradients(expected, leaves, g, activation, false);
  for (const bool record : {false, true}) {
    const std::vector<Tensor> got = gradients(f, leaves, g, activation, record);
    for (std::size_t i = 0; i < got.size(); ++i) {
      expect_same_bits("gradient " + std::to_string(i) + (record ? ", recorded" : ""), got[i], wanted[i]);
    }
  }
}

TEST_P(ConvActivation, GradientsHaveTheBitsOfTheTwoCalls) {
  for_each_case([&](const ConvProblem& p) {
    const TensorOptions leaf{.requires_grad = true};
    const Tensor image = p.image_tensor(leaf), filter = p.filter_tensor(leaf), feature = p.feature_tensor(leaf);
    expect_same_gradients(conv, conv_then, {image, filter, p.feature_bias_tensor(leaf)}, p.geometry, activation());
    expect_same_gradients(conv_transpose, conv_transpose_then, {feature, filter, p.image_bias_tensor(leaf)}, p.geometry,
                          activation());
    expect_same_gradients(conv_transpose, conv_transpose_then, {feature, filter}, p.geometry, activation());
  });
}

// Central differences against first and second derivatives. The problems have real values, so that no sum is at a kink.
TEST_P(ConvActivation, FirstAndSecondOrder) {
  for (std::size_t i = 3; i < small_conv_cases().size(); i += 29) {
    const ConvCase& c = small_conv_cases()[i];
    SCOPED_TRACE(c);
    const ConvProblem p = real_problem(geometry(c));
    const std::vector<Tensor> inputs{p.feature_tensor(kDouble), p.filter_tensor(kDouble), p.image_bias_tensor(kDouble)};
    const auto f = [&](const std::vector<Tensor>& in) {
      return conv_transpose(in[0], in[1], in[2], p.geometry, activation());
    };
    EXPECT_TRUE(gradcheck(f, inputs));
    EXPECT_TRUE(gradgradcheck(f, inputs));
  }
}

// The third derivative, and a checkpoint, which records in its turn.
TEST_P(ConvActivation, OtherOrdersAndCheckpointsAgreeWithTheTwoCalls) {
  const ConvCase c{
      .name = "", .in_channels = 2, .out_channels = 3, .input = {3, 4}, .kernel = {2, 3}, .stride = {2, 1}};
  const ConvProblem p = real_problem(geometry(c));
  const auto third = [&](Function f, bool checkpointed) {
    Tensor x = p.feature_tensor({.dtype = kFloat64, .requires_grad = true});
    const Tensor w = p.filter_tensor({.dtype = kFloat64, .requires_grad = true}), b = p.image_bias_tensor(kDouble);
    Tape tape;
    const auto call = [&](const std::vector<Tensor>& in) { return f(in[0], w, b, p.geometry, activation()); };
    const Tensor y = checkpointed ? checkpoint(call, {x}) : call({x});
    const Tensor first = tape.gradient((y * y).sum(), {x}, {.record = true})[0];
    const Tensor second = tape.gradient((first * first).sum(), {x}, {.record = true})[0];
    return tape.gradient((second * second).sum(), {w})[0].detach();
  };
  const std::vector<double> expected = third(conv_transpose_then, false).to_vector<double>();
  expect_near("third order", third(conv_transpose, false), expected, 1e-11);
  expect_near("in a checkpoint", third(conv_transpose, true), expected, 1e-11);
}

TEST_P(ConvActivation, FrontEndsTakeIt) {
  const Tensor x = Tensor::randn({2, 4, 5, 6}), w = Tensor::randn({4, 3, 3, 2}), b = Tensor::randn({3});
  expect_same_bits("conv_transpose2d", conv_transpose2d(x, w, b, {.stride = 2, .activation = activation()}),
                   activate(conv_transpose2d(x, w, b, {.stride = 2}), activation()));
  expect_same_bits("unbatched", conv_transpose2d(x.select(0, 1), w, b, {.stride = 2, .activation = activation()}),
                   activate(conv_transpose2d(x.select(0, 1), w, b, {.stride = 2}), activation()));
  const Tensor v = Tensor::randn({3, 4, 3, 2});
  expect_same_bits("conv2d", conv2d(x, v, b, {.padding = 1, .activation = activation()}),
                   activate(conv2d(x, v, b, {.padding = 1}), activation()));
  const Tensor line = Tensor::randn({2, 4, 9}), w1 = Tensor::randn({4, 3, 5}), v1 = Tensor::randn({3, 4, 5});
  expect_same_bits("conv_transpose1d", conv_transpose1d(line, w1, b, {.stride = 3, .activation = activation()}),
                   activate(conv_transpose1d(line, w1, b, {.stride = 3}), activation()));
  expect_same_bits("conv1d", conv1d(line, v1, b, {.dilation = 2, .activation = activation()}),
                   activate(conv1d(line, v1, b, {.dilation = 2}), activation()));
  EXPECT_EQ(conv1d(Tensor::zeros({0, 4, 9}), v1, b, {.activation = activation()}).shape(), (Shape{0, 3, 5}));
  EXPECT_ERROR(conv2d(x, w, b, {.activation = activation()}), "conv2d: input's axis 1 must have the");
}

INSTANTIATE_TEST_SUITE_P(All, ConvActivation, ::testing::ValuesIn(activation_cases()), ActivationCaseName());

// ---- The tensors that a call keeps.

struct Recorded {
  Tensor x = Tensor::randn({2, 3, 7}, {.requires_grad = true});
  Tensor w = Tensor::randn({3, 2, 4}, {.requires_grad = true});
  Tensor b = Tensor::randn({2}, {.requires_grad = true});

  Tensor call(const Activation& activation) const { return conv_transpose1d(x, w, b, {.activation = activation}); }
};

TEST(ConvActivationTape, IsOneOperation) {
  const Recorded r;
  Tape tape;
  const auto grows = [&](const Activation& activation) {
    const std::size_t before = tape.size();
    EXPECT_TRUE(r.call(activation).requires_grad());
    return tape.size() - before;
  };
  EXPECT_EQ(grows({}), 4U);  // with the three leaves
  EXPECT_EQ(grows(Activation::relu()), 1U);
  EXPECT_EQ(grows(Activation::leaky_relu()), 1U);
  EXPECT_EQ(grows(Activation::tanh()), 1U);
  EXPECT_EQ(grows(Activation::sigmoid()), 1U);
  EXPECT_EQ(grows(Activation::silu()), 1U);
  EXPECT_EQ(grows(Activation::leaky_relu(-0.5)), 1U);
  const std::size_t before = tape.size();
  EXPECT_FALSE(conv_transpose1d(r.x.detach(), r.w.detach(), {}, {.activation = Activation::relu()}).requires_grad());
  EXPECT_EQ(tape.size(), before);
}

TEST(ConvActivationTape, ChangedOperandsAndResultsAreErrors) {
  Recorded r;
  {
    Tape tape;
    const Tensor y = r.call(Activation::tanh());
    const PauseTape pause;
    r.w.fill_(1.0);
    EXPECT_ERROR(tape.backward(y, {.grad_output = Tensor::ones(y.shape())}), "operand 1 of conv_transpose");
  }
  Tape tape;
  Tensor y = conv_transpose1d(r.x.detach(), r.w.detach(), r.b, {.activation = Activation::sigmoid()});
  r.x.detach().fill_(3.0);  // the bias's gradient needs the result alone
  tape.backward(y, {.retain = true, .grad_output = Tensor::ones(y.shape())});
  Tensor storage = y.detach();
  storage.fill_(0.0);
  EXPECT_ERROR(tape.backward(y, {.grad_output = Tensor::ones(y.shape())}), "the result of conv_transpose");
}

TEST(ConvActivationTape, OnlyTheNeededGradientsAreComputedAndHooksSeeThem) {
  const Recorded r;
  int seen = 0;
  const std::uint64_t hook = r.b.register_hook([&](const Tensor& gradient) {
    ++seen;
    return gradient * 2.0;
  });
  const Tensor w = r.w.detach();
  Tape tape;
  const Tensor y = conv_transpose1d(r.x.detach(), w, r.b, {.activation = Activation::relu()});
  int seen_in_y = 0;
  y.register_hook([&](const Tensor&) {
    ++seen_in_y;
    return Tensor{};
  });
  tape.backward(y, {.grad_output = Tensor::ones(y.shape())});
  r.b.remove_hook(hook);
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(seen_in_y, 1);
  EXPECT_FALSE(r.x.grad().defined());
  const Tensor expected = (y.detach() > 0.0).to(kFloat32).sum({0, 2}) * 2.0;
  expect_values("bias", r.b.grad(), expected.to_vector<double>());
}

TEST(ConvActivationTape, OthersAreAPassBehind) {
  const Recorded r;
  const auto run = [&](const Activation& activation, bool together) {
    Tape tape;
    const Tensor y = together ? r.call(activation) : activate(r.call({}), activation);
    std::vector<Tensor> all = tape.gradient(y.sum(), {r.x, r.w, r.b});
    all.push_back(y.detach());
    return all;
  };
  for (const Activation& activation : {Activation::gelu(), Activation::hardtanh(-0.5, 2.0), Activation::elu(0.5)}) {
    const std::vector<Tensor> got = run(activation, true), expected = run(activation, false);
    for (std::size_t i = 0; i < got.size(); ++i) expect_same_bits(std::to_string(i), got[i], expected[i]);
  }
}

TEST(ConvActivationTape, AnExpandedGradientIsReadAsItIs) {
  const Recorded r;
  const auto bias_gradient = [&](bool fused) {
    Tape tape;
    const Tensor y = fused ? r.call(Activation::tanh()) : activate(r.call({}), Activation::tanh());
    return tape.gradient(y.sum(), {r.b})[0];  // an expanded scalar returns
  };
  expect_same_bits("bias", bias_gradient(true), bias_gradient(false));
}

}  // namespace
}  // namespace adjoint::testing
