// Module and Sequential: names, state, moves, modes, printing, composition.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

// As the documentation shows it.
class Residual : public Module {
 public:
  explicit Residual(std::int64_t channels)
      : Module("Residual"),
        conv(register_module("conv", Conv2d(channels, channels, {.kernel_size = 3, .padding = 1}))),
        scale(register_parameter("scale", Tensor::ones({1}))),
        calls(register_buffer("calls", Tensor::zeros({}, {.dtype = kInt64}))) {}
  Tensor operator()(const Tensor& x) const { return x + scale * relu(conv(x)); }

  Child<Conv2d> conv;
  Parameter scale;
  Buffer calls;
};

std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : tensors) all.push_back(name);
  return all;
}

Sequential upscaler() {
  return Sequential(Conv2d(3, 4, {.kernel_size = 3, .padding = 1}), ReLU(), Residual(4),
                    ConvTranspose2d(4, 3, {.kernel_size = 4, .stride = 2, .padding = 1}));
}

TEST(Module, NamesFollowTheTreeInPyTorchsOrder) {
  const Sequential net = upscaler();
  EXPECT_EQ(names(net.named_parameters()), (std::vector<std::string>{"0.weight", "0.bias", "2.scale", "2.conv.weight",
                                                                     "2.conv.bias", "3.weight", "3.bias"}));
  EXPECT_EQ(names(net.named_buffers()), std::vector<std::string>{"2.calls"});
  EXPECT_EQ(names(net.state_dict()), (std::vector<std::string>{"0.weight", "0.bias", "2.scale", "2.calls",
                                                               "2.conv.weight", "2.conv.bias", "3.weight", "3.bias"}));
  EXPECT_EQ(net.num_parameters(), 4 * 3 * 9 + 4 + 1 + 4 * 4 * 9 + 4 + 4 * 3 * 16 + 3);
  std::vector<std::string> paths;
  for (const auto& [path, module] : net.named_modules()) paths.push_back(path + ":" + module.type());
  EXPECT_EQ(paths, (std::vector<std::string>{":Sequential", "0:Conv2d", "1:ReLU", "2:Residual", "2.conv:Conv2d",
                                             "3:ConvTranspose2d"}));
}

TEST(Module, CopiesShareParametersAndMode) {
  Residual block(2);
  const Residual copy = block;
  EXPECT_TRUE(copy == block);
  block.eval();
  EXPECT_FALSE(copy.training());
  EXPECT_FALSE(copy.conv.training());
  block.train();
  EXPECT_TRUE(copy.conv.training());
  block.scale.fill_(3.0);
  EXPECT_EQ(copy.scale.item<float>(), 3.0F);
  EXPECT_EQ(copy.parameters()[0].item<float>(), 3.0F);
}

TEST(Module, ASharedTensorIsOneParameter) {
  Module tied;
  const Tensor weight = Tensor::ones({3});
  tied.register_parameter("a", weight);
  tied.register_parameter("b", weight);
  EXPECT_EQ(names(tied.named_parameters()), std::vector<std::string>{"a"});
  EXPECT_EQ(tied.num_parameters(), 3);
  EXPECT_EQ(names(tied.state_dict()), (std::vector<std::string>{"a", "b"}));
}

TEST(Module, StateIsOutsideTheTapeAndSharesElements) {
  Residual block(2);
  const NamedTensors state = block.state_dict();
  EXPECT_FALSE(state[0].second.requires_grad());
  block.scale.fill_(5.0);
  EXPECT_EQ(state[0].second.item<float>(), 5.0F);
}

TEST(Module, LoadsTheStateOfAnother) {
  Residual from(2), to(2);
  from.calls.fill_(9);
  const Tensor held = to.conv.weight;
  const LoadReport report = to.load_state_dict(from.state_dict());
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  EXPECT_EQ(held.to_vector<float>(), from.conv.weight.to_vector<float>());
  EXPECT_EQ(to.calls.item<std::int64_t>(), 9);
  EXPECT_TRUE(to.scale.requires_grad());
}

TEST(Module, AStateThatDoesNotFitIsOneErrorAndChangesNothing) {
  Residual block(2);
  const auto before = block.conv.bias.to_vector<float>();
  NamedTensors state = block.state_dict();
  state.erase(state.begin());                  // scale
  state[0].second = Tensor::zeros({});         // calls, of another dtype
  state[1].second = Tensor::zeros({2, 2, 3});  // conv.weight, of another shape
  state[2].second = Tensor::full({2}, 77.0);   // conv.bias fits
  state.emplace_back("conv.gain", Tensor::zeros({1}));
  EXPECT_ERROR(block.load_state_dict(state),
               "load_state_dict: names, shapes and dtypes must be the module's (Residual)",
               "; missing: scale; unexpected: conv.gain; mismatched: calls (the module has int64 (), got float32 ()), "
               "conv.weight "
               "(the module has float32 (2, 2, 3, 3), got float32 (2, 2, 3))");
  EXPECT_ERROR(block.load_state_dict(state, {.strict = false}), "mismatched: calls");
  EXPECT_EQ(block.conv.bias.to_vector<float>(), before);

  state.erase(state.begin(), state.begin() + 2);
  const LoadReport report = block.load_state_dict(state, {.strict = false});
  EXPECT_EQ(report.missing, (std::vector<std::string>{"scale", "calls", "conv.weight"}));
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"conv.gain"});
  EXPECT_EQ(block.conv.bias.to_vector<float>(), (std::vector<float>{77, 77}));

  EXPECT_ERROR(block.load_state_dict({{"scale", Tensor{}}}), "every tensor must be defined; got Tensor{} as 'scale'");
  EXPECT_ERROR(block.load_state_dict({{"scale", Tensor::ones({1})}, {"scale", Tensor::ones({1})}}),
               "names must be unique; got 'scale' twice");
}

TEST(Module, ConvertsInPlaceForEveryHolder) {
  Residual block(2);
  optim::SGD sgd(block.parameters(), {.lr = 1.0});
  const Tensor held = block.conv.bias;
  block.scale.set_grad(Tensor::full({1}, 0.5));
  block.to(kFloat64);
  EXPECT_EQ(held.dtype(), kFloat64);
  EXPECT_TRUE(held.requires_grad());
  EXPECT_EQ(block.calls.dtype(), kInt64);
  EXPECT_EQ(block.scale.grad().dtype(), kFloat64);
  sgd.step();
  EXPECT_EQ(block.scale.item<double>(), 0.5);
  EXPECT_EQ(block(Tensor::zeros({1, 2, 4, 4}, {.dtype = kFloat64})).dtype(), kFloat64);
}

TEST(Module, ConvertsParametersThatAreViews) {
  const Tensor all = Tensor::arange(0.0, 12);
  Module module;
  module.register_parameter("middle", all.narrow(0, 4, 3));
  module.register_parameter("across", all.reshape({3, 4}).transpose(0, 1).narrow(0, 1, 2));
  module.register_buffer("last", all.narrow(0, 9, 3));
  const std::vector<Tensor> held = module.parameters();
  Tensor(held[0]).set_grad(Tensor::arange(0.0, 6).narrow(0, 2, 3));
  for (const DType dtype : {kFloat64, kBFloat16, kFloat32}) {
    module.to(dtype);
    EXPECT_EQ(held[0].dtype(), dtype);
    EXPECT_EQ(held[0].to_vector<double>(), (std::vector<double>{4, 5, 6}));
    EXPECT_EQ(held[1].shape(), (Shape{2, 3}));
    EXPECT_EQ(held[1].to_vector<double>(), (std::vector<double>{1, 5, 9, 2, 6, 10}));
    EXPECT_EQ(module.named_buffers()[0].second.to_vector<double>(), (std::vector<double>{9, 10, 11}));
    EXPECT_EQ(held[0].grad().to_vector<double>(), (std::vector<double>{2, 3, 4}));
    const Storage& storage = *held[0].impl()->storage;
    const auto end = static_cast<std::size_t>((held[0].storage_offset() + 3) * element_size(dtype));
    EXPECT_LE(end, storage.nbytes());
    module.zero_grad();
    Tensor(held[0]).set_grad(Tensor::arange(0, 6, 1, {.dtype = dtype}).narrow(0, 2, 3));
  }
}

TEST(Module, LoadsItsOwnTensorsUnderOtherNames) {
  const auto make = [] {
    Module module;
    module.register_parameter("a", Tensor::from_vector<float>({1, 2}, {2}));
    module.register_parameter("b", Tensor::from_vector<float>({3, 4}, {2}));
    module.register_parameter("c", Tensor::from_vector<float>({5, 6}, {2}));
    return module;
  };
  const auto all = [](const Module& module) {
    std::vector<float> values;
    for (const Tensor& p : module.parameters()) {
      for (const float v : p.to_vector<float>()) values.push_back(v);
    }
    return values;
  };
  Module swapped = make();
  NamedTensors state = swapped.state_dict();
  std::swap(state[0].second, state[1].second);
  swapped.load_state_dict(state);
  EXPECT_EQ(all(swapped), (std::vector<float>{3, 4, 1, 2, 5, 6}));
  std::rotate(state.begin(), state.begin() + 1, state.end());
  swapped.load_state_dict({{"a", state[0].second}, {"b", state[1].second}, {"c", state[2].second}});
  EXPECT_EQ(all(swapped), (std::vector<float>{3, 4, 5, 6, 1, 2}));

  // Views of one another's elements, backwards and forwards, and of a dtype that is converted.
  for (const bool forwards : {false, true}) {
    const Tensor line = Tensor::arange(0.0, 6);
    Module views;
    views.register_parameter("a", line.narrow(0, 0, 2));
    views.register_parameter("b", line.narrow(0, 2, 2));
    views.register_parameter("c", line.narrow(0, 4, 2));
    const Tensor source = line.detach();
    views.load_state_dict({{"a", source.narrow(0, forwards ? 1 : 4, 2)},
                           {"b", source.narrow(0, forwards ? 3 : 1, 2)},
                           {"c", source.narrow(0, forwards ? 0 : 3, 2)}});
    EXPECT_EQ(all(views), forwards ? (std::vector<float>{1, 2, 3, 4, 0, 1}) : (std::vector<float>{4, 5, 1, 2, 3, 4}));
  }
  // Tensors that overlap themselves are refused before anything is written.
  Module expanded = make();
  expanded.register_parameter("d", Tensor::ones({1}).expand({2}));
  state = expanded.state_dict();
  for (auto& [name, tensor] : state) tensor = Tensor::full({2}, 9.0);
  EXPECT_ERROR(expanded.load_state_dict(state), "load_state_dict: elements of the tensor must not share memory");
  EXPECT_EQ(all(expanded), (std::vector<float>{1, 2, 3, 4, 5, 6, 1, 1}));
}

TEST(Module, OneNameOfATiedTensorIsEnough) {
  Module tied;
  const Tensor weight = Tensor::zeros({2}), other = Tensor::zeros({2});
  tied.register_parameter("a", weight);
  tied.register_parameter("b", weight);
  tied.register_parameter("c", weight.detach());
  tied.register_parameter("d", other);
  tied.load_state_dict({{"b", Tensor::full({2}, 1.0)}, {"d", Tensor::full({2}, 2.0)}});
  EXPECT_EQ(weight.to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(other.to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_ERROR(tied.load_state_dict({{"d", Tensor::zeros({2})}}), "; missing: a, b, c");
  EXPECT_EQ(other.to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(Module, ConvertsALoadedDTypeOnRequest) {
  Residual block(2);
  NamedTensors state = block.state_dict();
  for (auto& [name, tensor] : state) tensor = Tensor::full(tensor.shape(), 2.0, {.dtype = kFloat64});
  EXPECT_ERROR(block.load_state_dict(state),
               "mismatched: scale (the module has float32 (1,), got float64 (1,)), calls");
  block.load_state_dict(state, {.convert_dtype = true});
  EXPECT_EQ(block.scale.item<float>(), 2.0F);
  EXPECT_EQ(block.scale.dtype(), kFloat32);
  EXPECT_EQ(block.calls.item<std::int64_t>(), 2);
  state[0].second = Tensor::zeros({2});
  EXPECT_ERROR(block.load_state_dict(state, {.convert_dtype = true}), "mismatched: scale (the module has float32 (1,)");
}

TEST(Module, MovesAreErrorsWhereTheyCannotBeMade) {
  Residual block(2);
  EXPECT_ERROR(block.to(kInt32), "Module::to: the dtype must be floating point; got int32");
  const Tape tape;
  EXPECT_ERROR(block.to(kFloat64), "Module::to: a module must not move while a tape records");
  EXPECT_EQ(block.scale.dtype(), kFloat32);
}

TEST(Module, GradientsAreForgottenAndParametersFrozen) {
  Residual block(2);
  block.scale.set_grad(Tensor::ones({1}));
  block.zero_grad();
  EXPECT_FALSE(block.scale.grad().defined());
  block.requires_grad_(false);
  EXPECT_FALSE(block.conv.weight.requires_grad());
}

TEST(Module, BadRegistrationsAreErrors) {
  Residual block(2);
  EXPECT_ERROR(block.register_parameter("scale", Tensor::ones({1})),
               "register_parameter: a name must be free; got 'scale', which Residual");
  EXPECT_ERROR(block.register_buffer("conv", Tensor::ones({1})), "register_buffer: a name must be free; got 'conv'");
  EXPECT_ERROR(block.register_module("calls", ReLU()), "register_module: a name must be free; got 'calls'");
  EXPECT_ERROR(block.register_module("a.b", ReLU()), "a name must not be empty or hold a dot; got 'a.b' in Residual");
  EXPECT_ERROR(block.register_parameter("", Tensor::ones({1})), "a name must not be empty");
  EXPECT_ERROR(block.register_parameter("p", Tensor{}), "a parameter must be defined; got Tensor{} as 'p'");
  EXPECT_ERROR(block.register_parameter("p", Tensor::ones({1}, {.dtype = kInt64})),
               "must be floating point; got int64");
  EXPECT_ERROR(block.register_buffer("b", Tensor{}), "a buffer must be defined; got Tensor{} as 'b'");
  EXPECT_ERROR(block.register_buffer("b", Tensor::ones({1}, {.requires_grad = true})),
               "a buffer must not require a gradient; got 'b'");
  EXPECT_ERROR(block.register_module("self", block), "a module must not be put inside itself; got 'self' in Residual");
  Module child = block.named_children()[0].second;
  EXPECT_ERROR(child.register_module("parent", block), "a module must not be put inside itself");
}

TEST(Module, PrintsLikePyTorch) {
  EXPECT_EQ(to_string(upscaler()),
            "Sequential(\n"
            "  (0): Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
            "  (1): ReLU()\n"
            "  (2): Residual(\n"
            "    (conv): Conv2d(4, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
            "  )\n"
            "  (3): ConvTranspose2d(4, 3, kernel_size=(4, 4), stride=(2, 2), padding=(1, 1))\n"
            ")");
}

TEST(Sequential, IsTheCompositionOfItsLayers) {
  const Sequential net = upscaler();
  const Tensor x = Tensor::randn({2, 3, 5, 6});
  const Tensor y = net(x);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 10, 12}));
  Tensor by_hand = x;
  for (const Layer& layer : net) by_hand = layer(by_hand);
  EXPECT_EQ(y.to_vector<float>(), by_hand.to_vector<float>());
  EXPECT_EQ(net.size(), 4U);
}

TEST(Sequential, GivesLayersBackUnderTheirOwnType) {
  const Sequential net = upscaler();
  EXPECT_TRUE(net[0].as<Conv2d>().weight.impl() == net.parameters()[0].impl());
  EXPECT_EQ(net[3].as<ConvTranspose2d>().options().stride, Size2(2));
  EXPECT_ERROR(net[0].as<ReLU>(),
               "Layer::as: the type must be the one that the layer was made from; got another for a Conv2d");
  EXPECT_ERROR(net[4], "Sequential: an index must be below the number of layers; got 4 of 4");
}

TEST(Sequential, TakesNamesFunctionsAndOtherSequentials) {
  const Tensor x = Tensor::from_vector<float>({-2, 3}, {2});
  Sequential net({{"double", [](const Tensor& t) { return t + t; }}, {"act", ReLU()}});
  EXPECT_EQ(net(x).to_vector<float>(), (std::vector<float>{0, 6}));
  net.append(Sequential(Identity(), PReLU()));
  EXPECT_EQ(names(net.named_parameters()), std::vector<std::string>{"2.1.weight"});
  EXPECT_EQ(to_string(net),
            "Sequential(\n  (double): Function()\n  (act): ReLU()\n"
            "  (2): Sequential(\n    (0): Identity()\n    (1): PReLU(num_parameters=1)\n  )\n)");
  EXPECT_ERROR(net.append("act", ReLU()), "a name must be free; got 'act'");
  EXPECT_EQ(net.size(), 3U);
}

TEST(Sequential, CopiesShareLayersAppendedLater) {
  Sequential net{ReLU()};
  const Sequential copy = net;
  net.append([](const Tensor& t) { return t + 1.0; });
  EXPECT_EQ(copy.size(), 2U);
  EXPECT_EQ(copy(Tensor::full({1}, -1.0)).item<float>(), 1.0F);
}

}  // namespace
}  // namespace adjoint::nn
