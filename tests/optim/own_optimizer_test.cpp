// An optimiser that a program derives from Optimizer.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/optim/optimizer.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace adjoint {
namespace {

// SGD with momentum, in operators.
class OwnMomentum : public optim::Optimizer {
 public:
  OwnMomentum(std::vector<Tensor> parameters, double lr)
      : Optimizer("OwnMomentum", std::move(parameters), lr, {"momentum_buffer"}) {}
  std::vector<std::int64_t> steps;

 protected:
  void update(const optim::ParameterUpdate& u) override {
    steps.push_back(u.step);
    u.state[0].mul_(0.5).add_(u.gradient.to(u.state[0].dtype()));
    u.parameter.copy_(u.parameter.to(u.state[0].dtype()) - u.state[0] * u.lr);
  }
};

class Forgetful : public optim::Optimizer {
 public:
  explicit Forgetful(std::vector<Tensor> parameters) : Optimizer("Forgetful", std::move(parameters), 1.0, {}) {}
};

std::vector<Tensor> leaves(DType dtype) {
  return {Tensor::from_vector<double>({1, 2, 3}, {3}, {.dtype = dtype, .requires_grad = true}),
          Tensor::from_vector<double>({4}, {1}, {.dtype = dtype, .requires_grad = true}),
          Tensor::from_vector<double>({5}, {1}, {.dtype = dtype, .requires_grad = true})};
}

void backward(const std::vector<Tensor>& parameters) {
  Tape tape;  // the third parameter has no gradient
  tape.backward(square(parameters[0]).sum() + square(parameters[1]).sum());
}

TEST(OwnOptimizer, DoesWhatTheLibrarysDoes) {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    const std::vector<Tensor> own = leaves(dtype), library = leaves(dtype);
    OwnMomentum a(own, 0.125);
    optim::SGD b(library, {.lr = 0.125, .momentum = 0.5});
    for (int step = 0; step < 3; ++step) {
      a.zero_grad();
      b.zero_grad();
      backward(own);
      backward(library);
      Tape tape;  // updates are not recorded
      a.step();
      b.step();
    }
    for (std::size_t i = 0; i < own.size(); ++i) testing::expect_same_bits("parameter", own[i], library[i]);
    EXPECT_EQ(a.steps, (std::vector<std::int64_t>{1, 1, 2, 2, 3, 3}));
  }
}

struct OwnOptions {
  double lr = 1.0;
  double power = 1.0;
  bool master_weights = false;
  static constexpr const char* kName = "OwnPower";
  void check() const {
    if (power < 0) throw Error("OwnPower: power must not be negative");
  }
  std::vector<std::string> state_names() const { return {}; }
};

// p -= lr * gradient^power, each group with its own.
class OwnPower : public optim::OptimizerOf<OwnOptions> {
 public:
  using OptimizerOf::OptimizerOf;

 protected:
  void update(const optim::ParameterUpdate& u) override {
    u.parameter.sub_(pow(u.gradient, options(u.group).power), u.lr);
  }
};

TEST(OwnOptimizer, HasGroupsWithOptions) {
  const std::vector<Tensor> own = leaves(kFloat32);
  OwnPower power({{.params = {own[0]}, .options = OwnOptions{.lr = 0.5, .power = 2.0}}, {.params = {own[1]}}});
  backward(own);
  power.set_lr(0.25, 0);
  power.step();
  EXPECT_EQ(own[0].to_vector<float>(), (std::vector<float>{0, -2, -6}));
  EXPECT_EQ(own[1].item<float>(), -4.0F);
  EXPECT_ERROR(power.add_param_group({.params = {own[2]}, .options = OwnOptions{.power = -1}}), "OwnPower: power");
  EXPECT_FALSE(power.momentum(1).has_value());
}

TEST(OwnOptimizer, SavesItsState) {
  const std::vector<Tensor> own = leaves(kFloat32), again = leaves(kFloat32);
  OwnMomentum a(own, 0.125), b(again, 0.5);
  backward(own);
  a.step();
  EXPECT_EQ(a.state_dict().size(), 6U);  // lr, step and buffer of two parameters, and how many there are
  b.load_state_dict(a.state_dict());
  EXPECT_EQ(b.lr(), 0.125);
  testing::expect_same_bits("buffer", b.state_dict()[2].second, a.state_dict()[2].second);
}

TEST(OwnOptimizer, MustSayWhatItDoes) {
  const std::vector<Tensor> own = leaves(kFloat32);
  Forgetful optimizer(own);
  optimizer.step();  // nothing has a gradient
  backward(own);
  EXPECT_ERROR(optimizer.step(), "Forgetful: ", "update()");
}

}  // namespace
}  // namespace adjoint
