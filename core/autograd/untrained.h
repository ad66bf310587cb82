// Parameters that get gradients while nothing trains them: a module that was never registered, a layer that was
// assigned after the optimiser was made, a parameter that was left out of its list. Internal to core, nn and optim.
//
// Modules register the leaves that are their parameters, and optimisers the leaves that they update. A parameter that
// gets its gradient in the same sweep as one that an optimiser updates, but is in no optimiser itself, is named in a
// warning, once: when optimisers have stepped twice since it was first seen so and nobody has written to it meanwhile,
// as a program does that updates it by hand. There is no warning for frozen parameters, which get no gradient, for
// frozen groups, which are in an optimiser, for gradient(), and for sweeps that reach no optimiser's parameter.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace adjoint {

/// A parameter's place in a module.
class ParameterPlace {
 public:
  virtual ~ParameterPlace() = default;
  /// "Generator.decoder.weight", or empty if another tensor has replaced it.
  virtual std::string name_of(const TensorImpl& parameter) const = 0;
};

namespace detail {

/// The marks of a leaf.
struct TrainingMarks {
  std::weak_ptr<const ParameterPlace> place;          // the last one; empty: no module's parameter
  std::vector<std::weak_ptr<const void>> optimizers;  // that update it; some may be gone
  const void* storage = nullptr;                      // the place where it was first seen without one
  std::uint64_t steps = 0;                            // of optimisers, by then
  std::uint32_t version = 0;                          // of its storage, then
  bool settled = false;                               // reported, or written to by the program
};

ADJOINT_API void mark_parameter(const Tensor& leaf, std::weak_ptr<const ParameterPlace> place);
/// `optimizer` has the optimiser's lifetime.
ADJOINT_API void mark_trained(const Tensor& leaf, const std::shared_ptr<const void>& optimizer);
/// An optimiser steps.
ADJOINT_API void count_optimizer_step();
/// A sweep of backward() has given these leaves their gradients.
void check_trained(const std::vector<const TensorImpl*>& leaves);

}  // namespace detail
}  // namespace adjoint
