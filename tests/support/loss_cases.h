// The losses of the table (ops/loss/table.h) in one form, with which tests loop over all.
#pragma once

#include <adjoint/ops/loss/loss.h>

#include <functional>
#include <string>
#include <vector>

namespace adjoint::testing {

/// The parameter of those that have one, in `call` and in the fixtures.
inline constexpr double kLossParameter = 0.8;

struct LossCase {
  std::string name;
  Tensor (*call)(const Tensor& input, const Tensor& target, Named<Reduction> reduction);
  std::string parameter = {};  // its name; empty if it has no name
  std::function<Tensor(const Tensor& input, const Tensor& target, double parameter)> with = {};
};

const std::vector<LossCase>& loss_cases();

}  // namespace adjoint::testing
