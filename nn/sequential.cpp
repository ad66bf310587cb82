#include <adjoint/nn/sequential.h>

#include <adjoint/core/check.h>

namespace adjoint::nn {

void Layer::wrong_type() const {
  fail("Layer::as: the type must be the one that the layer was made from; got another for a {}", type());
}

Sequential::Sequential() : Module("Sequential"), layers_(std::make_shared<std::vector<Layer>>()) {}

Sequential::Sequential(std::initializer_list<std::pair<std::string, Layer>> layers) : Sequential() {
  for (const auto& [name, layer] : layers) append(name, layer);
}

void Sequential::append(Layer layer) { append(std::to_string(size()), std::move(layer)); }

void Sequential::append(const std::string& name, Layer layer) {
  layers_->push_back(register_module(name, std::move(layer)));
}

Tensor Sequential::operator()(const Tensor& input) const {
  Tensor value = input;
  for (const Layer& layer : *layers_) value = layer(value);
  return value;
}

const Layer& Sequential::operator[](std::size_t i) const {
  ADJOINT_CHECK(i < size(), "Sequential: an index must be below the number of layers; got {} of {}", i, size());
  return (*layers_)[i];
}

}  // namespace adjoint::nn
