// Groups of parameters: separate options, learning rates and state; groups by name, type and function.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/optim/groups.h>
#include <adjoint/tests/optim/optim_fixture.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace adjoint::optim {
namespace {

Tensor leaf(double value, DType dtype = kFloat32) {
  Tensor p = Tensor::full({2}, value, {.dtype = dtype, .requires_grad = true});
  p.set_grad(Tensor::ones({2}, {.dtype = dtype}));
  return p;
}

double first(const Tensor& t) { return t.to_vector<double>()[0]; }

template <class Optimiser, class Options>
void expect_grouped_trajectory(const Json& c, DType dtype, Device device, double tolerance) {
  const auto start_of = [&](double sign) {
    std::vector<double> values = fixture()["start"];
    for (double& value : values) value *= sign;
    return Tensor::from_vector(values, {5}, {.dtype = dtype, .device = device, .requires_grad = true});
  };
  std::vector<Tensor> parameters{start_of(1), start_of(-1)};
  std::vector<ParamGroup<Options>> groups;
  for (std::size_t g = 0; g < 2; ++g) {
    Json options = c["options"];
    options.update(c["groups"][g]);
    groups.push_back({.params = {parameters[g]}, .options = options_of<Options>(options)});
  }
  Optimiser optimizer(groups);
  for (std::size_t t = 0; t < c["points"].size(); ++t) {
    for (Tensor& p : parameters) set_gradient(p, t);
    optimizer.step();
    for (std::size_t g = 0; g < 2; ++g) {
      const auto expected = c["points"][t][g].get<std::vector<double>>(), actual = parameters[g].to_vector<double>();
      for (std::size_t i = 0; i < 5; ++i) {
        ASSERT_NEAR(actual[i], expected[i], tolerance) << c["kind"] << " step " << t << " group " << g;
      }
    }
  }
}

void expect_grouped_trajectories(DType dtype, Device device, double tolerance) {
  ASSERT_EQ(fixture()["grouped"].size(), 3U);
  for (const Json& c : fixture()["grouped"]) {
    visit_optimizer(c["kind"], [&]<class Optimiser>() {
      expect_grouped_trajectory<Optimiser, OptionsOf<Optimiser>>(c, dtype, device, tolerance);
    });
  }
}

TEST(Groups, TrajectoriesArePyTorchs) { expect_grouped_trajectories(kFloat64, kCPU, 1e-13); }
TEST(GroupsCuda, TrajectoriesArePyTorchs) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_grouped_trajectories(kFloat64, kCUDA, 1e-13);
  expect_grouped_trajectories(kFloat32, kCUDA, 1e-5);
}

TEST(Groups, HaveTheOptimisersOptionsOrTheirOwn) {
  const Tensor a = leaf(1), b = leaf(1), c = leaf(1);
  SGD sgd({{.params = {a}}, {.params = {b}, .options = SGDOptions{.lr = 0.25}}, {.params = {c}, .frozen = true}},
          {.lr = 0.5});
  EXPECT_EQ(sgd.num_groups(), 3U);
  EXPECT_EQ(sgd.parameters().size(), 3U);
  sgd.step();
  EXPECT_EQ(first(a), 0.5);
  EXPECT_EQ(first(b), 0.75);
  EXPECT_EQ(first(c), 1.0);
  EXPECT_TRUE(sgd.frozen(2));
  sgd.set_frozen(false, 2);
  sgd.set_lr(0.125, 2);
  sgd.step();
  EXPECT_EQ(first(a), 0.0);
  EXPECT_EQ(first(b), 0.5);
  EXPECT_EQ(first(c), 0.875);
  EXPECT_EQ(sgd.options(1).lr, 0.25);
  sgd.set_lr(0.0625);
  for (std::size_t g = 0; g < 3; ++g) EXPECT_EQ(sgd.lr(g), 0.0625);
  EXPECT_EQ(sgd.options(2).lr, 0.0625);
  sgd.zero_grad();
  EXPECT_FALSE(c.grad().defined());
}

TEST(Groups, AreListedAsHandles) {
  const Tensor a = Tensor::ones({2}, {.requires_grad = true}), b = Tensor::ones({3}, {.requires_grad = true});
  SGD sgd({{.params = {a}}, {.params = {b}, .options = SGDOptions{.lr = 0.5}}}, {.lr = 0.25});
  for (auto group : sgd.param_groups()) group.set_lr(group.lr() * 2);
  EXPECT_EQ(sgd.lr(0), 0.5);
  EXPECT_EQ(sgd.lr(1), 1.0);
  auto groups = sgd.param_groups();
  ASSERT_EQ(groups.size(), 2U);
  ASSERT_EQ(groups[1].params().size(), 1U);
  EXPECT_EQ(groups[1].params()[0].impl(), b.impl());
  groups[1].set_frozen(true);
  EXPECT_TRUE(sgd.frozen(1));
  EXPECT_TRUE(groups[1].frozen());
  EXPECT_FALSE(groups[0].frozen());
  EXPECT_ERROR(groups[0].set_lr(-1.0), "SGD");
}

TEST(Groups, AreAddedLater) {
  const Tensor a = leaf(1), b = leaf(1), c = leaf(1);
  SGD sgd({a}, {.lr = 0.5});
  sgd.step();
  sgd.add_param_group({.params = {b}, .options = SGDOptions{.lr = 0.25, .momentum = 0.5}});
  sgd.add_param_group({.params = {c}});
  sgd.step();
  sgd.step();
  EXPECT_EQ(first(a), -0.5);
  EXPECT_EQ(first(b), 1 - 0.25 - 0.25 * 1.5);
  EXPECT_EQ(first(c), 0.0);
  EXPECT_ERROR(sgd.add_param_group({.params = {b}}),
               "SGD: parameters must be distinct; got parameter 3 (shape (2,)) twice");
  EXPECT_ERROR(sgd.add_param_group({.params = {leaf(1)}, .options = SGDOptions{.momentum = -1}}), "momentum", "got -1");
  EXPECT_ERROR(sgd.add_param_group({.params = {leaf(1)}, .options = SGDOptions{.lr = -1}}), "SGD: lr must", "got -1");
  EXPECT_EQ(sgd.num_groups(), 3U);
  sgd.step();
  EXPECT_EQ(first(c), -0.5);
}

TEST(Groups, StatesResumeExactly) {
  const auto make = [](const Tensor& a, const Tensor& b) {
    return Adam({{.params = {a}}, {.params = {b}, .options = AdamOptions{.lr = 0.5, .amsgrad = true}}}, {.lr = 0.25});
  };
  const Tensor a = leaf(1), b = leaf(2), c = leaf(1), d = leaf(2);
  Adam one = make(a, b), other = make(c, d);
  one.step();
  one.set_lr(0.125, 1);
  Adam moved = std::move(one);
  const NamedTensors state = moved.state_dict();
  ASSERT_EQ(state[0].first, "group.0.lr");
  ASSERT_EQ(state[1].first, "group.1.lr");
  EXPECT_EQ(state[state.size() - 2].first, "1.max_exp_avg_sq");
  other.step();
  other.set_lr(1.0);
  other.load_state_dict(state);
  EXPECT_EQ(other.lr(0), 0.25);
  EXPECT_EQ(other.lr(1), 0.125);
  moved.step();
  other.step();
  EXPECT_EQ(a.to_vector<float>(), c.to_vector<float>());
  EXPECT_EQ(b.to_vector<float>(), d.to_vector<float>());

  Adam single({leaf(1), leaf(2)});
  const auto without_params = [](NamedTensors all) {
    std::erase_if(all, [](const auto& entry) { return entry.first == "params"; });
    return all;
  };
  EXPECT_ERROR(other.load_state_dict(without_params(single.state_dict())), "the state must hold 'group.0.lr'");
  EXPECT_ERROR(single.load_state_dict(without_params(state)), "load_state_dict (Adam): the state must hold 'lr'");
  EXPECT_ERROR(single.load_state_dict(state), "load_state_dict (Adam): the state must be of as many parameters",
               "got [1, 1] where the groups have [2]");
  NamedTensors bad = state;
  bad[1].second = Tensor::full({}, -2.0, {.dtype = kFloat64});
  EXPECT_ERROR(other.load_state_dict(bad), "Adam: lr must be finite and not negative; got -2");
  EXPECT_EQ(other.lr(1), 0.125);
}

TEST(Groups, AStateOfOtherParametersIsAnErrorUnlessItIsTold) {
  const Tensor a = leaf(1), b = leaf(2), c = leaf(1), d = leaf(2);
  SGD one({a}, {.lr = 0.25, .momentum = 0.5}), two({c, d}, {.lr = 0.5, .momentum = 0.5});
  one.step();
  two.step();
  const double before = first(two.state_dict()[4].second);
  EXPECT_ERROR(two.load_state_dict(one.state_dict()), "load_state_dict (SGD): the state must be of as many parameters",
               "got [1] where the groups have [2]", ".strict = false");
  EXPECT_ERROR(one.load_state_dict(two.state_dict()), "got [2] where the groups have [1]");
  EXPECT_EQ(two.lr(), 0.5);
  EXPECT_EQ(first(two.state_dict()[4].second), before);
  two.load_state_dict(one.state_dict(), {.strict = false});
  EXPECT_EQ(two.lr(), 0.25);
  EXPECT_EQ(two.state_dict().size(), 4U);  // lr, parameter 0, and how many there are
  one.load_state_dict(two.state_dict(), {.strict = false});
  EXPECT_EQ(one.state_dict().size(), 4U);

  SGD groups({{.params = {leaf(1)}}, {.params = {leaf(2)}, .options = SGDOptions{.lr = 2.0}}}, {.lr = 1.0});
  groups.load_state_dict(one.state_dict(), {.strict = false});
  EXPECT_EQ(groups.lr(0), 1.0);
  EXPECT_EQ(groups.lr(1), 2.0);
  NamedTensors silent = one.state_dict();
  silent.pop_back();  // as a program may make one itself
  two.load_state_dict(silent);
  silent.emplace_back("params", Tensor::scalar(1.0));
  EXPECT_ERROR(two.load_state_dict(silent), "'params' must be int64; got float32");
}

TEST(Groups, BadCallsAreErrors) {
  const Tensor a = leaf(1), b = leaf(1);
  using Group = ParamGroup<SGDOptions>;
  EXPECT_ERROR(SGD(std::vector<Group>{}), "SGD: there must be a parameter; got an empty list");
  EXPECT_ERROR(SGD(std::vector<Group>{{}, {}}), "SGD: there must be a parameter");
  EXPECT_ERROR(SGD({{.params = {a, b}}, {.params = {b}}}), "SGD: parameters must be distinct; got parameter 2");
  EXPECT_ERROR(SGD({{.params = {a}, .options = SGDOptions{.lr = -0.5}}}), "SGD: lr must", "got -0.5");
  SGD sgd({{.params = {a}}, {.params = {b}}}, {.lr = 0.5});
  EXPECT_ERROR(sgd.lr(2), "SGD: the group must be one of 2, counted from 0; got 2");
  EXPECT_ERROR(sgd.set_lr(0.1, 3), "got 3");
  EXPECT_ERROR(sgd.set_lr(-0.1, 1), "SGD: lr must be finite and not negative; got -0.1");
  EXPECT_ERROR(sgd.set_lrs({0.1}), "SGD: there must be an lr for each of the 2 groups; got 1");
  EXPECT_ERROR(sgd.set_lrs({0.1, -1}), "got -1");
  EXPECT_EQ(sgd.lr(), 0.5);
  EXPECT_ERROR(sgd.set_frozen(true, 2), "got 2");
  EXPECT_ERROR(sgd.frozen(9), "got 9");
  EXPECT_ERROR(sgd.options(7), "got 7");
  EXPECT_ERROR(sgd.set_momentum(0.5, 0), "SGD: there must be a momentum to set; got none in group 0");
  Adam adam({a});
  EXPECT_ERROR(adam.set_momentum(1.0, 0), "Adam: momentum must be above 0 and below 1; got 1");
  adam.set_momentum(0.5, 0);
  EXPECT_EQ(adam.options().betas[0], 0.5);
}

nn::Sequential network() {
  return nn::Sequential{nn::Linear(2, 3), nn::LayerNorm(Shape{3}), nn::Linear(3, 4), nn::LayerNorm(Shape{4})};
}

TEST(GroupBy, SelectsByPatternTypeAndFunctionAndKeepsTheRest) {
  const nn::Sequential net = network();
  const auto groups = group_by<AdamWOptions>(net.named_parameters(),
                                             {{.select = "0.*", .frozen = true},
                                              {.select = of_type<nn::LayerNorm>(net),
                                               .options = AdamWOptions{.lr = 0.5, .weight_decay = 0.0}},
                                              {.select = {"vectors of 4", [](const std::string& name, const Tensor& p) {
                                                            return name[0] == '2' && p.dim() == 1;
                                                          }}}});
  ASSERT_EQ(groups.size(), 4U);
  const auto expect = [&](std::size_t group, const std::vector<std::size_t>& indices) {
    ASSERT_EQ(groups[group].params.size(), indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      EXPECT_EQ(groups[group].params[i].impl(), net.parameters()[indices[i]].impl());
    }
  };
  expect(0, {0, 1});
  expect(1, {2, 3, 6, 7});
  expect(2, {5});
  expect(3, {4});
  const AdamW adam(groups, {.lr = 0.25});
  EXPECT_TRUE(adam.frozen(0));
  EXPECT_EQ(adam.lr(0), 0.25);
  EXPECT_EQ(adam.options(1).weight_decay, 0.0);
  EXPECT_EQ(adam.options(1).lr, 0.5);
  EXPECT_EQ(adam.options(3).weight_decay, 1e-2);
}

TEST(GroupBy, EverythingSelectedLeavesAnEmptyRest) {
  const nn::Sequential net = network();
  const auto groups = group_by<SGDOptions>(net.named_parameters(), {{.select = "*"}});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_TRUE(groups[1].params.empty());
  EXPECT_EQ(SGD(groups).parameters().size(), 8U);
}

TEST(GroupBy, ErrorsNameTheParameterAndTheGroup) {
  const nn::Sequential net = network();
  const NamedTensors named = net.named_parameters();
  EXPECT_ERROR(group_by<SGDOptions>(named, {{.select = "*.bias"}, {.select = of_type<nn::LayerNorm>(net)}}),
               "group_by: a parameter must be in one group; got '1.bias' in *.bias and in LayerNorm");
  EXPECT_ERROR(group_by<SGDOptions>(named, {{.select = std::string("*.bais")}}),
               "group_by: a group must hold a parameter; got none of 8 for *.bais");
  EXPECT_ERROR(group_by<SGDOptions>(named, {{.select = of_type<nn::BatchNorm2d>(net)}}), "got none of 8 for a type");
}

}  // namespace
}  // namespace adjoint::optim
