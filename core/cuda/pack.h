// Neighbouring elements that move as one.
#pragma once

#include <adjoint/core/dtype.h>

#include <cstdint>

namespace adjoint::cuda {

/// V elements, aligned to their size: one load or store where that is at most 16 bytes.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T values[V];
};

/// Whether V neighbours from `data` on are one Pack.
template <class T, int V>
ADJOINT_HD inline bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % (sizeof(T) * V) == 0;
}

}  // namespace adjoint::cuda
