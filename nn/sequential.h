// Sequential: modules and functions, one after the other.
//
//   nn::Sequential net{nn::Conv2d(3, 16, {.kernel_size = 3, .padding = 1}), nn::ReLU(),
//                      nn::ConvTranspose2d(16, 3, {.kernel_size = 4, .stride = 2, .padding = 1})};
//   Tensor y = net(x);
//   net[0].as<nn::Conv2d>().weight;
//
// A convolution or a normalisation and the activation right behind it run as one operator (Activation in
// ops/conv/conv.h describes the rounding in half precision). Both stay children, with their names and parameters.
#pragma once

#include <adjoint/nn/clone.h>
#include <adjoint/nn/module.h>

#include <any>
#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint::nn {

/// A module, or a function without parameters, as a map from one tensor to one tensor.
class ADJOINT_API Layer : public Module {
 public:
  template <class M>
  requires(std::derived_from<M, Module> && !std::same_as<detail::RegisteredType<M>, Layer> &&
           std::is_invocable_r_v<Tensor, const M&, const Tensor&>) Layer(M module)
      : Module(module),
        forward_(Call<detail::RegisteredType<M>>{std::move(module)}),
        own_([](const Layer& layer) { return std::any(*layer.get_if<detail::RegisteredType<M>>()); }) {
    check_not_moved_from("Layer");
  }
  /// A module that cannot be a layer: reports the reason, once.
  template <class M>
  requires(std::derived_from<M, Module> && !std::same_as<detail::RegisteredType<M>, Layer> &&
           !std::is_invocable_r_v<Tensor, const M&, const Tensor&>) Layer(M) {
    static_assert(std::is_invocable_r_v<Tensor, const M&, const Tensor&>,
                  "a module in a Sequential needs a public `Tensor operator()(const Tensor& input) const`");
  }
  /// Throws Error for a function that is empty, such as std::function's default.
  template <class F>
  requires(!std::derived_from<F, Module> && std::is_invocable_r_v<Tensor, const F&, const Tensor&>) Layer(F function)
      : Module("Function"), forward_(std::move(function)) {
    if (forward_ == nullptr) empty_function();
  }

  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input) const {
    check_not_moved_from("Layer");
    return hooked(input, forward_);
  }

  /// The module under its own type. Throws Error if it has another type.
  template <class M>
  M as() const {
    check_not_moved_from("Layer::as");
    const M* module = get_if<M>();
    if (module == nullptr) wrong_type();
    return *module;
  }
  /// Like as(), but null if it has another type, even one derived from M. Valid as long as the layer.
  template <class M>
  const M* get_if() const {
    const Call<M>* call = forward_.template target<Call<M>>();
    return call == nullptr ? nullptr : &call->module;
  }

  /// The module under its own type, for Module::visit.
  std::any own_type() const { return own_(*this); }

 private:
  template <class M>
  struct Call {
    M module;
    Tensor operator()(const Tensor& input) const { return module(input); }
  };
  [[noreturn]] void wrong_type() const;
  [[noreturn]] static void empty_function();

  std::function<Tensor(const Tensor&)> forward_;
  std::any (*own_)(const Layer&) = [](const Layer& layer) { return std::any(layer); };  // the module under its own type
};

class ADJOINT_API Sequential : public Module {
 public:
  Sequential();
  /// Children are named "0", "1", ...
  template <std::convertible_to<Layer>... Layers>
  requires(sizeof...(Layers) > 0 && !(sizeof...(Layers) == 1 && (std::derived_from<Layers, Sequential> &&
                                                                 ...))) explicit Sequential(Layers... layers)
      : Sequential() {
    (append_next("Sequential", std::move(layers)), ...);
  }
  /// Children with their own names: nn::Sequential net{{"conv", nn::Conv2d(...)}, {"act", nn::ReLU()}}.
  explicit Sequential(std::initializer_list<std::pair<std::string, Layer>> layers);

  /// Named by its index.
  void append(Layer layer);
  void append(const std::string& name, Layer layer);
  void push_back(Layer layer) { append(std::move(layer)); }
  void push_back(const std::string& name, Layer layer) { append(name, std::move(layer)); }

  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input) const;

  std::size_t size() const { return layers("Sequential::size").size(); }
  /// Throws Error outside [0, size()). Assigning to an element registers the new layer in its place: net[0] =
  /// Conv2d(...).
  const Child<Layer>& operator[](std::size_t i) const;
  Child<Layer>& operator[](std::size_t i);
  auto begin() const { return layers("Sequential::begin").cbegin(); }
  auto end() const { return layers("Sequential::end").cend(); }
  auto begin() { return assignable("Sequential::begin").begin(); }
  auto end() { return assignable("Sequential::end").end(); }

 private:
  using Step = std::function<Tensor(const Tensor&)>;
  /// The computation of a call, and the layers from which it was made.
  struct Steps {
    std::vector<Step> steps;
    std::vector<Module> made_of;
  };
  struct NextStep {
    Step step;
    bool fuses;  // it replaces the last one
    Module made_of;
  };
  struct Chain {
    std::vector<Child<Layer>> layers;
    std::shared_ptr<Steps> steps;
    bool assignable = false;  // an assignable element was handed out

    Chain();
    Chain(const Chain& other);
    Chain& operator=(Chain&&) = default;
  };

  void append(const char* op, const std::string& name, Layer layer);
  void append_next(const char* op, Layer layer);  // named by its index
  static NextStep next_step(const Layer* last, const Layer& layer);
  static void add_step(Steps& steps, NextStep next);
  std::shared_ptr<const Steps> current_steps() const;
  const std::vector<Child<Layer>>& layers(const char* op) const {
    check_not_moved_from(op);
    return chain_->layers;
  }
  std::vector<Child<Layer>>& assignable(const char* op) {
    check_not_moved_from(op);
    chain_->assignable = true;
    return chain_->layers;
  }

  Shared<Chain> chain_;
};

}  // namespace adjoint::nn
