// Initialisers of small tensors, under tapes, and tensors that they must not write.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/init.h>
#include <adjoint/nn/linear.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

struct Named {
  std::string name;
  std::function<void(Tensor)> initialise;
};

/// Each initialiser that draws.
const std::vector<Named>& drawing() {
  static const std::vector<Named> all{
      {"uniform_", [](Tensor t) { init::uniform_(std::move(t), -1.0, 1.0); }},
      {"normal_", [](Tensor t) { init::normal_(std::move(t)); }},
      {"kaiming_uniform_", [](Tensor t) { init::kaiming_uniform_(std::move(t)); }},
      {"kaiming_normal_", [](Tensor t) { init::kaiming_normal_(std::move(t)); }},
      {"xavier_uniform_", [](Tensor t) { init::xavier_uniform_(std::move(t)); }},
      {"xavier_normal_", [](Tensor t) { init::xavier_normal_(std::move(t)); }},
      {"default_", [](Tensor t) { init::default_(std::move(t)); }},
  };
  return all;
}

// Both fans of a (1, 1) tensor are 1.
TEST(Init, OneElementIsDrawnFromTheWholeDistribution) {
  manual_seed(1);
  const double root3 = std::sqrt(3.0), root6 = std::sqrt(6.0);
  // The bound of a uniform, or the standard deviation of a normal distribution.
  const std::vector<std::pair<double, bool>> widths{{1, true},     {1, false},   {root6, true}, {std::sqrt(2.0), false},
                                                    {root3, true}, {1.0, false}, {1, true}};
  for (std::size_t n = 0; n < drawing().size(); ++n) {
    const auto& [name, initialise] = drawing()[n];
    const auto [width, uniform] = widths[n];
    double square = 0.0, largest = 0.0;
    constexpr int kDraws = 3000;
    for (int i = 0; i < kDraws; ++i) {
      const Tensor t = Tensor::full({1, 1}, 99.0);
      initialise(t);
      const double value = t.item<double>();
      square += value * value / kDraws;
      largest = std::max(largest, std::abs(value));
    }
    EXPECT_NEAR(std::sqrt(square), uniform ? width / root3 : width, 0.05 * width) << name;
    if (uniform) {
      EXPECT_LE(largest, width) << name;
      EXPECT_GT(largest, 0.99 * width) << name;
    }
  }
}

TEST(Init, ABiasOfOneElementFollowsItsWeightsFan) {
  manual_seed(1);
  double largest = 0.0;
  for (int i = 0; i < 500; ++i) {
    const Tensor bias = Tensor::full({1}, 99.0);
    init::default_(Tensor::empty({1, 4}), bias);
    largest = std::max(largest, std::abs(bias.item<double>()));
  }
  EXPECT_LE(largest, 0.5);
  EXPECT_GT(largest, 0.49);
}

TEST(Init, NothingIsWrittenThatATapeHasUsed) {
  const Tensor leaf = Tensor::full({2, 2}, 3.0, {.requires_grad = true});
  const Tensor row = Tensor::ones({1, 2});
  Tape outer;
  const Tensor result = leaf * leaf;
  Tape tape;  // the innermost has not
  std::vector<Named> all = drawing();
  all.push_back({"constant_", [](Tensor t) { init::constant_(std::move(t), 1.0); }});
  for (const Named& n : all) {
    EXPECT_ERROR(n.initialise(leaf), "_: a live tape must not have used the tensor; got shape (2, 2)") << n.name;
    EXPECT_ERROR(n.initialise(result), "_: a live tape must not have used the tensor") << n.name;
    EXPECT_ERROR(n.initialise(row.expand({2, 2})), "must not share memory") << n.name;
  }
  EXPECT_EQ(leaf.to_vector<float>(), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_EQ(row.to_vector<float>(), (std::vector<float>{1, 1}));
  const Tensor weight = Tensor::ones({1, 2});  // nor is a weight whose bias must not be
  EXPECT_ERROR(init::default_(weight, leaf), "default_: a live tape must not have used the tensor");
  EXPECT_ERROR(init::default_(weight, row.narrow(1, 0, 1).expand({2, 2})), "default_: ", "must not share memory");
  EXPECT_EQ(weight.to_vector<float>(), (std::vector<float>{1, 1}));
  const PauseTape pause;
  EXPECT_ERROR(init::uniform_(result), "uniform_: in-place operations must not change a recorded tensor");
  EXPECT_NO_THROW(init::uniform_(leaf));
}

TEST(Init, ModulesCanBeMadeWhileATapeRecords) {
  const Tape tape;
  EXPECT_NO_THROW(Linear(3, 2));
  Conv1d conv(2, 3, {.kernel_size = 2});
  EXPECT_NO_THROW(init::xavier_normal_(conv.weight));
  EXPECT_EQ(tape.size(), 0U);
}

TEST(Init, RangesAndDeviationsThatAreNoneAreErrors) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const Tensor t = Tensor::full({2, 2}, 7.0);
  EXPECT_ERROR(init::uniform_(t, 1.0, 0.0), "uniform_: low must not be above high", "got low 1, high 0");
  EXPECT_ERROR(init::uniform_(t, nan, 0.0), "got low nan, high 0");
  EXPECT_ERROR(init::uniform_(t, 0.0, infinity), "got low 0, high inf");
  EXPECT_ERROR(init::normal_(t, 0.0, -1.0), "normal_: ", "got mean 0, standard deviation -1");
  EXPECT_ERROR(init::normal_(t, nan, 1.0), "got mean nan");
  EXPECT_ERROR(init::normal_(t, 0.0, infinity), "standard deviation inf");
  EXPECT_ERROR(init::xavier_uniform_(t, {.gain = -1.0}), "xavier_uniform_: low must not be above high");
  EXPECT_ERROR(init::xavier_normal_(t, {.gain = -1.0}), "xavier_normal_: the mean and", "not negative");
  EXPECT_ERROR(init::xavier_uniform_(t, {.gain = infinity}), "must be finite in float32");
  EXPECT_ERROR(init::kaiming_uniform_(t, {.a = nan}), "kaiming_uniform_: ", "must be finite in float32");
  EXPECT_ERROR(init::kaiming_normal_(t, {.a = nan}), "kaiming_normal_: ", "must be finite in float32");
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{7, 7, 7, 7}));
}

}  // namespace
}  // namespace adjoint::nn
