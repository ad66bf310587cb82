#include <adjoint/nn/sequential.h>

#include <adjoint/core/check.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>

namespace adjoint::nn {
namespace {

using Step = std::function<Tensor(const Tensor&)>;

// The types themselves alone: what derives from them may compute something else.
template <class... Activations>
Activation activation_of(const Layer& layer) {
  Activation found;
  const auto look = [&]<class M>() {
    if (const M* module = layer.get_if<M>()) found = module->activation();
  };
  (look.template operator()<Activations>(), ...);
  return found;
}

template <class... Convolutions>
Step step_of(const Layer& layer, const Activation& activation) {
  Step step;
  const auto look = [&]<class M>() {
    if (const M* module = layer.get_if<M>()) {
      step = [conv = *module, activation](const Tensor& input) { return conv.activated(input, activation); };
    }
  };
  (look.template operator()<Convolutions>(), ...);
  return step;
}

// Both layers as one operator; empty where they are not such a pair.
Step fused(const Layer& first, const Layer& second) {
  const Activation activation = activation_of<ReLU, LeakyReLU, Tanh, Sigmoid, SiLU>(second);
  if (activation.is_none()) return {};
  return step_of<Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d>(first, activation);
}

}  // namespace

void Layer::wrong_type() const {
  fail("Layer::as: the type must be the one that the layer was made from; got another for a {}", type());
}

Sequential::Sequential() : Module("Sequential"), chain_(std::make_shared<Chain>()) {}

Sequential::Sequential(std::initializer_list<std::pair<std::string, Layer>> layers) : Sequential() {
  for (const auto& [name, layer] : layers) append(name, layer);
}

void Sequential::append(Layer layer) { append(std::to_string(size()), std::move(layer)); }

void Sequential::append(const std::string& name, Layer layer) {
  auto& [layers, steps] = *chain_;
  layers.push_back(register_module(name, std::move(layer)));
  const Step both = layers.size() > 1 ? fused(layers[layers.size() - 2], layers.back()) : Step{};
  if (both) {
    steps.back() = both;
  } else {
    steps.emplace_back(layers.back());
  }
}

Tensor Sequential::operator()(const Tensor& input) const {
  Tensor value = input;
  for (const Step& step : chain_->steps) value = step(value);
  return value;
}

const Layer& Sequential::operator[](std::size_t i) const {
  ADJOINT_CHECK(i < size(), "Sequential: an index must be below the number of layers; got {} of {}", i, size());
  return chain_->layers[i];
}

}  // namespace adjoint::nn
