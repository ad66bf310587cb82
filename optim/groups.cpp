#include <adjoint/optim/groups.h>

#include <adjoint/core/base/check.h>

#include <fnmatch.h>

#include <algorithm>

namespace adjoint::optim {

Selector::Selector(const std::string& pattern)
    : Selector(pattern, [pattern](const std::string& name, const Tensor&) {
        return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
      }) {}

Selector::Selector(std::string description, std::function<bool(const std::string&, const Tensor&)> selects)
    : description_(std::move(description)), selects_(std::move(selects)) {}

Selector any_of(std::string description, const std::vector<Tensor>& parameters) {
  return {std::move(description), [parameters](const std::string&, const Tensor& parameter) {
            return std::any_of(parameters.begin(), parameters.end(),
                               [&](const Tensor& t) { return t.impl() == parameter.impl(); });
          }};
}

std::vector<std::vector<Tensor>> select_parameters(const NamedTensors& parameters,
                                                   const std::vector<Selector>& selectors) {
  std::vector<std::vector<Tensor>> groups(selectors.size() + 1);
  for (const auto& [name, parameter] : parameters) {
    std::size_t group = selectors.size();
    for (std::size_t s = 0; s < selectors.size(); ++s) {
      if (!selectors[s](name, parameter)) continue;
      ADJOINT_CHECK(group == selectors.size(), "group_by: a parameter must be in one group; got '{}' in {} and in {}",
                    name, selectors[std::min(group, selectors.size() - 1)].description(), selectors[s].description());
      group = s;
    }
    groups[group].push_back(parameter);
  }
  for (std::size_t s = 0; s < selectors.size(); ++s) {
    ADJOINT_CHECK(!groups[s].empty(), "group_by: a group must hold a parameter; got none of {} for {}",
                  parameters.size(), selectors[s].description());
  }
  return groups;
}

}  // namespace adjoint::optim
