// What a planner is told of the machine that it plans for: a value, so that no plan depends on what else is true when
// it is made. Planners that are not told read machine.h.
#pragma once

#include <adjoint/ops/conv/base/machine.h>

#include <cstdint>

namespace adjoint::cuda {

/// An H200, whatever runs the plan: a device's own numbers must not choose the kernel, and so the bits.
struct Machine {
  int multiprocessors = static_cast<int>(kMultiprocessors);
  std::int64_t smem_bytes = 227 * 1024;  // of a block
  // Bytes a clock: of the L2 to one multiprocessor by the copy engine, while all ask; from and to memory, of all
  // multiprocessors together.
  double l2_bytes = 33, moved_bytes = 1800;
};

/// Of as many multiprocessors as planned_multiprocessors() says.
inline Machine planned_machine() { return {.multiprocessors = planned_multiprocessors()}; }

}  // namespace adjoint::cuda
