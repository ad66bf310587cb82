// A search along a line for a step that lowers the loss enough and leaves little slope: the strong Wolfe conditions
// (Nocedal, Wright: "Numerical optimization", 2006, algorithms 3.5 and 3.6). Internal to optim.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <functional>

namespace adjoint::optim {

/// The loss and gradient at one step length.
struct LineTrial {
  double length = 0.0;
  double loss = 0.0;
  double slope = 0.0;  // of the loss along the line
  Tensor gradient = {};
};

/// The best trial found from `start` (length 0); `length` is tried first. The search ends if an interval times `unit`,
/// the direction's largest element, is below `tolerance`, and after 25 trials.
LineTrial strong_wolfe(const std::function<LineTrial(double length)>& evaluate, const LineTrial& start, double length,
                       double unit, double tolerance);

}  // namespace adjoint::optim
