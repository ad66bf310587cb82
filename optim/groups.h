// Groups of a module's parameters, selected by name, by the type of their module, or by a function.
//
//   optim::AdamW adam(optim::group_by<optim::AdamWOptions>(
//       net.named_parameters(), {{.select = "encoder.*", .frozen = true},
//                                {.select = optim::of_type<nn::LayerNorm>(net),
//                                 .options = optim::AdamWOptions{.lr = 1e-3, .weight_decay = 0.0}}}),
//       {.lr = 1e-3});
#pragma once

#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/optim/optimizer.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::optim {

/// Selects the parameters of a group.
class ADJOINT_API Selector {
 public:
  /// Parameters whose whole name matches a pattern, as a shell matches file names (POSIX fnmatch): * matches any
  /// characters, including dots, ? one character, [ab] one of these.
  Selector(const std::string& pattern);                              // NOLINT(google-explicit-constructor)
  Selector(const char* pattern) : Selector(std::string(pattern)) {}  // NOLINT(google-explicit-constructor)
  /// Parameters for which `selects` is true. `description` appears in errors.
  Selector(std::string description, std::function<bool(const std::string& name, const Tensor& parameter)> selects);

  bool operator()(const std::string& name, const Tensor& parameter) const { return selects_(name, parameter); }
  const std::string& description() const { return description_; }

 private:
  std::string description_;
  std::function<bool(const std::string&, const Tensor&)> selects_;
};

/// Exactly these tensors.
ADJOINT_API Selector any_of(std::string description, const std::vector<Tensor>& parameters);

/// The parameters of every M below `net`: of_type<nn::BatchNorm2d>(net).
template <class M, class Net>
Selector of_type(const Net& net) {
  std::vector<Tensor> parameters;
  std::string type = "a type that the module does not hold";
  net.template visit<M>([&](const M& module) {
    type = module.type();
    for (const Tensor& parameter : module.parameters()) parameters.push_back(parameter);
  });
  return any_of(type, parameters);
}

/// A selected group: a ParamGroup with a selector in place of its parameters.
template <class Options>
struct GroupBy {
  Selector select;
  std::optional<Options> options = {};
  bool frozen = false;
};

/// The tensors of each selector, in order, and then the rest. Throws Error for a parameter in two groups, which it
/// names, and for a selector that selects nothing.
ADJOINT_API std::vector<std::vector<Tensor>> select_parameters(const NamedTensors& parameters,
                                                               const std::vector<Selector>& selectors);

/// A group for each of `groups`, and a last one with all other parameters, which has the optimiser's own options (it
/// may be empty). Throws Error as select_parameters does.
template <class Options>
std::vector<ParamGroup<Options>> group_by(const NamedTensors& parameters, const std::vector<GroupBy<Options>>& groups) {
  std::vector<Selector> selectors;
  for (const GroupBy<Options>& group : groups) selectors.push_back(group.select);
  std::vector<ParamGroup<Options>> found;
  for (std::vector<Tensor>& params : select_parameters(parameters, selectors)) found.push_back({std::move(params)});
  for (std::size_t g = 0; g < groups.size(); ++g) {
    found[g].options = groups[g].options;
    found[g].frozen = groups[g].frozen;
  }
  return found;
}

}  // namespace adjoint::optim
