// NamedTensors: an ordered list of names and tensors, the form in which modules and optimisers export their state; and
// options for importing it.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adjoint {

/// state[0] is a pair, state["0.weight"] a tensor.
class ADJOINT_API NamedTensors : public std::vector<std::pair<std::string, Tensor>> {
 public:
  using std::vector<std::pair<std::string, Tensor>>::vector;
  using std::vector<std::pair<std::string, Tensor>>::operator[];

  /// The first tensor of this name. Throws Error, listing the names, if no tensor has it.
  template <std::convertible_to<std::string_view> Name>
  const Tensor& operator[](const Name& name) const {
    return named(name);
  }
  template <std::convertible_to<std::string_view> Name>
  Tensor& operator[](const Name& name) {
    return const_cast<Tensor&>(named(name));
  }
  bool contains(std::string_view name) const;

 private:
  const Tensor& named(std::string_view name) const;
};

struct LoadStateOptions {
  /// True: state that does not match the importing object is an Error that names the difference. False: the object
  /// imports the entries that match.
  bool strict = true;
};

}  // namespace adjoint
