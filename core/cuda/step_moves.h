// The inputs of a captured step before it runs, and its outputs.
#pragma once

#include <adjoint/core/graph/step_graphs.h>

#include <cstddef>
#include <span>

namespace adjoint::cuda {

/// Implements StepDevice::feed(), in the order of the device's current stream: `to` is 16-byte aligned. One launch for
/// up to eight moves and the numbers, which are read before it returns.
void feed_step(std::span<const detail::StepMove> moves, void* to, const std::byte* from, std::size_t nbytes,
               int device);
/// Implements StepDevice::deliver(), on the current stream.
void deliver_step_output(const void* from, void* const* to, std::size_t nbytes, int device);

}  // namespace adjoint::cuda
