// The host's numbers on their way to a graph.
#pragma once

#include <cstddef>

namespace adjoint::cuda {

/// Writes `nbytes` bytes, at most detail::StepValues::kBytes, to the device at an address that 16 divides, in the order
/// of its current stream. They are read before it returns.
void write_step_values(void* to, const std::byte* from, std::size_t nbytes, int device);

}  // namespace adjoint::cuda
