// Readers of tests/fixtures/optim.json for the tests of optim.
#pragma once

#include <adjoint/optim/adagrad.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/adam_variants.h>
#include <adjoint/optim/lion.h>
#include <adjoint/optim/rmsprop.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/support/fixtures.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace adjoint::optim {

using Json = nlohmann::json;

inline const Json& fixture() {
  static const Json json = [] {
    std::ifstream file(testing::fixture("optim.json"));
    return Json::parse(file);
  }();
  return json;
}

// Those that the fixture names; the others stay as they are.
template <class Options>
Options options_of(const Json& given) {
  Options o;
  const auto take = [&](const char* name, auto& value) { value = given.value(name, value); };
  take("lr", o.lr);
  take("weight_decay", o.weight_decay);
  if constexpr (requires { o.betas; }) take("betas", o.betas);
  if constexpr (requires { o.eps; }) take("eps", o.eps);
  if constexpr (requires { o.amsgrad; }) take("amsgrad", o.amsgrad);
  if constexpr (requires { o.momentum; }) take("momentum", o.momentum);
  if constexpr (requires { o.dampening; }) take("dampening", o.dampening);
  if constexpr (requires { o.nesterov; }) take("nesterov", o.nesterov);
  if constexpr (requires { o.alpha; }) take("alpha", o.alpha);
  if constexpr (requires { o.centered; }) take("centered", o.centered);
  if constexpr (requires { o.momentum_decay; }) take("momentum_decay", o.momentum_decay);
  if constexpr (requires { o.lr_decay; }) take("lr_decay", o.lr_decay);
  if constexpr (requires { o.initial_accumulator_value; }) {
    take("initial_accumulator_value", o.initial_accumulator_value);
  }
  if constexpr (requires { o.ns_steps; }) take("ns_steps", o.ns_steps);
  if constexpr (requires { o.ns_coefficients; }) take("ns_coefficients", o.ns_coefficients);
  return o;
}

template <class Optimiser, class Options>
std::unique_ptr<Optimizer> make(const std::vector<Tensor>& parameters, const Json& options) {
  return std::make_unique<Optimiser>(parameters, options_of<Options>(options));
}

inline std::unique_ptr<Optimizer> make_optimizer(const Json& c, const std::vector<Tensor>& parameters) {
  using Make = std::unique_ptr<Optimizer> (*)(const std::vector<Tensor>&, const Json&);
  static const std::map<std::string, Make> makers{
      {"sgd", make<SGD, SGDOptions>},          {"adam", make<Adam, AdamOptions>},
      {"adamw", make<AdamW, AdamWOptions>},    {"rmsprop", make<RMSprop, RMSpropOptions>},
      {"lion", make<Lion, LionOptions>},       {"adagrad", make<Adagrad, AdagradOptions>},
      {"adamax", make<Adamax, AdamaxOptions>}, {"nadam", make<NAdam, NAdamOptions>},
      {"radam", make<RAdam, RAdamOptions>}};
  return makers.at(c["kind"])(parameters, c["options"]);
}

inline Tensor start(DType dtype) {
  const auto values = fixture()["start"].get<std::vector<double>>();
  return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())},
                             {.dtype = dtype, .requires_grad = true});
}

// Of the fixture's parameter, in float64.
inline SGD optimizer_of(double lr, double momentum = 0.0) {
  return SGD({start(kFloat64)}, {.lr = lr, .momentum = momentum});
}

// The fixture's gradient at step t.
inline void set_gradient(Tensor& p, std::size_t t) {
  std::vector<double> gradient = p.to_vector<double>();
  for (double& g : gradient) g = g * g * g / 3 + 0.1 * static_cast<double>(t + 1) - 0.25;
  p.set_grad(Tensor::from_vector(gradient, p.shape(), {.dtype = p.dtype(), .device = p.device()}));
}

}  // namespace adjoint::optim
