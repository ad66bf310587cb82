// Neighbouring elements that move as one.
#pragma once

namespace adjoint::cuda {

/// V elements, aligned to their size: one load or store where that is at most 16 bytes.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T values[V];
};

}  // namespace adjoint::cuda
