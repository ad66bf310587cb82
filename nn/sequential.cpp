#include <adjoint/nn/sequential.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/module_state.h>
#include <adjoint/nn/norm.h>

#include <algorithm>
#include <mutex>

namespace adjoint::nn {
namespace {

using Step = std::function<Tensor(const Tensor&)>;

// Separately if either has hooks, which must see the tensor between them.
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

// Both layers as one operator; empty if they are not such a pair. Only exact types, because derived ones may compute
// something else.
Step fused(const Layer& first, const Layer& second) {
  Activation activation;
#define ADJOINT_LOOK(Name, ...) \
  if (const Name* module = second.get_if<Name>()) activation = module->activation();
  ADJOINT_ACTIVATIONS(ADJOINT_LOOK, ADJOINT_LOOK, ADJOINT_LOOK)
#undef ADJOINT_LOOK
  if (activation.is_none()) return {};
  return step_of<Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, BatchNorm1d, BatchNorm2d,
                 BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm, GroupNorm, RMSNorm>(
      first, second, activation);
}

}  // namespace

void Layer::wrong_type() const {
  fail("Layer::as: the type must be the one that the layer was made from; got another for a {}", type());
}

void Layer::empty_function() { fail("Layer: the function must not be empty; got one without a target"); }

Sequential::Sequential() : Module("Sequential") {}

Sequential::Chain::Chain() : steps(std::make_shared<Steps>()) {}

Sequential::Chain::Chain(const Chain& other)
    : layers(other.layers), steps(std::make_shared<Steps>(*other.steps)), assignable(other.assignable) {}

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
  // A running call continues with the steps that it began with.
  current_steps();
  if (chain_->steps.use_count() > 1) chain_->steps = std::make_shared<Steps>(*chain_->steps);
  Steps& steps = *chain_->steps;
  std::vector<Child<Layer>>& layers = chain_->layers;
  // Everything that can fail comes first.
  NextStep next = next_step(layers.empty() ? nullptr : &layers.back(), layer);
  detail::reserve_one(layers);
  detail::reserve_one(steps.steps);
  detail::reserve_one(steps.made_of);
  layers.push_back(add_child(op, name, std::move(layer)));
  add_step(steps, std::move(next));
}

Sequential::NextStep Sequential::next_step(const Layer* last, const Layer& layer) {
  Step both = last == nullptr ? Step{} : fused(*last, layer);
  const bool fuses = both != nullptr;
  return {.step = fuses ? std::move(both) : Step(layer), .fuses = fuses, .made_of = layer};
}

void Sequential::add_step(Steps& steps, NextStep next) {
  if (next.fuses) {
    steps.steps.back() = std::move(next.step);
  } else {
    steps.steps.push_back(std::move(next.step));
  }
  steps.made_of.push_back(std::move(next.made_of));
}

// Rebuilt if a layer was assigned to since.
std::shared_ptr<const Sequential::Steps> Sequential::current_steps() const {
  if (!chain_->assignable) return chain_->steps;
  static std::mutex making;  // guards every chain's steps; held while they are compared or made, never while they run
  static const HeldAtFork at_fork(making);
  const std::lock_guard lock(making);
  const std::vector<Child<Layer>>& layers = chain_->layers;
  const auto same = [](const Module& layer, const Module& made_of) { return layer == made_of; };
  if (!std::equal(layers.begin(), layers.end(), chain_->steps->made_of.begin(), chain_->steps->made_of.end(), same)) {
    auto steps = std::make_shared<Steps>();
    for (std::size_t i = 0; i < layers.size(); ++i)
      add_step(*steps, next_step(i == 0 ? nullptr : &layers[i - 1], layers[i]));
    chain_->steps = std::move(steps);
  }
  return chain_->steps;
}

Tensor Sequential::operator()(const Tensor& input) const {
  check_not_moved_from("Sequential");
  const std::shared_ptr<const Steps> steps = current_steps();
  return hooked(input, [&](const Tensor& x) {
    Tensor value = x;
    for (const Step& step : steps->steps) value = step(value);
    return value;
  });
}

const Child<Layer>& Sequential::operator[](std::size_t i) const {
  const std::vector<Child<Layer>>& all = layers("Sequential::operator[]");
  ADJOINT_CHECK(i < all.size(), "Sequential: an index must be below the number of layers; got {} of {}", i, all.size());
  return all[i];
}

Child<Layer>& Sequential::operator[](std::size_t i) {
  const auto& layer = std::as_const(*this)[i];
  return assignable("Sequential::operator[]")[static_cast<std::size_t>(&layer - chain_->layers.data())];
}

}  // namespace adjoint::nn
