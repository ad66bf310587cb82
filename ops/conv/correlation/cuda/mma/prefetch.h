// The distance between loads and products in the mma.sync kernel of conv and conv_transpose: plain C++, tested without
// a GPU.
//
// A step needs its filter block, and the first step of a chunk also the chunk's stage of input. Both go to rings in
// shared memory, of w_slots and x_stages places; a step's copies are one group of cp.async, and groups finish in order.
#pragma once

#include <adjoint/ops/conv/correlation/plan.h>

#include <algorithm>

namespace adjoint::cuda {

inline constexpr int kMostStepsAhead = 3;

/// The number of steps between a step's products and the copies that start with them: the most, up to kMostStepsAhead,
/// for which the copies overwrite no place that this step or a later one still reads. Resident filter blocks are never
/// overwritten.
inline int correlation_steps_ahead(const CorrelationPlan& p) {
  int fewest_steps = kMaxSteps;
  for (int i = 0; i < p.classes; ++i) {
    for (int j = p.class_list[i].first_pass; j < p.class_list[i].first_pass + p.class_list[i].passes; ++j) {
      fewest_steps = std::min(fewest_steps, p.passes[j].end_step - p.passes[j].first_step);
    }
  }
  const auto fits = [&](int ahead) {
    const int stages = 1 + (ahead + fewest_steps - 1) / fewest_steps;
    return stages <= p.x_stages && (p.weights_resident || ahead + 1 <= p.w_slots);
  };
  int ahead = kMostStepsAhead;
  while (ahead > 1 && !fits(ahead)) --ahead;
  return ahead;
}

}  // namespace adjoint::cuda
