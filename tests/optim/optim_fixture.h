// Readers of tests/fixtures/optim.json for the tests of optim.
#pragma once

#include <adjoint/core/base/check.h>
#include <adjoint/optim/optimizers.h>
#include <adjoint/tests/support/fixtures.h>

#include <nlohmann/json.hpp>

#include <cctype>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
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

template <class Optimiser>
using OptionsOf = decltype(std::declval<const Optimiser&>().options());

// f(name, option) for the options of optimisers besides master_weights.
template <class Options, class F>
void visit_options(Options& o, const F& f) {
  f("lr", o.lr);
  f("weight_decay", o.weight_decay);
  if constexpr (requires { o.betas; }) f("betas", o.betas);
  if constexpr (requires { o.eps; }) f("eps", o.eps);
  if constexpr (requires { o.amsgrad; }) f("amsgrad", o.amsgrad);
  if constexpr (requires { o.momentum; }) f("momentum", o.momentum);
  if constexpr (requires { o.dampening; }) f("dampening", o.dampening);
  if constexpr (requires { o.nesterov; }) f("nesterov", o.nesterov);
  if constexpr (requires { o.alpha; }) f("alpha", o.alpha);
  if constexpr (requires { o.centered; }) f("centered", o.centered);
  if constexpr (requires { o.momentum_decay; }) f("momentum_decay", o.momentum_decay);
  if constexpr (requires { o.lr_decay; }) f("lr_decay", o.lr_decay);
  if constexpr (requires { o.initial_accumulator_value; }) {
    f("initial_accumulator_value", o.initial_accumulator_value);
  }
  if constexpr (requires { o.ns_steps; }) f("ns_steps", o.ns_steps);
  if constexpr (requires { o.ns_coefficients; }) f("ns_coefficients", o.ns_coefficients);
}

// Those that the fixture names; the others stay as they are.
template <class Options>
Options options_of(const Json& given) {
  Options o;
  visit_options(o, [&](const char* name, auto& value) { value = given.value(name, value); });
  return o;
}

// f.operator()<Optimiser>() for every optimiser of the table.
template <class F>
void visit_optimizers(const F& f) {
#define ADJOINT_VISIT(Name, ...) f.template operator()<Name>();
  ADJOINT_OPTIMIZERS(ADJOINT_VISIT, ADJOINT_VISIT)
#undef ADJOINT_VISIT
}

// The fixture's name of an optimiser, which is its own in small letters.
template <class Optimiser>
std::string kind_of() {
  std::string kind = OptionsOf<Optimiser>::kName;
  for (char& letter : kind) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return kind;
}

// f.operator()<Optimiser>() for the one that the fixture means.
template <class F>
void visit_optimizer(const std::string& kind, const F& f) {
  bool found = false;
  visit_optimizers([&]<class Optimiser>() {
    if (kind != kind_of<Optimiser>()) return;
    found = true;
    f.template operator()<Optimiser>();
  });
  ADJOINT_CHECK(found, "the table of optimisers must have the fixture's; got {}", kind);
}

inline std::unique_ptr<Optimizer> make_optimizer(const Json& c, const std::vector<Tensor>& parameters) {
  std::unique_ptr<Optimizer> made;
  visit_optimizer(c["kind"], [&]<class Optimiser>() {
    made = std::make_unique<Optimiser>(parameters, options_of<OptionsOf<Optimiser>>(c["options"]));
  });
  return made;
}

inline std::string name_of(const Json& c) { return c["kind"].get<std::string>() + " " + c["options"].dump(); }

inline Tensor start(DType dtype) {
  const auto values = fixture()["start"].get<std::vector<double>>();
  return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())},
                             {.dtype = dtype, .requires_grad = true});
}

// The fixture's parameter, in float64.
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
