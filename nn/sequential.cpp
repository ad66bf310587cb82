#include <adjoint/nn/sequential.h>

#include <adjoint/core/check.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/norm.h>

namespace adjoint::nn {
namespace {

using Step = std::function<Tensor(const Tensor&)>;

// Apart where either has hooks, which are to see what stands between them.
template <class... Fusing>
Step step_of(const Layer& layer, const Layer& behind, const Activation& activation) {
  Step step;
  const auto look = [&]<class M>() {
    if (const M* module = layer.get_if<M>()) {
      step = [made = *module, behind, activation](const Tensor& input) {
        if (made.has_forward_hooks() || behind.has_forward_hooks()) return behind(made(input));
        if constexpr (requires { made.activated(input, activation); }) {
          return detail::located(made, [&] { return made.activated(input, activation); });
        } else {
          return made(input, {.activation = activation});
        }
      };
    }
  };
  (look.template operator()<Fusing>(), ...);
  return step;
}

// Both layers as one operator; empty where they are not such a pair. The types themselves alone: what derives from them
// may compute something else.
Step fused(const Layer& first, const Layer& second) {
  Activation activation;
#define ADJOINT_LOOK(Name, ...) \
  if (const Name* module = second.get_if<Name>()) activation = module->activation();
  ADJOINT_ACTIVATIONS(ADJOINT_LOOK, ADJOINT_LOOK, ADJOINT_LOOK)
#undef ADJOINT_LOOK
  if (activation.is_none()) return {};
  return step_of<Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d, BatchNorm1d, BatchNorm2d, InstanceNorm1d,
                 InstanceNorm2d, LayerNorm, GroupNorm, RMSNorm>(first, second, activation);
}

}  // namespace

void Layer::wrong_type() const {
  fail("Layer::as: the type must be the one that the layer was made from; got another for a {}", type());
}

void Layer::empty_function() { fail("Layer: the function must not be empty; got one without a target"); }

Sequential::Sequential() : Module("Sequential") {}

Sequential::Chain::Chain(const Chain& other)
    : layers(other.layers), steps(std::make_shared<const std::vector<Step>>(*other.steps)) {}

Sequential::Sequential(std::initializer_list<std::pair<std::string, Layer>> layers) : Sequential() {
  for (const auto& [name, layer] : layers) append("Sequential", name, layer);
}

void Sequential::append(Layer layer) { append_next("Sequential::append", std::move(layer)); }

void Sequential::append_next(const char* op, Layer layer) {
  append(op, std::to_string(layers(op).size()), std::move(layer));
}

void Sequential::append(const std::string& name, Layer layer) { append("Sequential::append", name, std::move(layer)); }

void Sequential::append(const char* op, const std::string& name, Layer layer) {
  check_not_moved_from(op);
  // A call that is under way goes on with the steps that it began with.
  auto steps = std::make_shared<std::vector<Step>>(*chain_->steps);
  const Step both = chain_->layers.empty() ? Step{} : fused(chain_->layers.back(), layer);
  if (both) {
    steps->back() = both;
  } else {
    steps->emplace_back(layer);
  }
  chain_->layers.reserve(chain_->layers.size() + 1);
  add_slot(op, name, &layer, layer.own_(layer));
  chain_->layers.push_back(std::move(layer));
  chain_->steps = std::move(steps);
}

Tensor Sequential::operator()(const Tensor& input) const {
  check_not_moved_from("Sequential");
  const std::shared_ptr<const std::vector<Step>> steps = chain_->steps;
  return hooked(input, [&](const Tensor& x) {
    Tensor value = x;
    for (const Step& step : *steps) value = step(value);
    return value;
  });
}

const Layer& Sequential::operator[](std::size_t i) const {
  const std::vector<Layer>& all = layers("Sequential::operator[]");
  ADJOINT_CHECK(i < all.size(), "Sequential: an index must be below the number of layers; got {} of {}", i, all.size());
  return all[i];
}

}  // namespace adjoint::nn
